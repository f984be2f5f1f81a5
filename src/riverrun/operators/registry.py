"""All kinds of steps with state, by the word that checkpoints have for them.

A new kind needs its row here, and nothing else knows its name. Operators of a program's own have no
row: their words must not be among these.
"""

from __future__ import annotations

from riverrun.errors import ProgramError
from riverrun.kernels.operator import Operator
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.alert.kernel import Alert
from riverrun.operators.captured import Captured
from riverrun.operators.decide.spec import Decide
from riverrun.operators.deduplicate import Deduplicate
from riverrun.operators.gather import Gather
from riverrun.operators.joins.latest import LatestJoin
from riverrun.operators.joins.streams import StreamJoin
from riverrun.operators.joins.tables import TableJoin
from riverrun.operators.joins.versions import VersionJoin
from riverrun.operators.keep import Keep
from riverrun.operators.lookups.lookup import Lookup
from riverrun.operators.mark_seen import MarkSeen
from riverrun.operators.match.arrival import MatchOnArrival
from riverrun.operators.match.kernel import Match
from riverrun.operators.process.frames import ProcessFrames
from riverrun.operators.process.rows import Process
from riverrun.operators.rank import Rank
from riverrun.operators.rules.kernel import Rules
from riverrun.operators.search.spec import Search
from riverrun.operators.to_table import ToTable
from riverrun.operators.whole.step import Whole

OPERATORS: dict[str, type[Operator]] = {
    kind.kind: kind
    for kind in (
        Aggregate,
        Alert,
        Captured,
        Decide,
        Deduplicate,
        Gather,
        Keep,
        LatestJoin,
        Lookup,
        MarkSeen,
        Match,
        MatchOnArrival,
        Process,
        ProcessFrames,
        Rank,
        Rules,
        Search,
        StreamJoin,
        TableJoin,
        ToTable,
        VersionJoin,
        Whole,
    )
}


def refuse_taken_kind(does: Operator) -> None:
    """State of one kind must never be read as that of another."""
    # any other: a kind of one's own
    if OPERATORS.get(does.kind, type(does)) is not type(does):
        raise ProgramError(
            f"{does.kind!r} is a kind of step that riverrun has",
            where=does.at,
            got=f"kind of {type(does).__name__}",
            hint="give your operator a word of its own",
        )
