"""Formats: bytes to columns and columns to bytes. Derive from `Format` for one of your own."""

from riverrun.formats.format import Format
from riverrun.formats.known import FORMATS, JSON, format_of
from riverrun.formats.query import arrow_schema
from riverrun.schema import Schema

__all__ = ["FORMATS", "JSON", "Format", "Schema", "arrow_schema", "format_of"]
