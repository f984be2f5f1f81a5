"""Who may do what: bearer tokens, each with scopes, kept as hashes in the home."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal

from starlette.requests import Request

from riverrun import private
from riverrun.config import Settings
from riverrun.errors import InputError
from riverrun.server.answers import Refused

Act = Literal["read", "query", "write", "ask", "change", "send", "reveal", "metrics"]
SCOPE = re.compile(r"(read|write|ask|change|send|reveal):([\w.*-]+)|query|metrics")
SCOPES = (
    "read:VIEW, reveal:VIEW, write:TOPIC, ask:APP.STEP, change:APP.STEP, send:KIND, each also with "
    "*, query and metrics"
)
LOCAL = ("127.0.0.1", "localhost", "[::1]", "::1")
FOLDER, FILE = "server", "tokens.json"


@dataclass(frozen=True)
class Holder:
    """Somebody with a token."""

    hash: str
    scopes: tuple[str, ...]
    made: float

    def may(self, act: Act, what: str) -> bool:
        wanted = act if act in ("query", "metrics") else f"{act}:{what}"
        return any(each in (wanted, f"{act}:*") for each in self.scopes)


class Tokens:
    """The file of tokens: read again when it has changed."""

    def __init__(self, settings: Settings) -> None:
        self.file = settings.home / FOLDER / FILE
        self._read_at: tuple[int, int] | None = None
        self._holders: dict[str, Holder] = {}

    @property
    def holders(self) -> Mapping[str, Holder]:
        """By name."""
        try:
            facts = self.file.stat()
        except FileNotFoundError:
            return {}
        version = facts.st_mtime_ns, facts.st_size
        if version != self._read_at:
            found = json.loads(self.file.read_text())
            self._holders = {
                name: Holder(each["hash"], tuple(each["scopes"]), each["made"])
                for name, each in found.items()
            }
            self._read_at = version
        return self._holders

    @property
    def needed(self) -> bool:
        """Once there has been a token, requests need one: who takes the last one back does not
        open the door to all."""
        return self.file.exists()

    def add(self, name: str, scopes: tuple[str, ...]) -> str:
        """The secret: it is shown once, and kept by nobody here."""
        if not re.fullmatch(r"[\w.-]{1,100}", name):
            raise InputError("a token's name has letters, digits, _ . and -", got=repr(name))
        for each in scopes:
            if not SCOPE.fullmatch(each):
                raise InputError("there is no such scope", got=repr(each), hint=SCOPES)
        if name in self.holders:
            raise InputError(f"there is a token {name!r}", hint=f"riverrun tokens remove {name}")
        secret = f"rrt_{secrets.token_urlsafe(32)}"
        self._write({**self.holders, name: Holder(hashed(secret), scopes, time.time())})
        return secret

    def remove(self, name: str) -> None:
        if name not in self.holders:
            known = ", ".join(self.holders) or "none"
            raise InputError(f"there is no token {name!r}", hint=f"there are: {known}")
        self._write({each: holder for each, holder in self.holders.items() if each != name})

    def _write(self, holders: Mapping[str, Holder]) -> None:
        private.folder(self.file.parent)
        found = {name: asdict(holder) for name, holder in holders.items()}
        private.replace(self.file, json.dumps(found, indent=1))


def hashed(secret: str) -> str:
    """Secrets are long and random: a plain hash cannot be searched for them."""
    return hashlib.sha256(secret.encode()).hexdigest()


class Guard:
    """Lets requests pass, or refuses them."""

    def __init__(self, tokens: Tokens, *, local: bool) -> None:
        self.tokens, self.local = tokens, local

    def who(self, request: Request) -> str:
        """Whom limits are counted by."""
        return self.holder(request) or (request.client.host if request.client else "")

    def require(self, request: Request, act: Act, what: str = "") -> None:
        self._require_host(request)
        if self.local and not self.tokens.needed and act != "reveal":
            return
        holders, name = self.tokens.holders, self.holder(request)
        if name is None:
            raise Refused(
                401, "a token is needed",
                hint="send `Authorization: Bearer …`; `riverrun tokens add` makes one",
                headers={"WWW-Authenticate": "Bearer"},
            )  # fmt: skip
        if not holders[name].may(act, what):
            raise Refused(
                403, "the token is not for this",
                hint=f"its scopes are {', '.join(holders[name].scopes)}",
            )  # fmt: skip

    def holder(self, request: Request) -> str | None:
        """Whose token it is."""
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret:
            return None
        given = hashed(secret.strip())
        return next((n for n, each in self.tokens.holders.items() if each.hash == given), None)

    def _require_host(self, request: Request) -> None:
        """A page of the web must not talk to this machine under a name of its own."""
        host = request.headers.get("host", "")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if self.local and name not in LOCAL:
            raise Refused(421, "the server is not of this name", got=host[:100])
