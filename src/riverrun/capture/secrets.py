"""Passwords for the embedded Connect: in a file that only its owner reads, never in settings."""

from __future__ import annotations

from pathlib import Path


def secret_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.properties"


def property_text(value: str) -> str:
    """A value as Java's properties have it, every sign as its number: none means anything else."""
    units = value.encode("utf-16-be")
    return "".join(f"\\u{units[n]:02x}{units[n + 1]:02x}" for n in range(0, len(units), 2))
