"""The rest of a path, whatever is in it."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor


class Anything(Convertor[str]):
    """Starlette's own stops at the end of a line."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", Anything())
REST = "{rest:any}"
"""The last part of a route."""
