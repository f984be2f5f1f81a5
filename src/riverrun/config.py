"""Settings: defaults, then riverrun.toml, then the environment, then the command line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast, get_args

from riverrun.config_tables import NAME, Serving, Smtp, duration, serving, smtp
from riverrun.durations import UNITS
from riverrun.errors import ConfigError, InputError
from riverrun.far import URL, AnyPath, parsed

FILE = "riverrun.toml"
NAME_RULE = (
    "an application's name starts with a letter and has letters, digits, _ . and -, at most 200"
)
Views = Literal["sqlite", "postgres"]
Calls = Literal["quickest", "direct", "public"]
"""How Kafka's client is called: by librdkafka's own functions, or the public way."""
LogForm = Literal["text", "json"]
Poison = Literal["stop", "set-aside"]
"""What becomes of a record that ends every run."""
DOTTED = ("kafka", "spark")
"""Tables of settings that are not ours."""
SIZES = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}


@dataclass(frozen=True)
class Settings:
    """What a program needs to know of its surroundings.

    `brokers` is None for the embedded broker, `postgres` for the embedded server; `valkey`, the
    server of caches, is None if there is none. `kafka` holds any librdkafka setting (TLS, SASL, …)
    and is passed through as it is.
    """

    home: Path
    cache: Path
    brokers: str | None = None
    postgres: str | None = field(default=None, repr=False)
    connect: str | None = field(default=None, repr=False)
    """Kafka Connect; None for the embedded one."""
    connect_password: str | None = field(default=None, repr=False)
    """What connectors are told in place of a database's password, such as `${file:…:password}`."""
    capture: Literal["riverrun", "connect"] = "riverrun"
    """Who captures tables, unless the program says: `riverrun` or `connect`."""
    valkey: str | None = field(default=None, repr=False)
    views: Views = "sqlite"
    """Where views are kept: in a file of the home, or in PostgreSQL."""
    views_reader: str | None = field(default=None, repr=False)
    """PostgreSQL as a role that only reads views: other people's queries are run by it."""
    kafka: Mapping[str, str] = field(default_factory=dict, repr=False)
    spark: Mapping[str, str] = field(default_factory=dict, repr=False)
    master: str = "local[*]"
    checkpoints: AnyPath | None = None
    """A folder of this machine, or of a far file system; None for one of the home."""
    archive: Path | None = None
    """Where records of topics are kept; None for a folder of the home."""
    environment: str = "same"
    """The Python of a cluster's executors: the same at the same path, or an archive to send."""
    state_memory: int = 1 << 30
    """Bytes of state that a Python worker holds in memory; the rest is on disk."""
    compaction_lag: int = UNITS["day"]
    """Microseconds that records stay in topics of tables that are made, whatever comes after."""
    reader: Calls = "quickest"
    writer: Calls = "quickest"
    log: LogForm = "text"
    """How `riverrun run` tells what it does."""
    traces: str | None = field(default=None, repr=False)
    """Where a collector of OpenTelemetry takes spans over HTTP; None if nobody does."""
    nice: int | None = None
    """How much Spark gives way to other processes, 0 to 19; None: as much as the program should."""
    serve: Serving = field(default_factory=Serving)
    smtp: Smtp | None = None
    """None if no messages can be sent."""
    keys: str | None = field(default=None, repr=False)
    """The PostgreSQL of the keys of personal values, or a store of one's own; None for a file of
    the home."""

    @property
    def checkpoint_root(self) -> AnyPath:
        return self.checkpoints or self.home / "checkpoints"

    def checkpoint_of(self, application: str) -> AnyPath:
        """The folder of an application's checkpoint."""
        return self.checkpoint_root / named(application)

    def run_of(self, application: str) -> Path:
        """The folder of what its runs leave: logs, status."""
        return self.home / "runs" / named(application)

    @property
    def archive_root(self) -> Path:
        return self.archive or self.home / "archive"

    def client(self, brokers: str | None = None) -> dict[str, str]:
        """The librdkafka settings of a client of the configured brokers."""
        servers = brokers or self.brokers
        if servers is None:
            raise ConfigError("no broker is configured", hint="run `riverrun up`, or set --brokers")
        return {"bootstrap.servers": servers, **self.kafka}

    def override(self, **changes: Any) -> Settings:
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given).checked()

    def checked(self) -> Settings:
        known = r"local(\[(\*|[1-9]\d*)(, *\d+)?\])?|(spark|k8s|local-cluster)[:\[].+|yarn"
        if not re.fullmatch(known, self.master):
            raise ConfigError(
                "the Spark master cannot be read",
                got=repr(self.master),
                hint="local[*], local[4], spark://host:7077, yarn, or k8s://…",
            )
        return self


