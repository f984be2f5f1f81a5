"""What a step does with the columns that enter it, so that personal ones can be followed.

Whoever only keeps rows, compares whole values and passes them on can do so with sealed text; what
computes with a value would compute with the text that stands for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from riverrun.kernels.sql import names_in


class Use(NamedTuple):
    """Columns that a step computes with."""

    what: str
    """Which of its options names them, for people."""
    text: str
    """As it was written."""
    columns: frozenset[str]
    """In lower case."""

    @classmethod
    def of(cls, what: str, columns: Iterable[str], text: str | None = None) -> Use:
        several = list(columns)
        return cls(what, ", ".join(several) if text is None else text, _lower(several))

    @classmethod
    def of_sql(cls, what: str, expression: str | None) -> tuple[Use, ...]:
        """That of an expression, if there is one."""
        if expression is None:
            return ()
        return (cls(what, expression, names_in(expression).every),)


def _lower(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name.lower() for name in names)


class Followed:
    """A step whose columns can be followed."""

    def uses(self, number: int) -> Iterable[Use] | None:
        """What it computes with, of the columns of this input: nothing if it keeps, compares and
        passes on whole values, or hands them to code of the program's own. None: it is not known,
        so none of them may be personal."""
        return None

    def passes(self, number: int, output: str) -> Mapping[str, str] | None:
        """Columns that leave by an output, with the columns of this input that they are. None:
        those of the same name."""
        return None
