"""Steps as paths name them: `APP.STEP`."""

from __future__ import annotations

from collections.abc import Callable, Collection

from riverrun.asking import step_called
from riverrun.config import Settings
from riverrun.server.answers import Refused


def step_here(
    settings: Settings, name: str, steps: Callable[[Settings, str], Collection[str]], what: str
) -> tuple[str, str]:
    """The application and the step, if they are known here: to ask others would make topics for
    whatever name is sent."""
    application, step = step_called(settings, name, steps)
    if step not in steps(settings, application):
        raise Refused(
            404, f"there is no step {what} of this name", got=name[:200],
            hint="APP.STEP, of an application that has run here",
        )  # fmt: skip
    return application, step
