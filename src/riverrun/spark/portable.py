"""Jobs as bytes that any worker can read: the user's code travels with its program."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from pyspark import cloudpickle

from riverrun.errors import ProgramError
from riverrun.kernels.program import Program
from riverrun.operators.process.spec import ProcessSpec


def portable(job: Any, program: Program) -> bytes:
    """The job; what the user's code needs of the program's own modules goes along."""
    carried = _carried(program)
    with _by_value(_own_modules(carried.values())):
        for name, each in carried.items():
            _require_portable(name, each)
        data: bytes = cloudpickle.dumps(job)
        return data


def _carried(program: Program) -> dict[str, Any]:
    """What the user wrote, by what it is for people."""
    steps = (step.does for step in program.steps)
    processors = {
        f"the processor of {step.name!r}": step.processor
        for step in steps
        if isinstance(step, ProcessSpec)
    }
    written = {f"the function {f.word!r}": f.written or f.call for f in program.functions}
    return processors | written | dict(_aggregates(program))


def _aggregates(program: Program) -> Iterator[tuple[str, Any]]:
    for step in program.steps:
        for each in getattr(step.does, "aggregations", ()):
            if each.own is not None:
                yield f"the aggregate {each.name!r} of {step.name!r}", each.own.does


def _require_portable(name: str, written: Any) -> None:
    try:
        cloudpickle.dumps(written)
    except Exception as error:
        raise ProgramError(
            f"{name} cannot be sent to Spark's workers",
            got=f"{type(error).__name__}: {error}",
            hint="open files and connections where they are used, not in __init__ or the module",
        ) from error


def _own_modules(carried: Iterable[Any]) -> list[ModuleType]:
    """Modules that define what is carried, and those beside them: workers may not have their
    files."""
    folders = set()
    for name in {name for each in carried for name in _modules_of(each)}:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file and not name.startswith("riverrun."):
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
