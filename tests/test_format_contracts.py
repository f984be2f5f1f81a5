"""Formats hold what every format must hold."""

from __future__ import annotations

from riverrun.formats import FORMATS, JSON, Format
from riverrun.testing.contracts.formats import FormatContract


class TestJson(FormatContract):
    garbage = (b"\xff\xfe{", b"", b"no JSON", b"[1, 2]", b'{"text": "a", "number": "many"}')

    def format(self) -> Format:
        return JSON


class TestNestedJson(FormatContract):
    garbage = TestJson.garbage

    def format(self) -> Format:
        return FORMATS["nested json"]


class TestLenientJson(FormatContract):
    garbage = TestJson.garbage

    def format(self) -> Format:
        return FORMATS["lenient json"]
