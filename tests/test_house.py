"""The checks of the gate find what they are for."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts/check_house.py"


@pytest.fixture(scope="module")
def house():
    spec = importlib.util.spec_from_file_location("check_house", SCRIPT)
    module = sys.modules["check_house"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def module(house, name, text):
    return house.Module(house.SOURCES / name, text.splitlines(), ast.parse(text))


def switch(last):
    return f"match kind:\n    case 1:\n        x = 1\n{last}\n"


SILENT = {
    "a wildcard": switch("    case _:\n        x = 2"),
    "a name": switch("    case other:\n        x = other"),
    "a table": "x = KINDS.get(kind, tumbling)",
    "a table without a default": "x = kinds.KINDS.get(kind)",
    "a dictionary": "x = {1: 2}.get(kind)",
}
IN_ORDER = {
    "raises": switch("    case _:\n        raise ValueError(kind)"),
    "is never reached": switch("    case _:\n        assert_never(kind)"),
    "is known": switch("    case 2:\n        x = 2"),
    "has a condition": switch("    case other if other > 2:\n        x = 2"),
    "says it": switch("    case _:  # any other: left as it is\n        x = 2"),
    "says it above": "# any other: none\nx = KINDS.get(kind)",
    "is no table": "x = options.get(kind)",
}


@pytest.mark.parametrize("name", SILENT)
def test_a_switch_with_a_silent_default_is_found(house, name):
    assert len(list(house.silent(module(house, "x.py", SILENT[name])))) == 1


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_switch_that_says_what_any_other_kind_is_passes(house, name):
    assert list(house.silent(module(house, "x.py", IN_ORDER[name]))) == []


@pytest.mark.parametrize(
    "use", ["from riverrun.home import _hidden", "from riverrun import home\nhome._hidden()"]
)
def test_a_private_name_of_another_module_is_found(house, use):
    home = module(house, "home.py", "def _hidden(): ...\n_hidden()")
    [found] = house.borrowed([home, module(house, "guest.py", use)])
    assert "_hidden is private to another module" in found


def test_a_private_name_at_home_passes(house):
    home = module(house, "home.py", "class Base:\n    def _hidden(self): ...")
    guest = module(house, "guest.py", "class Own(Base):\n    def f(self): self._hidden()")
    assert list(house.borrowed([home, guest])) == []
