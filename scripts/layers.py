"""Makes the tables of layers in docs/architecture.md, from the contracts and the docstrings.

python scripts/layers.py           writes them
python scripts/layers.py --check   says whether they are as they would be written
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/architecture.md"
TABLE = re.compile(r"(<!-- layers of ([\w.]+) -->\n).*?(?=<!-- end -->)", re.DOTALL)


def main(arguments: list[str]) -> int:
    text = PAGE.read_text(encoding="utf-8")
    made = TABLE.sub(lambda found: found[1] + table(found[2]), text)
    if arguments != ["--check"]:
        PAGE.write_text(made, encoding="utf-8")
    elif made != text:
        print("docs/architecture.md: run `python scripts/layers.py` for the tables of layers")
        return 1
    else:
        print("tables of layers: in order")
    return 0


def table(package: str) -> str:
    rows = [
        f"| {number} | `{name}` | {meaning(package, name)} |"
        for number, layer in enumerate(layers(package), 1)
        for name in sorted(layer)
    ]
    return "\n".join(["| | module | what it is |", "|---|---|---|", *rows, ""])


def layers(package: str) -> Iterator[list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    for contract in settings["tool"]["importlinter"]["contracts"]:
        if contract.get("containers") == [package]:
            for layer in contract["layers"]:
                yield [name.strip() for name in layer.split("|")]


def meaning(package: str, name: str) -> str:
    """The first sentence of a module."""
    place = ROOT / "src" / package.replace(".", "/") / name
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    if docstring is None:
        raise SystemExit(f"{file.relative_to(ROOT)} has no docstring")
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=[a-z`)…])\. ", paragraph)[0].removesuffix(".").replace("|", "\\|")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
