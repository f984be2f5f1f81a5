"""From the matches of a page to the rows that leave."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.columns import AT, EVENT, PLACE, TIME
from riverrun.durations import BEGINNING
from riverrun.kernels.isolation import isolated
from riverrun.kernels.letters import Failure
from riverrun.kernels.operator import Batch, StepState
from riverrun.kernels.positions import event_name
from riverrun.kernels.sql import shared_evaluator
from riverrun.operators.match.measures import Matched, Numbers, told
from riverrun.operators.match.navigation import CLASS, NUMBER
from riverrun.operators.match.search import Found
from riverrun.operators.match.spec import MatchSpec
from riverrun.schema import column_list, quoted

ODD = tuple(
    np.uint64(each) for each in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
)
"""Odd numbers that spread others over 64 bits."""


MATCHED, BEGAN = "__match", "__began"
"""Of a row that leaves: the number of its match, and when the first row of that was."""


def match_ids(found: Found, matched: Matched) -> npt.NDArray[np.uint64]:
    """A number for each match, which tells it from all others."""
    pos, sub = (matched.rows[name].to_numpy().astype(np.uint64) for name in ("__pos", "__sub"))
    mixed = pos * ODD[0] + sub * ODD[1] + matched.var.astype(np.uint64) * ODD[2]
    mixed = (mixed ^ (mixed >> np.uint64(29))) * ODD[1]
    by_time = np.array(found.by_time).astype(np.uint64)
    made: npt.NDArray[np.uint64] = np.add.reduceat(mixed, matched.begins) + by_time * ODD[2]
    return made


class Results:
    """What is told of the matches of one page in one batch."""

    def __init__(self, step: MatchSpec, state: StepState, batch: Batch, rows: pl.DataFrame) -> None:
        self.step, self.state, self.batch, self.rows = step, state, batch, rows
        self.evaluator = shared_evaluator(batch.functions)
        self.failures: list[Failure] = []
        self.lost = pl.DataFrame()
        """Of named rows those that a measure failed on: their place, and when their match began."""

    def told(self, found: Found, *, timed_out: bool = False, named: bool = False) -> pl.DataFrame:
        """The rows that leave, of matches or of partial ones; `named`: with what tells each from
        all others, and which match it is of (see `_names`)."""
        every_row = self.step.rows == "all" and not timed_out
        matched = self._matched(found, numbered=not timed_out)
        frame = told(
            self.step.measures, matched, self.evaluator, str(self.step.at), every_row=every_row
        )
        ids = match_ids(found, matched)
        places = self._places(found, matched, ids, every_row=every_row)
        points = np.arange(matched.rows.height) if every_row else matched.ends - 1
        columns = self.step.entering.visible.names if every_row else self.step.keys
        parts = [matched.rows.select(columns)[points], frame, places]
        if named:
            parts.insert(1, self._names(matched, ids, points, every_row=every_row))
            columns = (*columns, *parts[1].columns)
        whole = pl.concat([each for each in parts if each.width], how="horizontal")
        if every_row:
            whole = whole.filter(~pl.Series(self._excluded(found)))
        made = self._computed(whole, columns)
        if named and self.failures:
            lost = whole.join(made.select(PLACE), on=["__pos", "__sub"], how="anti")
            self.lost = lost.select("__pos", "__sub", BEGAN)
        return made

    def ids(self, found: Found) -> npt.NDArray[np.uint64]:
        """A number for each match: of its rows, and what each of them is."""
        return match_ids(found, self._matched(found, numbered=False))

    def _names(
        self, matched: Matched, ids: npt.NDArray[np.uint64], points: Numbers, *, every_row: bool
    ) -> pl.DataFrame:
        """Of each row that leaves: its name, the number of its match, and when that began. Only if
        every match is told do several begin with one row."""
        match = matched.match[points]
        first = matched.rows[matched.begins[match]]
        parts = [first.select(event_name()).to_series()]
        if self.step.matching.skip == "every match":
            parts.append(pl.Series(ids[match]).cast(pl.String))
        if every_row:
            parts.append(matched.rows[points].select(event_name()).to_series())
        name = pl.select(pl.concat_str(parts, separator=":")).to_series()
        return pl.DataFrame(
            [
                name.alias(EVENT),
                first["__hash"],
                pl.Series(MATCHED, ids[match]),
                first[TIME].alias(BEGAN),
            ]
        )

    def _labels(self, found: Found) -> Numbers:
        return np.array([q for labels in found.labels for q in labels], np.int64)

    def _excluded(self, found: Found) -> np.ndarray:
        return np.array(self.step.matching.automaton.excluded)[self._labels(found)]

    def _matched(self, found: Found, *, numbered: bool) -> Matched:
        automaton = self.step.matching.automaton
        sizes = np.array([len(each) for each in found.labels])
        ends = np.cumsum(sizes)
        first = np.array(found.first)
        chosen = np.repeat(first - (ends - sizes), sizes) + np.arange(ends[-1])
        var = np.array(automaton.var)[self._labels(found)]
        rows = self.rows[chosen]
        if any(value.column == CLASS for value in self.step.measures.values):
            names = pl.Series(CLASS, automaton.variables, dtype=pl.String)
            rows = rows.with_columns(names.gather(pl.Series(var)))
        if self.step.measures.numbered:
            numbers = (
                self._numbers(Matched(rows, var, ends - sizes, ends))
                if numbered
                else np.zeros(len(sizes), np.int64)
            )
            number = pl.Series(NUMBER, np.repeat(numbers, sizes), dtype=pl.Int64)
            rows = rows.with_columns(number if numbered else pl.lit(None, pl.Int64).alias(NUMBER))
        return Matched(rows, var, ends - sizes, ends)

    def _places(
        self, found: Found, matched: Matched, ids: npt.NDArray[np.uint64], *, every_row: bool
    ) -> pl.DataFrame:
        """Where rows that leave stand among others: the last row's place, and which match it is."""
        rows, match = matched.rows, ids
        at = rows[TIME].to_numpy()
        points = np.arange(rows.height) if every_row else matched.ends - 1
        times = at[points].copy()
        if every_row:
            if self.step.matching.skip == "past last row":
                return self._place(times, rows["__pos"], rows["__sub"])
            sub = rows["__sub"].to_numpy().astype(np.uint64)
            match = ids[matched.match] + sub * ODD[0]
        else:
            over = np.array(found.by_time)
            times[over] = at[matched.begins[over]] + self.step.matching.within
        told = pl.Series((match >> np.uint64(32)).astype(np.int64))
        return self._place(times, rows["__pos"].gather(pl.Series(points)), told)

    def _place(self, times: Numbers, pos: pl.Series, sub: pl.Series) -> pl.DataFrame:
        at = pl.Series(AT, times, dtype=pl.Int64).cast(pl.Datetime("us"))
        return pl.DataFrame([at, pos.alias("__pos"), sub.alias("__sub")])

    def _computed(self, rows: pl.DataFrame, columns: tuple[str, ...]) -> pl.DataFrame:
        """The measures, computed from their values."""
        measures = self.step.measures.measures
        if all(each.value for each in measures):
            made = [pl.col(str(each.value)).alias(each.name) for each in measures]
            return rows.select(*columns, *made, *PLACE)
        made_texts = [f"({each.text}) AS {quoted(each.name)}" for each in measures]
        query = (
            f"SELECT {', '.join([column_list(columns), *made_texts, column_list(PLACE)])} FROM rows"
        )
        made_rows, failed = isolated(
            self.evaluator,
            query,
            rows.to_arrow(),
            line=str(self.step.at),
            on_error=self.step.on_error,
        )
        self.failures += failed
        return pl.DataFrame(pl.from_arrow(made_rows))

    def _numbers(self, matched: Matched) -> Numbers:
        """Matches of a key are counted from one; after a long time without one, anew."""
        period = self.step.numbers_for or 0
        key = ["__hash", *self.step.keys]
        rows = matched.rows[matched.ends - 1].select(key)
        began, ended = (
            matched.rows[TIME].to_numpy()[at] for at in (matched.begins, matched.ends - 1)
        )
        counts = self.state.rows("numbers")
        wanted = rows.unique(maintain_order=True).with_columns(__slot=pl.lit(0, pl.Int64))
        known = counts.lookup(wanted)
        last = (
            {}
            if known is None
            else {
                tuple(each[:-2]): (each[-2], each[-1])
                for each in known.select(*key, "number", "ended").rows()
            }
        )
        numbers = np.empty(len(began), np.int64)
        for n, each in enumerate(rows.rows()):
            number, at = last.get(each, (0, BEGINNING))
            numbers[n] = number + 1 if began[n] - at <= period else 1
            last[each] = (int(numbers[n]), max(at, int(ended[n])))
        kept = [last[each] for each in wanted.select(key).rows()]
        counted = wanted.with_columns(
            pl.Series("number", [number for number, _ in kept], pl.Int64),
            pl.Series("ended", [at for _, at in kept], pl.Int64),
        )
        until = pl.col("ended") + period + self.step.matching.within + 1
        counts.append(
            counted.with_columns(until.alias("__until")).sort("__slot", "__hash"), self.batch.after
        )
        return numbers
