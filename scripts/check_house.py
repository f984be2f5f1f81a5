"""House rules on knowledge: private names stay at home, and no switch over kinds is silent.

A `case _:` and a look into a table of the module (`TABLE.get(kind)`) either raise, or say in a
comment what any other kind is: `case _:  # any other: read as it is`.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src"
SAID = "# any other: "
PUBLIC = ("_asdict", "_fields", "_make", "_replace")
"""Of named tuples: an underscore that keeps them apart from fields."""


@dataclass(frozen=True)
class Module:
    path: Path
    lines: list[str]
    tree: ast.Module

    @staticmethod
    def read(path: Path) -> Module:
        text = path.read_text(encoding="utf-8")
        return Module(path, text.splitlines(), ast.parse(text, str(path)))

    @property
    def nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self.tree)

    def at(self, line: int) -> str:
        return f"{self.path.relative_to(ROOT)}:{line}"

    def says(self, line: int) -> bool:
        """Whether the line, or the one above it, says what any other kind is."""
        return any(SAID in each for each in self.lines[max(line - 2, 0) : line])


def main() -> int:
    modules = [Module.read(path) for path in sorted(SOURCES.rglob("*.py"))]
    found = [*borrowed(modules), *(each for module in modules for each in silent(module))]
    print("\n".join(found) if found else "private names and switches: in order")
    return 1 if found else 0


def borrowed(modules: list[Module]) -> Iterator[str]:
    """Private names of one module that another one uses, by import or as an attribute."""
    homes = {module.path: set(private_names(module)) for module in modules}
    everywhere = set().union(*homes.values())
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("riverrun"):
                names = [each.name for each in node.names if private(each.name)]
            elif isinstance(node, ast.Attribute) and private(node.attr) and not own(node):
                names = [node.attr] if node.attr in everywhere - homes[module.path] else []
            else:
                continue
            for name in names:
                yield f"{module.at(node.lineno)}: {name} is private to another module"


def private_names(module: Module) -> Iterator[str]:
    """What a module defines for itself: functions, classes, variables and attributes."""
    for node in module.nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found = name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found = name
            case _:  # any other: defines nothing
                continue
        if private(found):
            yield found


def own(attribute: ast.Attribute) -> bool:
    """A class uses what its base, in another module, keeps for its kind."""
    return ast.unparse(attribute.value) in ("self", "cls", "super()")


def private(name: str) -> bool:
    shown = name in PUBLIC or name.endswith("__") or not name.strip("_")
    return name.startswith("_") and not shown


def silent(module: Module) -> Iterator[str]:
    """Switches that take a kind they do not know for one that they do."""
    for node in module.nodes:
        if isinstance(node, ast.match_case) and catches_all(node) and not refuses(node.body[-1]):
            if not module.says(line := node.pattern.lineno):
                yield f"{module.at(line)}: `case _` neither raises nor says what any other is"
        elif isinstance(node, ast.Call) and looks_up(node) and not module.says(node.lineno):
            yield f"{module.at(node.lineno)}: {ast.unparse(node)} has a silent default"


def catches_all(case: ast.match_case) -> bool:
    return isinstance(case.pattern, ast.MatchAs) and not case.pattern.pattern and not case.guard


def refuses(last: ast.stmt) -> bool:
    called = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    return isinstance(last, ast.Raise) or (called and "assert_never" in ast.unparse(last))


def looks_up(call: ast.Call) -> bool:
    """`TABLE.get(…)` where the table is a constant, whose name is in capitals; `{…}.get(…)`."""
    found = call.func
    if not isinstance(found, ast.Attribute) or found.attr != "get":
        return False
    name = ast.unparse(found.value).rpartition(".")[2]
    return isinstance(found.value, ast.Dict) or name.strip("_").isupper()


if __name__ == "__main__":
    sys.exit(main())
