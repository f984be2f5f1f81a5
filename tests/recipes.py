"""The worked examples of docs/extend.md as modules: what the page shows is what is tested."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "extend.md"
BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sources() -> dict[str, str]:
    """The text of each module that the page shows, by file name."""
    return dict(BLOCK.findall(PAGE.read_text()))


def module(name: str, folder: Path) -> ModuleType:
    """The module of that name, written to the folder and imported."""
    (folder / f"{name}.py").write_text(sources()[f"{name}.py"])
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return importlib.import_module(name)
