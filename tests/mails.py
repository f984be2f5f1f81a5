"""A real server of mail, that keeps what it is sent and answers as a test wants it."""

from __future__ import annotations

import asyncio
import email
import email.policy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from riverrun.embedded import ports


@dataclass
class Mails:
    """What came, in order. `answer` is asked with each message."""

    answer: Callable[[EmailMessage], str] = lambda message: "250 OK"
    refused: dict[str, str] = field(default_factory=dict)
    """Answers to recipients."""
    password: str | None = None
    seen: list[EmailMessage] = field(default_factory=list)
    people: list[list[str]] = field(default_factory=list)
    """Whom each message is for."""
    port: int = 0

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, _: Any):  # noqa: N802
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        message = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(message, EmailMessage)
        answer = self.answer(message)
        if answer.startswith("2"):
            self.seen.append(message)
            self.people.append(list(envelope.rcpt_tos))
        return answer

    def keys(self) -> list[str]:
        return [each["X-Alert-Key"] for each in self.seen]


class Server(Controller):
    """One whose connections end with it, also those that are in use."""

    def factory(self) -> Any:
        protocol = super().factory()
        self.opened = [*getattr(self, "opened", ()), protocol]
        return protocol

    def stop(self, no_assert: bool = False) -> None:
        asyncio.run_coroutine_threadsafe(self._hang_up(), self.loop).result(10)
        super().stop(no_assert)

    async def _hang_up(self) -> None:
        for each in getattr(self, "opened", ()):
            if each.transport is not None:
                each.transport.abort()
        await asyncio.sleep(0.05)


@contextmanager
def receiving(mails: Mails, port: int | None = None) -> Iterator[Mails]:
    mails.port = port or ports.any_free()
    options: dict[str, Any] = {}
    if mails.password is not None:

        def known(
            server: Any, session: Any, envelope: Any, mechanism: str, data: Any
        ) -> AuthResult:
            return AuthResult(success=data.password.decode() == mails.password, handled=False)

        options = {"authenticator": known, "auth_required": True, "auth_require_tls": False}
    server = Server(mails, hostname="127.0.0.1", port=mails.port, **options)
    server.start()
    try:
        yield mails
    finally:
        server.stop()
