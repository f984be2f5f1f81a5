"""TLS by Python's own library, with the settings of librdkafka: for what is asked without it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from riverrun.errors import ConfigError

CONNECTING = 5.0
"""Seconds for a broker to take a connection."""
SETTINGS = "[kafka] in the settings"


def context(client: Mapping[str, str]) -> ssl.SSLContext:
    """Whom we trust, and who we are. A file that cannot be read is an OSError."""
    made = _trusting(client)
    if client.get("enable.ssl.certificate.verification", "true").lower() == "false":
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    elif client.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        made.check_hostname = False
    _name_ourselves(made, client)
    return made


def _trusting(client: Mapping[str, str]) -> ssl.SSLContext:
    place, text = client.get("ssl.ca.location"), client.get("ssl.ca.pem")
    if place is not None and Path(place).is_dir():
        return ssl.create_default_context(capath=place, cadata=text)
    return ssl.create_default_context(cafile=None if place == "probe" else place, cadata=text)


def _name_ourselves(made: ssl.SSLContext, client: Mapping[str, str]) -> None:
    if "ssl.keystore.location" in client:
        raise ConfigError(
            "queues do not read a keystore",
            where=SETTINGS,
            got="ssl.keystore.location",
            hint="name the files of ssl.certificate.location and ssl.key.location",
        )
    with TemporaryDirectory() as folder:  # Python takes files only; nobody else can read these
        certificate = _file(client, "ssl.certificate", Path(folder))
        key = _file(client, "ssl.key", Path(folder))
        if certificate is not None:
            made.load_cert_chain(certificate, key, client.get("ssl.key.password"))


def _file(client: Mapping[str, str], name: str, folder: Path) -> str | None:
    if text := client.get(f"{name}.pem"):
        written = folder / name
        written.write_text(text)
        return str(written)
    return client.get(f"{name}.location")


def doubt(client: Mapping[str, str], host: str, port: int) -> str | None:
    """What is wrong with a broker's certificate; None if nothing is, or nobody answers.
    librdkafka tells only that something is."""
    with (
        suppress(OSError, ConfigError),
        socket.create_connection((host, port), CONNECTING) as plain,
    ):
        try:
            context(client).wrap_socket(plain, server_hostname=host).close()
        except ssl.SSLCertVerificationError as error:
            return error.verify_message
    return None
