"""What a task reads: lots through the program's reader, and what is to be told of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from riverrun.clock import Now, Punctuation
from riverrun.kernels.chunks import Chunk
from riverrun.kernels.lots import LotReader
from riverrun.kernels.messages import Status, marks
from riverrun.partitions import Range
from riverrun.sources.source import Source


def read_ranges(
    source: Source, reader: LotReader, ranges: Sequence[Range], now: Now, said: Punctuation
) -> Iterator[list[Chunk]]:
    """The chunks of each lot, with its counts; at the end, for every page, how far time has come.

    `said` is what the batch itself says of time.
    """
    program = reader.program
    headers = frozenset(each.topic for each in program.sources if "_headers" in each.metadata)
    for lot in source.lots(ranges, headers):
        reading = reader.read(lot, now)
        said.add(reading.said)
        leaving = [*reading.chunks, reading.counts.chunk()]
        del lot, reading  # the next one is read before these names are given again
        yield leaving
        del leaving
    highs = {str(who): high for who, high in said.highs.items() if who.topic in program.topics}
    ends = {str(each.partition): each.end for each in ranges} | now.stands
    status = Status(tick=now.tick, control=said.control, paused=said.paused, highs=highs, ends=ends)
    told = [status.chunk()]
    yield [*told, *marks(said, program.pages)] if program.steps else told
