"""Edges: where rows come from and go to between the parts of a program."""

from __future__ import annotations

from typing import Literal, NamedTuple

EdgeKind = Literal[
    "source",
    "spark",
    "from spark",
    "step",
    "changes",
    "stream",
    "late",
    "out",
    "mark",
    "status",
    "answer",
    "unread",
]


class Edge(NamedTuple):
    """A kind, the name of the source, step or output, and which of its ways in or out."""

    kind: EdgeKind
    name: str = ""
    port: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}/{self.port}"

    @staticmethod
    def parse(text: str) -> Edge:
        """Names of topics, steps and outputs may have a colon, a port has no slash."""
        kind, _, rest = text.partition(":")
        name, _, port = rest.rpartition("/")
        return Edge(kind, name, port)  # type: ignore[arg-type]


DEAD = Edge("out", "dead")
MARK = Edge("mark")
"""What a batch says of time, for every page."""
STATUS = Edge("status")
"""What a batch tells of itself, for the driver."""
ANSWER = Edge("answer")
"""What a page answers to a question."""
