"""What a processor emits: what `.process(…)` gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from riverrun.arguments import checked
from riverrun.errors import ProgramError, caller
from riverrun.operators.process.spec import ProcessSpec
from riverrun.plan.nodes import Emitted, Node, Step
from riverrun.schema import Schema

S = TypeVar("S")
"""What an output is: a stream of the language."""


@dataclass(frozen=True)
@checked
class Processed(Generic[S]):
    """What a processor emits: a stream for each of its outputs, `processed["name"]`."""

    node: Step
    as_stream: Callable[[Node], S]

    @property
    def _schemas(self) -> dict[str, Schema]:
        assert isinstance(self.node.does, ProcessSpec)
        return dict(self.node.does.outputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        return tuple(self._schemas)

    def __getitem__(self, output: str) -> S:
        at, schemas = caller(), self._schemas
        if output not in schemas:
            raise ProgramError(
                f"there is no output {output!r}", where=at, hint=f"outputs: {', '.join(schemas)}"
            )
        return self.as_stream(Emitted(self.node, output, schemas[output], at))

    @property
    def stream(self) -> S:
        """The only output."""
        if len(self.outputs) != 1:
            names = ", ".join(self.outputs)
            raise ProgramError("there is more than one output", where=caller(), got=names)
        return self[self.outputs[0]]
