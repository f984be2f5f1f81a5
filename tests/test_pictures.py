"""The pictures of the guides are what programs give today."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"
NAMES = sorted(path.stem for path in PICTURES.glob("*.svg"))


@pytest.fixture
def drawing(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    return importlib.import_module("draw_time")


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_drawn_anew_is_the_one_that_is_stored(drawing, name):
    stored = (PICTURES / f"{name}.svg").read_text(encoding="utf-8")
    assert drawing.draw(name) == stored, "run scripts/draw_time.py, and look at what changed"
    assert ElementTree.fromstring(stored).tag.endswith("svg")


def test_every_picture_is_drawn_and_shown(drawing):
    pages = " ".join(page.read_text() for page in (ROOT / "docs").glob("*.md"))
    shown = re.findall(r"\(pictures/([\w-]+)\.svg\)", pages)
    assert sorted(shown) == sorted(drawing.DRAWINGS) == NAMES
