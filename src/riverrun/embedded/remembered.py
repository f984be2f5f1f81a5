"""What is remembered of a server between commands, in its folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")


@dataclass(frozen=True)
class Remembered(Generic[S]):
    file: Path
    kind: type[S]

    def read(self) -> S | None:
        """None if there is nothing, or nothing that can be read."""
        try:
            return self.kind(**json.loads(self.file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, state: S) -> None:
        draft = self.file.with_suffix(".draft")
        draft.write_text(json.dumps(asdict(state)))
        draft.replace(self.file)
