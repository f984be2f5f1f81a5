"""Jobs as bytes that any worker can read: processors travel with the code of their program."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from riverrun.errors import ProgramError
from riverrun.kernels.program import Program
from riverrun.operators.process.spec import ProcessSpec


def portable(job: Any, program: Program) -> bytes:
    """The job; what its processors need of the program's own modules goes along."""
    with _by_value(_own_modules(program)):
        for step in _processing(program):
            _require_portable(step)
        data: bytes = cloudpickle.dumps(job)
        return data


def _processing(program: Program) -> list[ProcessSpec]:
    return [step.does for step in program.steps if isinstance(step.does, ProcessSpec)]


def _require_portable(step: ProcessSpec) -> None:
    try:
        cloudpickle.dumps(step.processor)
    except Exception as error:
        raise ProgramError(
            f"the processor of {step.name!r} cannot be sent to Spark's workers",
            got=f"{type(error).__name__}: {error}",
            hint="open files and connections in the handlers, not in __init__ or the module",
        ) from error


def _own_modules(program: Program) -> list[ModuleType]:
    """Modules that define processors, and those beside them: workers may not have their files."""
    folders = set()
    for step in _processing(program):
        for kind in type(step.processor).__mro__:
            module = sys.modules.get(kind.__module__)
            file = getattr(module, "__file__", None)
            if file and not kind.__module__.startswith("riverrun."):
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
