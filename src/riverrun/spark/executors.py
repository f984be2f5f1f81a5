"""What executors on other machines need: a Python to start, riverrun, and the program's modules.

Spark starts its Python by one name, on the driver and on executors alike: `./python`. On the driver
that is the zygote's client. Executors get a script of that name, which sets the path to the code
that came with it and then starts the Python of their environment.
"""

from __future__ import annotations

import os
import py_compile
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from riverrun import private
from riverrun.errors import ConfigError

PYTHON = "./python"
CODE = "riverrun-code.zip"
UNPACKED = "environment"
"""The folder in which executors find the environment that was sent to them."""

SCRIPT = """#!/bin/sh
# Written by riverrun: starts the Python of an executor.
if [ ! -x '{python}' ]; then
  echo "riverrun.errors.JobError: an executor has no Python at {python} [RR500]" >&2
  echo "  where: $(hostname)" >&2
  echo "  hint: send the environment along: riverrun package, then --environment FILE" >&2
  exit 127
fi
export PYTHONPATH="$PWD/{code}${{PYTHONPATH:+:$PYTHONPATH}}"
exec '{python}' "$@"
"""


@dataclass(frozen=True)
class Environment:
    """Where executors have their Python from."""

    archive: Path | None = None
    """A file made by `riverrun package`; None when they have the same Python at the same path."""

    @property
    def python(self) -> str:
        return sys.executable if self.archive is None else f"./{UNPACKED}/bin/python"

    def settings(self) -> dict[str, str]:
        return {} if self.archive is None else {"spark.archives": f"{self.archive}#{UNPACKED}"}


def environment(named: str) -> Environment:
    """`same`, or the path of an archive."""
    if named == "same":
        return Environment()
    archive = Path(named).expanduser().absolute()
    if not archive.is_file() or not archive.name.endswith((".tar.gz", ".tgz", ".zip")):
        raise ConfigError(
            "the environment cannot be used",
            got=named,
            hint="`same`, or an archive that `riverrun package` made",
        )
    return Environment(archive)


def prepared(folder: Path, chosen: Environment, program: Path | None) -> dict[str, str]:
    """Spark's settings that bring all of it to the executors; the files are put in `folder`."""
    sent = folder / "executors"
    private.folder(sent)
    script = sent / "python"
    script.write_text(SCRIPT.format(python=chosen.python, code=CODE))
    script.chmod(0o755)
    pack(sent / CODE, program)
    return {
        "spark.files": f"{script},{sent / CODE}",
        **chosen.settings(),
    }


def pack(archive: Path, program: Path | None) -> None:
    """riverrun and the modules of the program's folder, with their compiled form."""
    draft = archive.with_suffix(".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as file:
        package = Path(__file__).parents[1]
        for module in sorted(package.rglob("*.py")):
            _add(file, module, module.relative_to(package.parent))
        for module, name in _modules(program) if program else ():
            _add(file, module, name)
        for data in sorted(package.rglob("*.json")):
            file.write(data, data.relative_to(package.parent))
    os.replace(draft, archive)


def _modules(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Python files of a folder and of the packages in it; not those of other projects below it."""
    found = sorted(folder.glob("*.py"))
    for package in sorted(folder.glob("*/__init__.py")):
        if package.parent.name != "riverrun":
            found += sorted(package.parent.rglob("*.py"))
    return ((module, module.relative_to(folder)) for module in found)


def _add(file: zipfile.ZipFile, module: Path, name: Path) -> None:
    file.write(module, name)
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"
        try:
            py_compile.compile(
                str(module), str(compiled), str(name), doraise=True,
                invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
            )  # fmt: skip
        except py_compile.PyCompileError:
            return  # not our business unless it is imported
        file.write(compiled, name.with_suffix(".pyc"))


def folder_of(file: str) -> Path | None:
    """The folder from which the program's modules are imported; None when it is not in a file."""
    folder = Path(file).absolute().parent
    if not Path(file).is_file():
        return None
    while (folder / "__init__.py").exists():
        folder = folder.parent
    return folder
