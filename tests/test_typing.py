"""Types as a user's own checker sees them, from the package as it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[1]
RIGHT, MISTAKES = ROOT / "tests/typing/right.py", ROOT / "tests/typing/mistakes.py"
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

FOUND = re.compile(r"^(.+?):(\d+): error: (.+?)  \[([\w-]+)\]$", re.MULTILINE)
EXPECTED = re.compile(r"  # ([a-z]+(?:-[a-z]+)*): (.*)$")

Found = dict[int, list[tuple[str, str]]]


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[Path, Found]:
    """The errors of each file by line, as codes and messages."""
    python = installed(tmp_path_factory.mktemp("user"))
    files = list(map(str, [RIGHT, MISTAKES, *EXAMPLES]))
    options = ["--strict", "--config-file=", "--no-pretty", f"--python-executable={python}"]
    options += [f"--cache-dir={python.parent.parent / 'cache'}", "--scripts-are-modules"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        check=False, cwd=python.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout  # the mistakes are errors, mypy itself has none
    errors: dict[Path, Found] = defaultdict(lambda: defaultdict(list))
    for file, line, message, code in FOUND.findall(done.stdout):
        errors[(python.parent / file).resolve()][int(line)].append((code, message))
    assert done.stdout.count(": error:") == sum(len(e) for f in errors.values() for e in f.values())
    return errors


def installed(folder: Path) -> Path:
    """The Python of a new environment with riverrun's wheel."""
    venv.create(folder / "env", with_pip=False)
    [wheel] = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    [packages] = (folder / "env").glob("lib/python3*/site-packages")
    zipfile.ZipFile(wheel).extractall(packages)
    return folder / "env/bin/python"


@pytest.mark.parametrize("file", [RIGHT, *EXAMPLES], ids=lambda file: file.name)
def test_programs_have_types_to_the_end_of_the_chain(found, file):
    assert found[file] == {}


def test_every_mistake_is_found_and_nothing_else(found):
    expected = {
        number: wanted.groups()
        for number, line in enumerate(MISTAKES.read_text().splitlines(), 1)
        if (wanted := EXPECTED.search(line))
    }
    errors = found[MISTAKES]
    assert errors.keys() == expected.keys()
    other = {
        number: errors[number]
        for number, (code, part) in expected.items()
        if [(given, part in message) for given, message in errors[number]] != [(code, True)]
    }
    assert other == {}
