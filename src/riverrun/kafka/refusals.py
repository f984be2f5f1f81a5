"""Why a broker does not let us in: what librdkafka reports of it, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from riverrun.errors import BrokerError
from riverrun.kafka import tls
from riverrun.kafka.nodes import bootstrap

SILENT = "no Kafka broker answers"
REFUSED = "Kafka does not let us in"
UNTRUSTED = "certificate verify failed"
EXPIRED = "certificate has expired"
DOWN = re.compile(r"\d+/\d+ brokers are down")
WITHOUT_A_WORD = "it hangs up without a word"
RUNNING = "is it running, and is --brokers right? `riverrun up` starts a local one"
PASSWORD = "are sasl.mechanism, sasl.username and sasl.password right, in [kafka] of the settings?"
AUTHORITY = "ssl.ca.location, in [kafka] of the settings, names the file of who signed it"
RENEWAL = "the certificate of the broker is to be renewed"
OURSELVES = (
    "it wants a certificate of ours that it trusts: ssl.certificate.location and ssl.key.location, "
    "in [kafka] of the settings"
)
PROTOCOL = "is security.protocol, in [kafka] of the settings, that of this port?"


def refusal(client: Mapping[str, str], causes: Sequence[str], otherwise: str) -> BrokerError:
    """The error that says why. `causes` were reported, in this order; else there is `otherwise`."""
    told = next((each for each in causes if not DOWN.fullmatch(each)), None)
    got = told or (WITHOUT_A_WORD if causes else otherwise)
    if UNTRUSTED in got:
        got = _doubt(client) or got
    fact, hint = explained(got)
    return BrokerError(fact, where=client.get("bootstrap.servers"), got=got, hint=hint)


def explained(got: str) -> tuple[str, str]:
    """What it is, in a word, and what to do."""
    if "SASL authentication error" in got or "Unsupported SASL mechanism" in got:
        return REFUSED, PASSWORD
    if EXPIRED in got:
        return REFUSED, RENEWAL
    if UNTRUSTED in got:
        return REFUSED, AUTHORITY
    if "tls alert" in got.lower():
        return REFUSED, OURSELVES
    if got == WITHOUT_A_WORD or "broker listener?" in got or "security.protocol" in got:
        return REFUSED, PROTOCOL
    return SILENT, RUNNING


def _doubt(client: Mapping[str, str]) -> str | None:
    found = (tls.doubt(client, *node) for node in bootstrap(client))
    why = next(filter(None, found), None)
    return f"{UNTRUSTED}: {why}" if why else None
