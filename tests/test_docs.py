"""All shown code runs: README.md, docs/*.md and examples/*.py, each page in a folder of its own.

- A ```python block runs, after those above it on the page and in their namespace.
- A block with a file's name (```python app.py, ```json views.jsonl) is also written to that file.
- In ```console and ```sh blocks, `$ riverrun` commands that need no server run, with a copy of
  examples/ beside them. What is shown below a command is what it must print; `...` is anything.
- <!-- not run: reason --> above a block leaves it out; it is counted as a skipped test.
- An example is imported (so that its `if __name__ == "__main__"` does not start), and the `>>>`
  lines and `$ riverrun` commands of its docstring run.
"""

from __future__ import annotations

import ast
import doctest
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
RUN = {"check", "describe", "metrics", "try"}
ASK = {"-h", "--help", "--version", "--dry-run"}
CONSOLE = {"bash", "console", "sh", "shell"}

FENCE = re.compile(r"^( *)(`{3,})([^\n`]*)\n(.*?)^\1\2 *$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: (.+?) -->\s*\Z", re.DOTALL)
DOCSTRING_COMMANDS = re.compile(r"(?:^ *\$ .*\n?(?:^ *\S.*\n?)*)", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """Code that a page shows."""

    page: Path
    line: int
    language: str
    code: str
    file: str | None = None
    not_run: str | None = None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


@dataclass(frozen=True)
class Command:
    """A command line, and what is shown below it (None for nothing)."""

    words: tuple[str, ...]
    shown: str | None

    @property
    def runs(self) -> bool:
        riverrun = self.words[:1] == ("riverrun",)
        return riverrun and (bool(RUN & set(self.words[1:2])) or bool(ASK & set(self.words)))


@dataclass
class Folder:
    """Where the code of one page runs."""

    path: Path
    names: dict[str, Any]
    """Those of a module, as the classes of a program have one."""

    def assert_runs(self, block: Block) -> None:
        if block.file:
            (self.path / block.file).write_text(block.code)
        if block.language == "python":
            # Blank lines above make tracebacks, and riverrun's own errors, name the page's line.
            code = "\n" * block.line + block.code
            exec(compile(code, str(block.page), "exec", dont_inherit=True), self.names)
        elif block.language in CONSOLE:
            for command in commands(block.code):
                if command.runs:
                    self.assert_prints(command)

    def assert_prints(self, command: Command) -> None:
        program = Path(sys.executable).with_name("riverrun")
        done = subprocess.run(
            [str(program), *command.words[1:]],
            cwd=self.path, env={**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}, timeout=300,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False,
        )  # fmt: skip
        line = shlex.join(command.words)
        fails = command.shown is not None and command.shown.startswith(("error", "Usage"))
        assert done.returncode == 0 or fails, f"$ {line}\n{done.stdout}"
        if command.shown is not None:
            assert matches(command.shown, done.stdout), (
                f"$ {line}\nshown:\n{command.shown}\n\nprinted:\n{done.stdout}"
            )


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    assert not re.search(r"^ *```", FENCE.sub("", text), re.MULTILINE), "a block is not closed"
    for found in FENCE.finditer(text):
        language, _, file = found[3].strip().partition(" ")
        assert language, "a block begins where another one should have ended, or has no language"
        skip = NOT_RUN.search(text, 0, found.start())
        line = text.count("\n", 0, found.start()) + 1
        code, reason = dedent(found[4]), skip[1] if skip else None
        yield Block(page, line, language, code, file.strip() or None, reason)


def commands(text: str) -> Iterator[Command]:
    """The commands of a block; without `$` every line is one, and no output is shown."""
    text = text.replace("\\\n", " ")
    if not re.search(r"^\$ ", text, re.MULTILINE):
        yield from (Command(words(line), None) for line in text.splitlines())
        return
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield Command(words(line), shown.strip() or None)


def words(line: str) -> tuple[str, ...]:
    runs = line.startswith("riverrun ")
    return tuple(shlex.split(line, comments=True)) if runs else ()


def matches(shown: str, printed: str) -> bool:
    def lines(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip().splitlines())

    pattern = re.sub(r"\\\.\\\.\\\.|…", ".*", re.escape(lines(shown)))
    return re.fullmatch(pattern, lines(printed), re.DOTALL) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    path = tmp_path / "page"
    path.mkdir()
    if (ROOT / "examples").is_dir():
        shutil.copytree(ROOT / "examples", path / "examples")
    monkeypatch.chdir(path)
    monkeypatch.syspath_prepend(path)
    before = set(sys.modules)
    page = sys.modules["page"] = ModuleType("page")
    page.__file__ = str(path / "page.py")
    yield Folder(path, vars(page))
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(path)):
            del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_runs(page: Path, folder: Folder, subtests: pytest.Subtests) -> None:
    for block in blocks(page):
        with subtests.test(str(block)):
            if block.not_run:
                pytest.skip(f"{block}: {block.not_run}")
            folder.assert_runs(block)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_what_an_example_shows_runs(example: Path, folder: Folder) -> None:
    names = runpy.run_path(str(folder.path / "examples" / example.name), run_name=example.stem)
    docstring = ast.get_docstring(ast.parse(example.read_text())) or ""
    shown = doctest.DocTestParser().get_doctest(docstring, names, example.name, str(example), 0)
    assert doctest.DocTestRunner().run(shown).failed == 0
    for part in DOCSTRING_COMMANDS.findall(docstring):
        folder.assert_runs(Block(example, 1, "console", dedent(part)))


def shows(folder: Folder, text: str) -> None:
    page = folder.path / "page.md"
    page.write_text(dedent(text))
    for block in blocks(page):
        folder.assert_runs(block)


def test_blocks_of_a_page_share_names_and_files(folder: Folder) -> None:
    shows(folder, """
        ```python app.py
        two = 2
        ```
        ```json data.jsonl
        {}
        ```
        ```python
        import app
        from pathlib import Path
        seen = two + app.two, Path("data.jsonl").read_text()
        ```
    """)  # fmt: skip
    assert folder.names["seen"] == (4, "{}\n")


def test_broken_code_fails_at_its_line_of_the_page(folder: Folder) -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        shows(folder, "one\n\n```python\nx = 1\n1 / 0\n```\n")
    last = failure.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 5)


def test_a_command_that_prints_something_else_fails(folder: Folder) -> None:
    shows(folder, "```console\n$ riverrun --version\nriverrun, version ...\n$ riverrun up\n```\n")
    with pytest.raises(AssertionError, match=r"printed:\s+riverrun, version"):
        shows(folder, "```console\n$ riverrun --version\nriverrun 7\n```\n")
    with pytest.raises(AssertionError, match="no such"):
        shows(folder, "```sh\nriverrun try none.py \\\n  --input no=such\n```\n")


def test_a_block_is_left_out_only_with_a_reason(folder: Folder) -> None:
    page = folder.path / "page.md"
    page.write_text("<!-- not run: slow -->\n\n```python\n1 / 0\n```\n```python\n2\n```\n")
    assert [block.not_run for block in blocks(page)] == ["slow", None]
