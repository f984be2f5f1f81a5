"""Jobs as bytes that any worker can read: processors travel with the code of their program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from riverrun.errors import ProgramError
from riverrun.program import Processing, Program

EVERYWHERE = frozenset({"riverrun", *sys.stdlib_module_names})
"""Packages that workers have themselves."""


def portable(job: Any, program: Program) -> bytes:
    """The job; what its processors need of the program's own modules goes along."""
    with _by_value(_own_modules(program)):
        for step in _processing(program):
            _require_portable(step)
        data: bytes = cloudpickle.dumps(job)
        return data


def without_processors(program: Program) -> Program:
    """All that is needed to write what a program gives."""
    others = tuple(step for step in program.steps if not isinstance(step, Processing))
    return replace(program, steps=others)


def _processing(program: Program) -> list[Processing]:
    return [step for step in program.steps if isinstance(step, Processing)]


def _own_objects(program: Program) -> list[Any]:
    """What runs in workers and may be of the user's own classes."""
    read, written = ([each.format for each in some] for some in (program.sources, program.outputs))
    return [*(step.processor for step in _processing(program)), *read, *written]


def _require_portable(step: Processing) -> None:
    try:
        cloudpickle.dumps(step.processor)
    except Exception as error:
        raise ProgramError(
            f"the processor of {step.name!r} cannot be sent to Spark's workers",
            got=f"{type(error).__name__}: {error}",
            hint="open files and connections in the handlers, not in __init__ or the module",
        ) from error


def _own_modules(program: Program) -> list[ModuleType]:
    """Modules that define them, and those beside these: workers may not have their files."""
    folders = set()
    for own in _own_objects(program):
        for kind in type(own).__mro__:
            module = sys.modules.get(kind.__module__)
            file = getattr(module, "__file__", None)
            if file and kind.__module__.partition(".")[0] not in EVERYWHERE:
                folders.add(Path(file).parent)
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and name == module.__name__ != "__main__"
        and Path(file).parent in folders
    ]


@contextmanager
def _by_value(modules: list[ModuleType]) -> Iterator[None]:
    already = cloudpickle.list_registry_pickle_by_value()
    ours = [module for module in modules if module.__name__ not in already]
    for module in ours:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in ours:
            cloudpickle.unregister_pickle_by_value(module)