def named(application: str) -> str:
    """The name, if it may be a path: those of programs are checked when they are built."""
    if not NAME.fullmatch(application):
        raise InputError(NAME_RULE, got=repr(application))
    return application


def load(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    environ = os.environ if environ is None else environ
    file = _find(start or Path.cwd())
    table = _read(file) if file else {}
    spark = {name: str(value) for name, value in table.pop("spark", {}).items()}
    found = Settings(
        home=_home(file, table, environ),
        cache=_cache(environ),
        brokers=environ.get("RIVERRUN_BROKERS") or table.pop("brokers", None),
        postgres=environ.get("RIVERRUN_POSTGRES") or table.pop("postgres", None),
        connect=environ.get("RIVERRUN_CONNECT") or table.pop("connect", None),
        connect_password=table.pop("connect_password", None),
        capture=_capture(environ.get("RIVERRUN_CAPTURE") or table.pop("capture", "riverrun")),
        valkey=environ.get("RIVERRUN_VALKEY") or table.pop("valkey", None),
        views_reader=environ.get("RIVERRUN_VIEWS_READER") or table.pop("views_reader", None),
        views=_views(environ.get("RIVERRUN_VIEWS") or table.pop("views", "sqlite"), file),
        kafka=_located(file, table.pop("kafka", {})),
        spark=spark,
        master=environ.get("RIVERRUN_MASTER") or table.pop("master", "local[*]"),
        checkpoints=_checkpoints(file, table, environ, spark),
        archive=_folder("archive", file, table, environ),
        environment=_environment(file, table, environ),
        state_memory=_bytes(table.pop("state_memory", "1 GB"), file),
        compaction_lag=duration("compaction_lag", table.pop("compaction_lag", "1 day"), file),
        reader=_calls("reader", table, environ, file),
        writer=_calls("writer", table, environ, file),
        log=_log(environ.get("RIVERRUN_LOG") or table.pop("log", "text"), file),
        traces=_traces(environ.get("RIVERRUN_TRACES") or table.pop("traces", None), file),
        nice=_niceness(environ.get("RIVERRUN_NICE") or table.pop("nice", None), file),
        serve=serving(table.pop("serve", {}), file),
        smtp=smtp(table.pop("smtp", None), environ, file),
        keys=_keys(environ.get("RIVERRUN_KEYS") or table.pop("keys", None), file),
    )
    return found.checked()


def settings_file() -> Path | None:
    """The riverrun.toml that holds here."""
    return _find(Path.cwd())


def _find(start: Path) -> Path | None:
    return next((d / FILE for d in (start, *start.parents) if (d / FILE).is_file()), None)


def _read(file: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError("the settings file is not valid TOML", where=file, got=error) from error
    known = {
        "archive", "brokers", "capture", "checkpoints", "compaction_lag", "connect",
        "connect_password", "environment", "home", "kafka", "keys", "log", "master", "nice",
        "postgres", "reader", "serve", "smtp", "spark", "state_memory", "traces", "valkey", "views",
        "views_reader", "writer",
    }  # fmt: skip
    unknown = sorted(set(table) - known)
    if unknown:
        raise ConfigError(
            f"unknown setting {unknown[0]!r}", where=file, hint=f"known: {', '.join(sorted(known))}"
        )
    return _flattened(table)


def _flattened(table: dict[str, Any]) -> dict[str, Any]:
    """`[kafka] security.protocol = "SSL"` is nested in TOML; librdkafka's names are dotted."""

    def dotted(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for name, item in value.items():
            path = f"{prefix}{name}"
            flat.update(dotted(item, f"{path}.") if isinstance(item, dict) else {path: item})
        return flat

    return {
        name: dotted(each) if name in DOTTED and isinstance(each, dict) else each
        for name, each in table.items()
    }


def _home(file: Path | None, table: dict[str, Any], environ: Mapping[str, str]) -> Path:
    if "RIVERRUN_HOME" in environ:
        return Path(environ["RIVERRUN_HOME"]).expanduser().absolute()
    if file is not None:
        return (file.parent / Path(table.pop("home", ".riverrun")).expanduser()).absolute()
    data = environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "riverrun"


def _cache(environ: Mapping[str, str]) -> Path:
    if "RIVERRUN_CACHE" in environ:
        return Path(environ["RIVERRUN_CACHE"]).expanduser().absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "riverrun"


def _folder(
    name: str, file: Path | None, table: dict[str, Any], environ: Mapping[str, str]
) -> Path | None:
    """In the settings file its path is relative to that file."""
    named = environ.get(f"RIVERRUN_{name.upper()}") or table.pop(name, None)
    if named is None:
        return None
    return ((file.parent if file else Path.cwd()) / Path(named).expanduser()).absolute()


def _located(file: Path | None, table: Mapping[str, Any]) -> dict[str, str]:
    """Files of certificates and keys are relative to the settings file: Spark's workers, and a
    command in another folder, would look elsewhere for them."""

    def whole(name: str, value: str) -> str:
        if file is None or not re.fullmatch(r"ssl\..*location", name) or value == "probe":
            return value
        return str((file.parent / Path(value).expanduser()).absolute())

    return {name: whole(name, str(value)) for name, value in table.items()}


def _checkpoints(
    file: Path | None, table: dict[str, Any], environ: Mapping[str, str], spark: Mapping[str, str]
) -> AnyPath | None:
    """A URL is far, also that of a file system of this machine."""
    named = environ.get("RIVERRUN_CHECKPOINTS") or table.get("checkpoints")
    if named is not None and URL.match(str(named)):
        return parsed(str(named), spark)
    return _folder("checkpoints", file, table, environ)


def _environment(file: Path | None, table: dict[str, Any], environ: Mapping[str, str]) -> str:
    """`same`, or an archive: in the settings file its path is relative to that file."""
    if named := environ.get("RIVERRUN_ENVIRONMENT"):
        return named
    named = str(table.pop("environment", "same"))
    return named if named == "same" or file is None else str(file.parent / named)


def _capture(who: object) -> Literal["riverrun", "connect"]:
    match who:
        case "riverrun":
            return "riverrun"
        case "connect":
            return "connect"
        case _:
            raise ConfigError(
                "it is not known who is to capture tables",
                got=f"capture = {who!r}",
                hint='"riverrun", or "connect" for Debezium on Kafka Connect',
            )


def _calls(who: str, table: dict[str, Any], environ: Mapping[str, str], file: Path | None) -> Calls:
    named = environ.get(f"RIVERRUN_{who.upper()}") or table.pop(who, "quickest")
    if named not in get_args(Calls):
        hint = f"one of {', '.join(get_args(Calls))}"
        raise ConfigError(f"there is no such {who}", where=file, got=repr(named), hint=hint)
    return cast(Calls, named)


def _views(named: Any, file: Path | None) -> Views:
    if named not in get_args(Views):
        hint = f"one of {', '.join(get_args(Views))}"
        raise ConfigError("views cannot be kept there", where=file, got=repr(named), hint=hint)
    return cast(Views, named)


def _log(named: Any, file: Path | None) -> LogForm:
    if named not in get_args(LogForm):
        hint = f"one of {', '.join(get_args(LogForm))}"
        raise ConfigError("there is no such form of a log", where=file, got=repr(named), hint=hint)
    return cast(LogForm, named)


def _traces(address: Any, file: Path | None) -> str | None:
    if address is not None and not re.match("https?://.", str(address)):
        hint = 'write it as "http://localhost:4318"'
        raise ConfigError("no traces can be sent there", where=file, got=repr(address), hint=hint)
    return None if address is None else str(address)


def _keys(address: Any, file: Path | None) -> str | None:
    if address is not None and not str(address).startswith(("postgresql://", "python:")):
        hint = (
            'keys = "postgresql://…" or "python:module:Store"; else they are in a file of the home'
        )
        raise ConfigError("keys cannot be kept there", where=file, got=repr(address), hint=hint)
    return None if address is None else str(address)


def _niceness(given: Any, file: Path | None) -> int | None:
    if given is not None and not re.fullmatch(r"1?\d", str(given)):
        raise ConfigError("nice is a number from 0 to 19", where=file, got=repr(given))
    return None if given is None else int(given)


def _bytes(text: Any, file: Path | None) -> int:
    """`"512 MB"` in bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(KB|MB|GB|TB)", str(text).strip(), re.IGNORECASE)
    if not found:
        raise ConfigError(
            "a size cannot be read",
            where=file,
            got=f"state_memory = {text!r}",
            hint='write it as "512 MB" or "2 GB"',
        )
    return int(float(found[1]) * SIZES[found[2].upper()])
