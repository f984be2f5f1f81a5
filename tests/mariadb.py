"""A real MariaDB for tests, from Debian's packages: unpacked, not installed, run on loopback.

Where they cannot be had the tests that need one are skipped, and say why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pymysql

from riverrun.embedded import ports
from riverrun.embedded.lock import exclusive
from riverrun.embedded.postgres_files import AS_NOBODY

PACKAGES = ("mariadb-server-core", "mariadb-server", "mariadb-common", "liburing2", "libaio1")
SETTINGS = {
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "server_id": "1",
    "skip_name_resolve": "ON",
    "innodb_use_native_aio": "OFF",
    "innodb_buffer_pool_size": "32M",
}


class NoMariaDb(Exception):
    """Why there is none."""


def unpacked(cache: Path) -> Path:
    """The folder of its programs, fetched once per user."""
    folder = cache / "mariadb"
    with exclusive(cache / "mariadb.lock"):
        if (folder / "usr" / "sbin" / "mariadbd").exists():
            return folder
        for program in ("apt-get", "dpkg", "unshare"):
            if shutil.which(program) is None:
                raise NoMariaDb(f"there is no {program}")
        draft = cache / "mariadb.draft"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        got = subprocess.run(
            ["apt-get", "download", *PACKAGES],
            cwd=draft,
            capture_output=True,
            text=True,
            check=False,
        )
        if got.returncode != 0:
            raise NoMariaDb(f"its packages cannot be fetched: {got.stderr.strip()[-200:]}")
        for package in draft.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, draft], check=True)
            package.unlink()
        draft.rename(folder)
    return folder


def command(programs: Path, data: Path, *arguments: str) -> list[str]:
    # Root has another number in a namespace of its own, and so has its files.
    shell = ["unshare", *AS_NOBODY] if os.geteuid() == 0 else []
    share = programs / "usr" / "share" / "mysql"
    own = (
        f"--datadir={data}",
        f"--lc-messages-dir={share}",
        f"--character-sets-dir={share}/charsets",
    )
    return [*shell, str(programs / "usr/sbin/mariadbd"), "--no-defaults", *own, *arguments]


@contextmanager
def running(programs: Path, home: Path) -> Iterator[str]:
    """The address of a server with an empty database `shop`; it is stopped after the block."""
    data, port = home / "data", ports.any_free()
    data.mkdir(parents=True)
    libraries = [str(each.parent) for each in programs.rglob("lib*.so.*")]
    environ = {**os.environ, "LD_LIBRARY_PATH": ":".join(dict.fromkeys(libraries))}
    _fill(programs, data, environ)
    options = [f"--{name}={value}" for name, value in SETTINGS.items()]
    where = (f"--port={port}", f"--bind-address={ports.LOOPBACK}", f"--socket={home}/socket")
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command(programs, data, *where, f"--plugin-dir={home}", *options),
            env=environ, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        _await(server, port, home / "log")
        yield f"mariadb://capture:s3cret%3A%2F%231@{ports.LOOPBACK}:{port}/shop"
    finally:
        server.terminate()
        server.wait(30)


def _fill(programs: Path, data: Path, environ: dict[str, str]) -> None:
    """The tables of the server itself, and a user of ours."""
    share = programs / "usr" / "share" / "mysql"
    (data / "mysql").mkdir()
    names = ("mysql_system_tables", "mysql_performance_tables", "mysql_system_tables_data",
             "maria_add_gis_sp_bootstrap", "mysql_sys_schema")  # fmt: skip
    text = "create database if not exists mysql;\nuse mysql;\nset @auth_root_socket=NULL;\n"
    text += "\n".join((share / f"{name}.sql").read_text() for name in names)
    text += "\nflush privileges;\ncreate database shop character set utf8mb4;"
    text += (
        "\ncreate user capture@'%' identified by 's3cret:/#1';\ngrant all on *.* to capture@'%';\n"
    )
    made = subprocess.run(
        command(programs, data, "--bootstrap", "--innodb-use-native-aio=OFF"),
        input=text.encode(), env=environ, capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise NoMariaDb(f"its tables cannot be made: {made.stderr.decode()[-300:]}")


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    give_up_at = time.monotonic() + 30
    while True:
        with suppress(pymysql.MySQLError):
            pymysql.connect(
                host=ports.LOOPBACK, port=port, user="capture", password="s3cret:/#1"
            ).close()
            return
        assert server.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < give_up_at, log.read_text()[-2000:]
        time.sleep(0.1)
