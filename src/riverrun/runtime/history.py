"""From which batches of the log an output can be made again, and what stands against it.

As long as Spark's log of batches goes back to the first, they are run again as they were. Later the
beginning is cut anew into large batches: tables are the same however their input is cut. What is
not, and input that is gone, is told: a doubt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from riverrun.durations import milliseconds_of
from riverrun.kafka import admin
from riverrun.kafka.first_at import first_at
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.operator import Operator
from riverrun.kernels.program import Program, ReadTopic
from riverrun.operators.aggregate import Aggregate
from riverrun.operators.captured import Captured
from riverrun.operators.gather import Gather
from riverrun.operators.joins.tables import TableJoin
from riverrun.operators.lookups.lookup import Lookup
from riverrun.operators.rank import Rank
from riverrun.operators.to_table import ToTable
from riverrun.partitions import Partition
from riverrun.runtime.batches import Batches
from riverrun.runtime.replay import topics_of
from riverrun.sources.admission import Ends
from riverrun.sources.planning import Offset
from riverrun.times import ProcessingTime

LARGE = 500_000
"""Records of a batch that is cut anew."""

Cut = tuple[Offset, Offset]


@dataclass(frozen=True)
class History:
    cuts: list[Cut]
    """Batches to run, one after the other."""
    doubts: list[str] = field(default_factory=list)
    """Why what comes of them may not be what the job has made."""

    @property
    def records(self) -> int:
        return sum(records_of(cut) for cut in self.cuts)


def records_of(cut: Cut) -> int:
    return sum(max(0, place - _begin(cut, each)) for each, place in cut[1].ends.items())


def _begin(cut: Cut, partition: Partition) -> int:
    start, end = cut
    return end.begins.get(partition, start.ends.get(partition, 0))


def history(part: Program, batches: Batches, last: int, topics: KafkaTopics) -> History:
    """All up to the end of batch `last`."""
    first, read = batches.first(), topics_of(part)
    if first == 0:
        cuts = _as_they_were(batches, -1, last)
        begin = _beginnings(cuts, read)
        starts = {p: at for p, at in topics.starts(begin).items() if at > begin[p]}
        gone = [
            f"{each}: offsets {begin[each]} to {start - 1} are gone: retention has deleted them"
            for each, start in starts.items()
        ]
        return History(_from(cuts, starts), [*gone, *_beside_the_log(part, topics)])
    begin, doubts = _first_offsets(part, batches.at(last), topics)
    by_cut = list(_by_cut(part))
    until = first if by_cut else last
    anew = _large(part, begin, batches.at(until))
    doubts += [f"{each}, and the first {first} batches are forgotten" for each in by_cut]
    doubts += _beside_the_log(part, topics)
    return History([*anew, *_as_they_were(batches, until, last)], doubts)


def _as_they_were(batches: Batches, after: int, last: int) -> list[Cut]:
    found, start = [], batches.at(after) if after >= 0 else Offset({})
    for number in range(after + 1, last + 1):
        end = batches.at(number)
        found.append((start, end))
        start = end
    return found


def _large(part: Program, begin: Ends, end: Offset) -> list[Cut]:
    """The range in equal shares of each partition."""
    read = topics_of(part)
    ends = {each: place for each, place in end.ends.items() if each.topic in read}
    total = sum(place - begin[each] for each, place in ends.items())
    count, found = max(1, -(-total // LARGE)), []
    start = Offset(begin)
    for number in range(1, count + 1):
        until = {p: begin[p] + (place - begin[p]) * number // count for p, place in ends.items()}
        done = replace(end, ends=until, begins={}, clocks=None, behind=[], paused=[])
        found.append((start, done if number < count else replace(done, ends=end.ends)))
        start = found[-1][1]
    # topics that are not read for the output have no beginning: they stand at their end
    others = {each: place for each, place in end.ends.items() if each.topic not in read}
    found[0] = (replace(found[0][0], ends={**begin, **others}), found[0][1])
    return found


def _beginnings(cuts: list[Cut], read: frozenset[str]) -> Ends:
    found: Ends = {}
    for cut in cuts:
        for partition in cut[1].ends:
            if partition.topic in read:
                found.setdefault(partition, _begin(cut, partition))
    return found


def _from(cuts: list[Cut], starts: Ends) -> list[Cut]:
    """Batches without what is gone."""
    if not starts:
        return cuts
    left = []
    for start, end in cuts:
        later = {each: at for each, at in starts.items() if _begin((start, end), each) < at}
        left.append((start, replace(end, begins={**end.begins, **later})))
    return left


def _first_offsets(part: Program, end: Offset, topics: KafkaTopics) -> tuple[Ends, list[str]]:
    """Where reading began, as far as topics can tell: the batch that knew is forgotten."""
    begin, doubts, read = Ends(), list[str](), topics_of(part)
    for source in part.sources:
        partitions = [each for each in end.ends if each.topic == source.topic]
        if source.topic not in read:
            continue
        starts = topics.starts(partitions)
        begin |= _started(source, partitions, topics)
        if source.start == "latest":
            doubts.append(f"{source.topic} was read from its end at the time, which is forgotten")
        doubts += [
            f"{each}: offsets before {place} are gone, and perhaps were read"
            for each, place in starts.items()
            if place > 0 and begin[each] <= place
        ]
    return begin, doubts


def _started(source: ReadTopic, partitions: list[Partition], topics: KafkaTopics) -> Ends:
    if source.start in ("earliest", "latest"):
        return topics.starts(partitions)
    return first_at(topics, partitions, milliseconds_of(source.start))


def _beside_the_log(part: Program, topics: KafkaTopics) -> Iterator[str]:
    """What the log does not hold, or no longer: of a table, compaction leaves the last row of each
    key; of a stream it leaves no trace."""
    read = topics_of(part)
    for topic in (each.topic for each in part.sources if each.topic in read and not each.table_key):
        if "compact" in admin.settings(topics.client, topic)["cleanup.policy"]:
            yield f"{topic} is compacted: records that were read may be gone"
    for step in part.steps:
        if isinstance(step.does, Lookup):
            yield f"the step {step.name!r} asks a database, which may answer otherwise today"


def _by_cut(part: Program) -> Iterator[str]:
    """What comes out otherwise when the same input is cut into other batches."""
    for step in part.steps:
        if not _same_for_every_cut(step.does):
            yield f"the step {step.name!r} ({step.does.kind}) goes by its batches"
    read = topics_of(part)
    for source in part.sources:
        if source.topic in read and isinstance(source.time, ProcessingTime):
            yield f"{source.topic} goes by the time of its batches"


def _same_for_every_cut(does: Operator) -> bool:
    match does:
        case ToTable():
            return does.keep is None and does.keep_deletes is None
        case TableJoin() | Rank():
            return True
        case Captured():
            return does.form == "changes"
        case Gather():
            return not does.facts
        case Aggregate():
            return not does.window.late
        case _:  # any other: late rows, rows that meet what stands, timers; one's own says nothing
            return False
