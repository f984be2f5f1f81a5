"""A broker that asks who we are, and proves who it is: TLS by certificates, SASL over TLS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokers import LOOPBACK, Servers, servers
from certificates import Authority, Signed
from riverrun.config import Settings
from riverrun.embedded import ports

USER, SECRET = "ann", 'open "sesame", = %'
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
DOORS = {"SECURE": "SASL_SSL", "MUTUAL": "SSL", "EXPIRED": "SSL"}


@dataclass(frozen=True)
class Secured:
    """A running broker, and what one needs to get in. `trusted` signed the broker's certificate,
    `unknown` did not."""

    servers: Servers
    doors: dict[str, int]
    trusted: Authority
    unknown: Authority
    client: Signed

    def at(self, door: str) -> str:
        return f"{LOOPBACK}:{self.doors[door]}"

    def sasl(self, mechanism: str = "SCRAM-SHA-512", **changes: str) -> dict[str, str]:
        """The table [kafka] of a user who is let in."""
        own = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.username": USER,
            "sasl.password": SECRET,
            "ssl.ca.location": str(self.trusted.file),
        }
        return {**own, **{name.replace("_", "."): value for name, value in changes.items()}}

    def mutual(self, signed: Signed) -> dict[str, str]:
        """Let in by a certificate of one's own."""
        return {
            "security.protocol": "SSL",
            "ssl.ca.location": str(self.trusted.file),
            "ssl.certificate.location": str(signed.certificate),
            "ssl.key.location": str(signed.key),
        }

    def client_of(self, door: str, own: dict[str, str]) -> dict[str, str]:
        return {"bootstrap.servers": self.at(door), **own}


@contextmanager
def secured(settings: Settings, folder: Path) -> Iterator[Secured]:
    trusted, unknown = Authority(folder, "trusted"), Authority(folder, "unknown")
    broker = trusted.sign("broker")
    expired = trusted.sign("expired", ends=timedelta(days=-1))
    doors = {name: ports.any_free() for name in DOORS}
    listeners = [(name, DOORS[name], port) for name, port in doors.items()]
    more = {**_shown("SECURE", broker), **_shown("MUTUAL", broker), **_shown("EXPIRED", expired)}
    more |= _asking(trusted)
    with servers(settings, folder, listeners=listeners, more=more) as running:
        _known(running)
        yield Secured(running, doors, trusted, unknown, trusted.sign("client"))


def _shown(door: str, signed: Signed) -> dict[str, str]:
    own = f"listener.name.{door.lower()}.ssl"
    return {f"{own}.keystore.type": "PEM", f"{own}.keystore.location": str(signed.both)}


def _asking(trusted: Authority) -> dict[str, str]:
    quoted = SECRET.replace('"', '\\\\"')
    own = "listener.name.secure"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{own}.plain.sasl.jaas.config": f'{PLAIN} required user_{USER}="{quoted}";',
        f"{own}.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        f"{own}.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(trusted.file),
    }


def _known(running: Servers) -> None:
    cluster = AdminClient(running.client)
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(kind, 4096)
        known = UserScramCredentialUpsertion(USER, info, SECRET.encode())
        cluster.alter_user_scram_credentials([known])[USER].result()


def settings_file(brokers: str, own: dict[str, str]) -> str:
    """A riverrun.toml."""
    quoted = {name: value.replace('"', '\\"') for name, value in own.items()}
    lines = [f'brokers = "{brokers}"', "[kafka]", *(f'{n} = "{v}"' for n, v in quoted.items())]
    return "\n".join(lines)
