"""A connection to one broker, on which requests are answered one after the other.

librdkafka does all of this and more; what it does not let through is asked for here: see
docs/design/0023-queues.md. The settings are those of librdkafka.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError

from riverrun.errors import BrokerError, ConfigError
from riverrun.kafka import tls
from riverrun.kafka.refusals import PASSWORD, REFUSED, explained
from riverrun.kafka.requests import AUTHENTICATE, VERSIONS, Request
from riverrun.kafka.wire import NO_TAGS, Cursor, packed

CLIENT = b"riverrun"
ANSWERING = 15.0
"""Seconds for an answer, beside those that a request itself waits."""
HANDSHAKE_KEY, HANDSHAKE_VERSION = 17, 1
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
NEEDED = "queues need Kafka 4.2 or later"


class ConnectionGone(BrokerError):
    """The broker is away, or has hung up."""


class Connection:
    """Sends a request, and waits for its answer. For one thread at a time."""

    def __init__(self, client: Mapping[str, str], host: str, port: int) -> None:
        self.client, self.where = client, f"{host}:{port}"
        self.asked = 0
        protocol = client.get("security.protocol", "plaintext").lower()
        try:
            self.socket = socket.create_connection((host, port), tls.CONNECTING)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if protocol.endswith("ssl"):
                self.socket = tls.context(client).wrap_socket(self.socket, server_hostname=host)
        except OSError as error:
            raise self._gone(error) from error
        if protocol.startswith("sasl"):
            try:
                self._authenticate()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: Request, *, waiting: float = 0.0, **values: Any) -> dict[str, Any]:
        """The answer. `waiting` are the seconds that the broker may take on purpose."""
        header = struct.pack(">hhi", request.key, request.version, self.asked)
        name = struct.pack(">h", len(CLIENT)) + CLIENT + NO_TAGS
        cursor = self._sent(header + name + packed(request.asked, values), waiting)
        if request.tagged_answer:
            cursor.skip_tags()
        try:
            return cursor.read(request.answered)
        except (ValueError, IndexError, UnicodeDecodeError) as error:
            raise BrokerError(
                "an answer of Kafka cannot be read",
                where=self.where,
                got=f"{request.name}: {error}",
            ) from error

    def check(self, wanted: tuple[Request, ...]) -> None:
        """An error unless the broker speaks these."""
        found = self.ask(VERSIONS, software="riverrun", version="0")
        known = {each["key"]: range(each["first"], each["last"] + 1) for each in found["known"]}
        for request in wanted:
            if request.version not in known.get(request.key, ()):
                got = f"it does not know {request.name} in version {request.version}"
                raise BrokerError("the broker is too old", where=self.where, got=got, hint=NEEDED)

    def _sent(self, content: bytes, waiting: float = 0.0) -> Cursor:
        number, self.asked = self.asked, self.asked + 1
        try:
            self.socket.settimeout(ANSWERING + waiting)
            self.socket.sendall(struct.pack(">i", len(content)) + content)
            size = int.from_bytes(self._received(4), "big")
            cursor = Cursor(self._received(size))
        except OSError as error:
            self.close()
            raise self._gone(error) from error
        if cursor.number("int32") != number:
            self.close()
            raise self._gone("an answer to another request")
        return cursor

    def _received(self, size: int) -> memoryview:
        found = memoryview(bytearray(size))
        at = 0
        while at < size:
            count = self.socket.recv_into(found[at:])
            if not count:
                raise OSError("the broker has hung up")
            at += count
        return found

    def _gone(self, error: object) -> ConnectionGone:
        _, hint = explained(str(error))
        return ConnectionGone("Kafka does not answer", where=self.where, got=error, hint=hint)

    def _authenticate(self) -> None:
        mechanism = self.client.get("sasl.mechanism") or self.client.get("sasl.mechanisms", "")
        if mechanism not in MECHANISMS:
            raise ConfigError(
                "queues do not know this way of authentication",
                where="sasl.mechanism in [kafka] of the settings",
                got=mechanism or "none",
                hint=f"one of {', '.join(MECHANISMS)}",
            )
        name = mechanism.encode()
        header = struct.pack(">hhi", HANDSHAKE_KEY, HANDSHAKE_VERSION, self.asked)
        client = struct.pack(">h", len(CLIENT)) + CLIENT
        answer = self._sent(header + client + struct.pack(">h", len(name)) + name)
        self._refused(answer.number("int16"), None)
        user = self.client.get("sasl.username", ""), self.client.get("sasl.password", "")
        if mechanism == "PLAIN":
            self._say("\0".join(("", *user)).encode())
        else:
            scram(*user, hashing=mechanism.removeprefix("SCRAM-").replace("-", ""), say=self._say)

    def _say(self, content: bytes) -> bytes:
        answer = self.ask(AUTHENTICATE, content=content)
        self._refused(answer["error"], answer["message"])
        return bytes(answer["content"] or b"")

    def _refused(self, error: int, message: str | None) -> None:
        if error:
            got = message or error_text(error)
            raise BrokerError(REFUSED, where=self.where, got=got, hint=PASSWORD)


def scram(user: str, password: str, *, hashing: str, say: Callable[[bytes], bytes]) -> None:
    """Proves that we know the password, and that the broker does (RFC 5802)."""
    kind = hashing.lower()
    mine = base64.b64encode(os.urandom(24)).decode()
    first = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={mine}"
    theirs = say(f"n,,{first}".encode()).decode()
    told = dict(part.split("=", 1) for part in theirs.split(","))
    if not told["r"].startswith(mine):
        raise BrokerError("Kafka's answer is not to our question", got="SCRAM: another nonce")
    salted = hashlib.pbkdf2_hmac(
        kind, password.encode(), base64.b64decode(told["s"]), int(told["i"])
    )
    last = f"c={base64.b64encode(b'n,,').decode()},r={told['r']}"
    signed = f"{first},{theirs},{last}".encode()
    key = hmac.digest(salted, b"Client Key", kind)
    proof = hmac.digest(hashlib.new(kind, key).digest(), signed, kind)
    proven = base64.b64encode(bytes(a ^ b for a, b in zip(key, proof, strict=True))).decode()
    answer = dict(
        part.split("=", 1) for part in say(f"{last},p={proven}".encode()).decode().split(",")
    )
    expected = hmac.digest(hmac.digest(salted, b"Server Key", kind), signed, kind)
    if not hmac.compare_digest(base64.b64decode(answer.get("v", "")), expected):
        raise BrokerError("the broker does not know our password", got="SCRAM: a wrong signature")


def error_text(code: int) -> str:
    error = KafkaError(code)
    return f"{error.name()}: {error.str()}"
