"""Loads a user's program: a file, which mostly makes one App."""

from __future__ import annotations

import importlib.util
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType

import click

from riverrun.app import App
from riverrun.capture.declared import with_columns
from riverrun.config import Settings
from riverrun.errors import InputError, RiverrunError
from riverrun.versions import CURRENT, Version


def load_app(path: Path) -> App:
    """The App that the file makes: the variable `app`, or the only one there is."""
    return app_of(load_module(path))


def load_as_run(path: Path, settings: Settings) -> App:
    """The App as it has run: tables that have other columns since have those it began with."""
    from riverrun.compiler import new_columns, upgrades  # noqa: PLC0415
    from riverrun.compiler.shape import shape  # noqa: PLC0415 - only few commands need it

    app = load_app(path)
    if not app.captures:
        return app
    before = upgrades.read(settings.checkpoint_of(app.name))
    with with_columns(new_columns.as_run(before, shape(app.program()))):
        return load_app(path)


def load_version(version: Version, settings: Settings) -> App:
    """The program of a version: the file that was deployed, or that `riverrun run` has run."""
    # Spark only when it is needed
    from riverrun.runtime import deployments, runs  # noqa: PLC0415

    if version.name == CURRENT:
        file = runs.last(settings.checkpoint_of(version.application)).get("program")
        if not file:
            raise InputError(f"{version.of} has not run here")
    else:
        file = deployments.require(settings, version).file
    found = load_app(Path(file))
    if found.name != version.of:
        raise InputError(f"the program of {version.name} is another now", where=file)
    return found


def load_module(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError("there is no such program", got=str(path))
    if path.suffix != ".py":
        raise InputError("a program is a Python file", got=str(path), hint="its name ends in .py")
    path = path.absolute()
    _look_for_hidden_modules(path)
    sys.path.insert(0, str(path.parent))
    # Spark's workers inherit this: they import the program to find the functions of .spark(…)
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(path.parent), *([known] if known else [])])
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        # not from a cache: Python's does not see a change within a second that keeps the size
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
        exec(code, vars(module))
    except RiverrunError:
        raise
    except SystemExit as error:
        raise InputError(
            "the program ended the interpreter", where=_line(error, path),
            got=f"sys.exit({'' if error.code is None else repr(error.code)})",
            hint='what only `python FILE` is to do goes below `if __name__ == "__main__":`',
        ) from error  # fmt: skip
    except Exception as error:
        raise InputError(
            f"the program raised {type(error).__name__}", where=_line(error, path), got=str(error)
        ) from error
    return module


def _look_for_hidden_modules(path: Path) -> None:
    """The folder comes before Python's own modules, here and in Spark's workers: a file of the same
    name takes the place of one that others import."""
    if path.stem in sys.stdlib_module_names:
        raise InputError(
            f"the program has the name of Python's own module {path.stem!r}", where=path,
            hint="others import that: give the file another name",
        )  # fmt: skip
    for each in sorted(path.parent.glob("*.py")):
        if each.stem in sys.stdlib_module_names:
            text = f"warning: {each} hides Python's own module {each.stem!r}: give it another name"
            click.secho(text, fg="yellow", err=True)


def app_of(module: ModuleType) -> App:
    apps = {id(v): v for v in vars(module).values() if isinstance(v, App)}
    named = getattr(module, "app", None)
    if isinstance(named, App):
        return named
    if len(apps) != 1:
        raise InputError(
            f"the program makes {len(apps)} apps, one must be called `app`",
            where=module.__file__,
            hint='write `app = rr.App("name")` at the top level',
        )
    return next(iter(apps.values()))


def _line(error: BaseException, path: Path) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    number = frames[-1].lineno if frames else getattr(error, "lineno", None)
    return f"{path}:{number}" if number else str(path)
