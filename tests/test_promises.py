"""What the documents point at is there: a test for each promise, a section for each error code."""

from __future__ import annotations

import re
from pathlib import Path

from riverrun import errors

ROOT = Path(__file__).parent.parent


def test_every_promise_of_the_readme_names_a_test_that_exists():
    links = re.findall(r'\]\((tests/\w+\.py) "(\w+)"\)', (ROOT / "README.md").read_text())
    assert len(links) > 5
    missing = [name for file, name in links if f"def {name}(" not in (ROOT / file).read_text()]
    assert missing == []


def test_every_error_code_has_a_section():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, errors.RiverrunError)} - {"RR000"}
    sections = set(re.findall(r"^## (RR\d+)", (ROOT / "docs/errors.md").read_text(), re.MULTILINE))
    assert codes == sections
