"""Spark's settings as a file, for spark-submit: on its command line everybody could read them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from riverrun import private


def written(file: Path, settings: Mapping[str, str]) -> Path:
    lines = (f"{name}={_escaped(str(value))}\n" for name, value in settings.items())
    private.write(file, "".join(lines))
    return file


def option(file: Path) -> list[str]:
    """What is in the file holds over Spark's own file of defaults."""
    return ["--properties-file", str(file), "--load-spark-defaults"]


def _escaped(text: str) -> str:
    """As Java's Properties read it."""
    return text.replace("\\", "\\\\").replace("\n", "\\n")
