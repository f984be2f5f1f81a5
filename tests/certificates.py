"""An authority that signs certificates for the loopback interface, and one that nobody knows."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Signed:
    """A certificate and its key; `both` is one file with the two of them, as Kafka wants it."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """Keeps what it signs as files of a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder, _named(name)
        self.key = ec.generate_private_key(ec.SECP256R1())
        signs = x509.BasicConstraints(ca=True, path_length=0)
        made = _draft(name, self.key, DAY).issuer_name(self.name).add_extension(signs, True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(_text(made.sign(self.key, hashes.SHA256())))

    def sign(self, name: str, *, ends: timedelta = DAY) -> Signed:
        """For 127.0.0.1. One that ends before now has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        made = _draft(name, key, ends).issuer_name(self.name).add_extension(where, False)
        found = Signed(*(self.folder / f"{name}.{kind}" for kind in ("crt", "key", "pem")))
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        found.certificate.write_bytes(_text(made.sign(self.key, hashes.SHA256())))
        found.key.write_bytes(secret)
        found.both.write_bytes(secret + found.certificate.read_bytes())
        return found


def _draft(name: str, key: ec.EllipticCurvePrivateKey, ends: timedelta) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 30 * DAY)
        .not_valid_after(now + ends)
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _text(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
