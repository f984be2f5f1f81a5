"""A program as a version of it runs: under its names, with results where they belong."""

from __future__ import annotations

import copy

from riverrun.app import App
from riverrun.compiler.versioned import published_outputs, versioned_outputs
from riverrun.versions import CURRENT, Version


def beside(app: App, version: Version, *, public: bool = False) -> App:
    """The program under the version's names, with results in places of its own, or in public.
    Tables are captured by the current one."""
    own = copy.copy(app)
    own.name = version.application
    if version.name != CURRENT:
        own.captures = []
    placed = published_outputs if public else versioned_outputs
    own.outputs = list(placed(tuple(app.outputs), version))
    return own
