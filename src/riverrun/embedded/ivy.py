"""Apache Ivy, which ships inside PySpark, as the downloader: it knows where jars live."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Protocol
from xml.sax.saxutils import quoteattr

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from riverrun.config import Settings
from riverrun.embedded import java
from riverrun.errors import JarError

STALLED = timedelta(minutes=2)

# Without the POMs a download takes a quarter of the time; the lock file already names every jar.
SETTINGS = """<ivysettings>
  <settings defaultResolver="jars"/>
  <resolvers><ibiblio name="jars" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""

MODULE = """<ivy-module version="2.0">
  <info organisation="riverrun" module="jars"/>
  <configurations><conf name="jars"/></configurations>
  <dependencies>
{dependencies}
  </dependencies>
</ivy-module>
"""


class Coordinates(Protocol):
    """What names a jar in a repository."""

    @property
    def group(self) -> str: ...
    @property
    def artifact(self) -> str: ...
    @property
    def version(self) -> str: ...


def retrieve(jars: Sequence[Coordinates], work: Path, *, title: str, settings: Settings) -> Path:
    """Download the jars into a folder under `work`, with a progress bar; returns that folder."""
    command = _command(jars, work, settings)
    log = settings.cache / "jars" / "ivy.log"
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=work)
    try:
        _watch(process, work / "cache", title, len(jars))
    finally:
        process.kill()
        process.wait()
    if process.returncode != 0:
        raise _failure(title, log)
    return work / "lib"


def _command(jars: Sequence[Coordinates], work: Path, settings: Settings) -> list[str]:
    dependencies = "\n".join(map(_dependency, jars))
    (work / "ivy.xml").write_text(MODULE.format(dependencies=dependencies))
    runtime = java.find(settings.cache)
    return [
        *(str(runtime.executable), "-XX:TieredStopAtLevel=1", "-jar", str(_ivy_jar())),
        *("-settings", str(_settings_file(work)), "-cache", str(work / "cache")),
        *("-ivy", str(work / "ivy.xml"), "-confs", "jars"),
        *("-retrieve", f"{work}/lib/[artifact]-[revision].[ext]"),
    ]


def _dependency(jar: Coordinates) -> str:
    names = f"org={quoteattr(jar.group)} name={quoteattr(jar.artifact)}"
    # `master` is the jar itself where a user's own settings read POMs, `default` where none are.
    mapping = 'transitive="false" conf="jars-&gt;master(default)"'
    return f"    <dependency {names} rev={quoteattr(jar.version)} {mapping}/>"


def _settings_file(work: Path) -> Path:
    own = os.environ.get("RIVERRUN_IVYSETTINGS")
    if own is None:
        file = work / "ivysettings.xml"
        file.write_text(SETTINGS)
        return file
    file = Path(own).expanduser().absolute()
    if not file.is_file():
        raise JarError(
            "the ivysettings file does not exist", where=file, hint="see RIVERRUN_IVYSETTINGS"
        )
    return file


def _ivy_jar() -> Path:
    # The package is located, not imported: it takes a second and only riverrun.spark may.
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else Path("pyspark/jars")
    found = sorted(folder.glob("ivy-*.jar"))
    if not found:
        raise JarError(
            "Ivy, which fetches the jars, is missing",
            where=folder,
            hint="run `pip install pyspark`",
        )
    return found[-1]


def _watch(process: subprocess.Popen[bytes], cache: Path, title: str, count: int) -> None:
    columns = (
        TextColumn("fetching {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[megabytes]:.1f} MB"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(title, total=count, megabytes=0.0)
        _poll(process, cache, progress, task)


def _poll(process: subprocess.Popen[bytes], cache: Path, progress: Progress, task: TaskID) -> None:
    seen, seen_at = (-1, -1), time.monotonic()
    while process.poll() is None:
        now = _downloaded(cache)
        if now != seen:
            seen, seen_at = now, time.monotonic()
            progress.update(task, completed=now[0], megabytes=now[1] / 1e6)
        if time.monotonic() - seen_at > STALLED.total_seconds():
            return
        time.sleep(0.1)


def _downloaded(cache: Path) -> tuple[int, int]:
    """How many jars are complete, and the bytes of all so far."""
    sizes: dict[Path, int] = {}
    for file in cache.rglob("*.jar*"):
        try:
            sizes[file] = file.stat().st_size
        except FileNotFoundError:
            # Ivy renames a part when it is complete.
            continue
    return sum(file.suffix == ".jar" for file in sizes), sum(sizes.values())


def _failure(title: str, log: Path) -> JarError:
    signs = ("UnknownHost", "Connect", "timed out", "not found", "FAILED", "rror")
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    telling = next((line for line in lines if any(sign in line for sign in signs)), None)
    return JarError(
        f"the {title} cannot be fetched",
        where=log,
        got=telling or "no answer",
        hint="is there a network? behind a proxy set JAVA_TOOL_OPTIONS=-Dhttps.proxyHost=…; for a"
        " mirror set RIVERRUN_IVYSETTINGS to your own ivysettings.xml",
    )
