"""House rules that no linter has: sizes, names of machines, tests that assert nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
LONGEST_FILE = 400
LONGEST_FUNCTION = 60
MOST_POSITIONAL = 5

# Many machines reach only a mirror of a registry; a file that names its host fails there.
REGISTRY = re.compile(
    r"https?://[^\s\"'<>]*(?:maven|pypi|npm|artifactory|nexus)"
    r"|\b(?:pypi|pythonhosted|npmjs)\.(?:org|com)\b|\bmaven\.(?:org|apache\.org)\b"
)
MACHINE = re.compile(r"(?<![\w.~)\]}])/(?:work|root)/")
ASSERTS = re.compile(r"assert|raises|warns|pytest\.fail")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def main() -> int:
    found = [problem for file in files() for problem in problems(file)]
    print("\n".join(found) if found else "sizes, names and assertions: in order")
    return 1 if found else 0


def files() -> list[Path]:
    """The files of the repository, those not yet added included."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    return [ROOT / name for name in sorted(listed.stdout.splitlines()) if (ROOT / name).is_file()]


def problems(file: Path) -> Iterator[str]:
    name = file.relative_to(ROOT)
    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if REGISTRY.search(line):
            yield f"{name}:{number}: names a registry's host"
        if MACHINE.search(line):
            yield f"{name}:{number}: holds a path of one machine"
    if file.name == "requirements.lock" and "://" in text:
        yield f"{name}: holds an address"
    if file.suffix == ".py":
        if (lines := text.count("\n")) > LONGEST_FILE:
            yield f"{name}: {lines} lines (at most {LONGEST_FILE})"
        functions = [n for n in ast.walk(ast.parse(text, str(file))) if isinstance(n, Function)]
        asserting = {each.name for each in functions if asserts(each, set())}
        for node in functions:
            for what in broken(node, asserting):
                yield f"{name}:{node.lineno}: {node.name} {what}"


def broken(function: Function, asserting: set[str]) -> Iterator[str]:
    length = (function.end_lineno or function.lineno) - function.lineno + 1
    if length > LONGEST_FUNCTION:
        yield f"has {length} lines (at most {LONGEST_FUNCTION})"
    positional = [*function.args.posonlyargs, *function.args.args]
    count = sum(each.arg not in ("self", "cls") for each in positional)
    if count > MOST_POSITIONAL:
        yield f"has {count} positional parameters (at most {MOST_POSITIONAL})"
    if function.name.startswith("test_") and not asserts(function, asserting):
        yield "asserts nothing"


def asserts(function: Function, asserting: set[str]) -> bool:
    """Whether it asserts, itself or through a function of its own file that does."""
    nodes = list(ast.walk(function))
    called = {ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)}
    return (
        any(isinstance(node, ast.Assert) for node in nodes)
        or any(ASSERTS.search(name) for name in called)
        or not asserting.isdisjoint(called)
    )


if __name__ == "__main__":
    sys.exit(main())
