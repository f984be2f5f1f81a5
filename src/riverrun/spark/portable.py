"""Jobs as bytes that any worker can read: what is the user's own travels with its code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from riverrun.errors import ProgramError
from riverrun.kernels.program import Program

PYTHONS_OWN = Path(os.__file__).parent
"""Where Python's modules are, which workers have themselves."""


def portable(job: Any, program: Program) -> bytes:
    """The job; what is the user's own needs of the program's own modules goes along."""
    owned = list(_owned(program))
    with _by_value(_own_modules([own for _, own in owned])):
        for called, own in owned:
            _require_portable(own, called)
        data: bytes = cloudpickle.dumps(job)
        return data


def _owned(program: Program) -> Iterator[tuple[str, object]]:
    """What runs in workers and may be of the program's own classes."""
    for source in program.sources:
        yield f"the format of {source.topic!r}", source.format
    for step in program.steps:
        yield from ((f"the step {step.name!r}", own) for own in step.does.owned())
    for function in program.functions:
        yield f"the function {function.word!r}", function.written or function.call
    for output in program.outputs:
        yield f"the sink {output.name!r}", output.sink
        yield f"the format of {output.name!r}", output.format


def _require_portable(own: object, called: str) -> None:
    try:
        cloudpickle.dumps(own)
    except Exception as error:
        raise ProgramError(
            f"{called} cannot be sent to Spark's workers",
            got=f"{type(error).__name__}: {error}",
            hint="open files and connections where they are used: in the handlers of a processor, "
            "in a sink's destination; not in __init__ or the module",
        ) from error


def _own_modules(owned: list[object]) -> list[ModuleType]:
    """Modules that define them, and those beside them: workers may not have their files."""
    folders = set()
    for name in {name for own in owned for name in _modules_of(own)}:
        file = getattr(sys.modules.get(name), "__file__", None)
        ours = name.startswith("riverrun.")
        if file and not ours and not Path(file).is_relative_to(PYTHONS_OWN):
            folders.add(Path(file).parent)
    return [
        module
        for name, module in list(sys.modules.items())
        if (file := getattr(module, "__file__", None))
        and name == module.__name__ != "__main__"
        and Path(file).parent in folders
    ]


def _modules_of(written: Any) -> list[str]:
    if hasattr(written, "__name__"):
        return [written.__module__ or ""]
    return [kind.__module__ for kind in type(written).__mro__]


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
