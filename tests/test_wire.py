"""Kafka's encoding, and what is said to a broker before it lets us in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import socket
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.embedded import ports
from riverrun.errors import BrokerError, ConfigError
from riverrun.kafka.batches import batches
from riverrun.kafka.connection import Connection, scram
from riverrun.kafka.wire import Cursor, packed

SHAPE = {
    "flag": "bool", "small": "int8", "short": "int16", "number": "int32", "long": "int64",
    "id": "uuid", "name": "text", "content": "bytes", "many": ["int32"],
    "inner": [{"name": "text", "numbers": ["int64"]}],
}  # fmt: skip


def integers(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


VALUES = st.fixed_dictionaries(
    {
        "flag": st.booleans(), "small": integers(8), "short": integers(16), "number": integers(32),
        "long": integers(64), "id": st.uuids(), "name": st.none() | st.text(max_size=300),
        "content": st.none() | st.binary(max_size=300), "many": st.none() | st.lists(integers(32)),
        "inner": st.lists(
            st.fixed_dictionaries({"name": st.text(), "numbers": st.lists(integers(64))})
        ),
    }
)  # fmt: skip


@given(VALUES)
def test_what_is_packed_is_read_as_it_was(values):
    cursor = Cursor(packed(SHAPE, values))
    assert cursor.read(SHAPE) == values
    assert cursor.at == len(cursor.content)


def test_fields_that_are_not_known_are_skipped_and_what_may_be_absent_is_none():
    tagged = b"\x02\x01\x03abc\x05\x01x"  # two tags of three bytes and of one
    assert Cursor(b"\x00\x07" + tagged).read({"number": "int16"}) == {"number": 7}
    assert Cursor(b"\xff\x00").read({"inner": ({"id": "uuid"},)}) == {"inner": None}
    present = b"\x01" + UUID(int=5).bytes + b"\x00\x00"
    assert Cursor(present).read({"inner": ({"id": "uuid"},)}) == {"inner": {"id": UUID(int=5)}}


def test_an_answer_that_is_cut_is_an_error():
    with pytest.raises(ValueError, match="8 bytes are wanted, 2 are left"):
        Cursor(b"\0\0").read({"number": "int64"})
    assert list(batches(memoryview(bytes(70)[:50]))) == [], "a batch that is cut is left out"


def prover(user, password, kind):
    """A broker that knows the password: both sides of RFC 5802."""
    salt, rounds, said = b"salt", 4096, []

    def answer(content):
        text = content.decode()
        if not said:
            said.append(text.removeprefix("n,,"))
            nonce = said[0].partition(",r=")[2] + "theirs"
            said.append(f"r={nonce},s={base64.b64encode(salt).decode()},i={rounds}")
            return said[1].encode()
        bare, _, proof = text.rpartition(",p=")
        signed = ",".join([*said, bare]).encode()
        salted = hashlib.pbkdf2_hmac(kind, password.encode(), salt, rounds)
        key = hmac.digest(salted, b"Client Key", kind)
        wanted = hmac.digest(hashlib.new(kind, key).digest(), signed, kind)
        mixed = bytes(a ^ b for a, b in zip(base64.b64decode(proof), wanted, strict=True))
        assert mixed == key, "a wrong password"
        assert said[0].startswith(f"n={user},")
        server = hmac.digest(hmac.digest(salted, b"Server Key", kind), signed, kind)
        return b"v=" + base64.b64encode(server)

    return answer


@pytest.mark.parametrize("hashing", ["SHA256", "SHA512"])
def test_a_password_is_proven_without_being_sent(hashing):
    scram("ann", "secret", hashing=hashing, say=prover("ann", "secret", hashing.lower()))
    with pytest.raises(AssertionError, match="a wrong password"):
        scram("ann", "guess", hashing=hashing, say=prover("ann", "secret", hashing.lower()))


def test_a_broker_that_does_not_know_the_password_is_not_trusted():
    honest = prover("ann", "secret", "sha256")

    def liar(content):
        answer = honest(content)
        return b"v=" + base64.b64encode(b"guess") if answer.startswith(b"v=") else answer

    with pytest.raises(BrokerError, match="does not know our password"):
        scram("ann", "secret", hashing="SHA256", say=liar)


def test_a_broker_that_is_away_and_a_mechanism_that_is_not_known_are_clear_errors():
    with pytest.raises(BrokerError, match="Kafka does not answer"):
        Connection({}, "127.0.0.1", ports.any_free())
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
        with pytest.raises(ConfigError, match="do not know this way of authentication"):
            Connection(client, *server.getsockname())
