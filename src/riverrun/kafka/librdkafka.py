"""librdkafka's own functions, called by ctypes: the library inside confluent_kafka's wheel.

It keeps doing TLS, SASL, leaders, retries, compression and transactions; what is saved is a Python
object for each record. What was not tried is left to the public way: see `why_not`.
"""

from __future__ import annotations

import ctypes as c
import sys
from typing import Any, Literal

import confluent_kafka
from confluent_kafka import cimpl

from riverrun.config import Calls

TRIED = ((2, 3), (2, 16))
"""The versions of librdkafka between which it was tried."""

Way = Literal["direct", "public"]
"""How the client is called: by librdkafka's own functions, or by those of confluent_kafka."""

Pointer = c.c_void_p


def why_not() -> str | None:
    """Why the public way is taken; None if the direct one can be."""
    version = tuple(map(int, confluent_kafka.libversion()[0].split(".")[:2]))
    if sys.platform != "linux" or sys.byteorder != "little" or sys.maxsize < 1 << 60:
        return f"not tried on {sys.platform} with this processor"
    if not TRIED[0] <= version <= TRIED[1]:
        return f"not tried with librdkafka {confluent_kafka.libversion()[0]}"
    return None


def way_of(wanted: Calls) -> Way:
    if wanted == "quickest":
        return "public" if why_not() else "direct"
    return wanted


class Library:
    """Where functions of librdkafka are found."""

    def __init__(self) -> None:
        self.waiting = c.CDLL(cimpl.__file__)  # a symbol is looked up in what it is linked to, too
        self.quick = c.PyDLL(cimpl.__file__)  # keeps the GIL: for what is called per record

    def function(self, name: str, result: Any, *arguments: Any, quick: bool = False) -> Any:
        found = getattr(self.quick if quick else self.waiting, f"rd_kafka_{name}")
        found.restype, found.argtypes = result, arguments
        return found
