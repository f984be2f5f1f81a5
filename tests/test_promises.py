"""What the documents point at is there: pages, sections, a test for each promise, error codes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from riverrun import errors

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CODE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r'\]\(([^\s)]+)(?: "[^"]*")?\)')
PROMISE = re.compile(r'\]\(((?:\.\./)?tests/\w+\.py) "(\w+)"\)')
TEST = re.compile(r"^(?:def|class) (\w+)", re.MULTILINE)
ELSEWHERE = ("http:", "https:", "mailto:")


def links(page: Path) -> list[str]:
    found = LINK.findall(CODE.sub("", page.read_text()))
    return [link for link in found if not link.startswith(ELSEWHERE)]


def sections(page: Path) -> set[str]:
    """As GitHub makes them from the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def leads_nowhere(page: Path, link: str) -> bool:
    file, _, section = link.partition("#")
    target = (page.parent / file).resolve() if file else page
    if not target.exists():
        return True
    return bool(section) and target.suffix == ".md" and section not in sections(target)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_and_a_section_that_exist(page):
    assert [link for link in links(page) if leads_nowhere(page, link)] == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One, two\n[a](page.md#one-two) [b](#three) [c](no.md) `[d](no.md)`\n")
    assert [link for link in links(page) if leads_nowhere(page, link)] == ["#three", "no.md"]


@pytest.mark.parametrize("name", ["README.md", "docs/promises.md"])
def test_every_promise_names_a_test_that_exists(name):
    page = ROOT / name
    promises = PROMISE.findall(page.read_text())
    assert len(promises) > 5
    tests = {file: TEST.findall((page.parent / file).read_text()) for file, _ in promises}
    assert [test for file, test in promises if test not in tests[file]] == []


def test_every_error_code_has_a_section():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, errors.RiverrunError)} - {"RR000"}
    assert {code.lower() for code in codes} == {
        each for each in sections(ROOT / "docs/errors.md") if each.startswith("rr")
    }
