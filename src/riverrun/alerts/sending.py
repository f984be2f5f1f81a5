"""What is sent of a notification, and by whom: a request to an address, or a message to people."""

from __future__ import annotations

import smtplib
import ssl
from abc import ABC, abstractmethod
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

from riverrun import exact
from riverrun.alerts.channels import Channel, Hook, Mail
from riverrun.alerts.outbox import Outbox
from riverrun.config_tables import Smtp
from riverrun.sinks.webhooks import Post, Refusal

PATIENCE = 20.0
"""Seconds that a server of mail has for each answer."""
LASTING = range(500, 600)
"""Answers of a server of mail that it gives again whenever it is asked."""

Note = dict[str, Any]
"""A notification, as the outbox holds it."""


class Sender(ABC):
    @abstractmethod
    def send(self, note: Note) -> Refusal | None:
        """None if it was taken."""


def payload(application: str, outbox: Outbox, note: Note) -> dict[str, Any]:
    """A notification, as others are told of it."""
    told = {name: value for name, value in note.items() if name not in (*outbox.keys, "row")}
    group = {name: note.get(name) for name in outbox.keys}
    row = exact.loads(note["row"])
    return {"application": application, "step": outbox.step, "group": group, **told, "row": row}


class Posting(Sender):
    def __init__(self, application: str, outbox: Outbox, hook: Hook) -> None:
        self.application, self.outbox = application, outbox
        self.post = Post(hook.url, hook.headers, timeout=hook.timeout, tries=1)

    def send(self, note: Note) -> Refusal | None:
        body = exact.dumps(payload(self.application, self.outbox, note))
        return self.post.send(body.encode(), note["key"])


class Mailing(Sender):
    def __init__(self, application: str, outbox: Outbox, mail: Mail, smtp: Smtp) -> None:
        self.application, self.outbox, self.mail, self.smtp = application, outbox, mail, smtp

    def send(self, note: Note) -> Refusal | None:
        try:
            refused = self._sent(self.message(note))
        except smtplib.SMTPRecipientsRefused as error:
            return _refusal(error.recipients)
        except smtplib.SMTPAuthenticationError as error:
            return Refusal(_said(error.smtp_code, error.smtp_error), again=True)
        except smtplib.SMTPResponseException as error:
            said = _said(error.smtp_code, error.smtp_error)
            return Refusal(said, again=error.smtp_code not in LASTING)
        except (smtplib.SMTPException, OSError) as error:
            return Refusal(f"{type(error).__name__}: {error}"[:200], again=True)
        # the others have it: sent again, they would have it twice
        return Refusal(_refusal(refused).cause, again=False) if refused else None

    def _sent(self, message: EmailMessage) -> dict[str, tuple[int, bytes]]:
        """Who was refused, of several."""
        smtp, context = self.smtp, ssl.create_default_context()
        whole = smtp.security == "tls"
        opened = (
            smtplib.SMTP_SSL(smtp.host, smtp.port, timeout=PATIENCE, context=context)
            if whole
            else smtplib.SMTP(smtp.host, smtp.port, timeout=PATIENCE)
        )
        with opened as server:
            if smtp.security == "starttls":
                server.starttls(context=context)
            if smtp.user is not None:
                server.login(smtp.user, smtp.password or "")
            return server.send_message(message)

    def message(self, note: Note) -> EmailMessage:
        sender = sender_of(self.mail, self.smtp)
        host = sender.rpartition("@")[2]
        message = EmailMessage(policy=SMTP)
        message["From"], message["To"] = sender, ", ".join(self.mail.to)
        message["Subject"] = _printable(f"[{note['kind']}] {note['title']}")
        message["Date"] = datetime.fromisoformat(note["at"])
        message["Message-ID"] = f"<{note['key']}@{host}>"
        # what is told of one group is one thread
        message["References"] = f"<{note['alert']}@{host}>"
        message["Auto-Submitted"] = "auto-generated"
        message["X-Alert-Key"] = note["key"]
        message.set_content(self._text(note), cte="base64")
        return message

    def _text(self, note: Note) -> str:
        said = [note["text"], ""]
        if note["by"] is not None:
            said.append(f"acknowledged by {note['by']}: {note['comment'] or ''}")
        said.append(
            f"{note['n']} rows since {note['since']}; {self.application} {self.outbox.step}"
        )
        if note["by"] is None and note["kind"] != "resolved":
            said.append(f"riverrun alerts ack {self.application} {note['alert']}")
        return "\n".join(said).encode(errors="replace").decode()


def sender_of(mail: Mail, smtp: Smtp) -> str:
    return mail.sender or smtp.sender or f"riverrun@{smtp.host}"


def sender(application: str, outbox: Outbox, channel: Channel, smtp: Smtp | None) -> Sender:
    match channel:
        case Hook():
            return Posting(application, outbox, channel)
        case Mail() if smtp is not None:
            return Mailing(application, outbox, channel, smtp)
        case _:
            raise ValueError(f"nothing is sent by {channel}")


def _refusal(recipients: dict[str, tuple[int, bytes]]) -> Refusal:
    causes = [f"{who}: {_said(*why)}" for who, why in recipients.items()]
    lasting = all(code in LASTING for code, _ in recipients.values())
    return Refusal("; ".join(causes)[:200], again=not lasting)


def _said(code: int, answer: bytes | str) -> str:
    text = answer.decode(errors="replace") if isinstance(answer, bytes) else answer
    return f"{code} {' '.join(text.split())}"[:200]


def _printable(text: str) -> str:
    """A header has no line breaks, and nothing that cannot be seen."""
    return "".join(each if each.isprintable() else " " for each in text)
