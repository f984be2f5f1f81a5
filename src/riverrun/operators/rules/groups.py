"""Rules of one shape side by side: which of them can be where, all keys and rules at once.

Sets of rules are bits. Of a key, `amount > $limit` can hold for the rules with a limit below its
greatest amount: one look into the sorted limits tells them all.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from riverrun.operators.rules.at_hand import AtHand, Numbers, Truths
from riverrun.operators.rules.filters import Atom, Filter
from riverrun.operators.rules.parameters import column_of
from riverrun.operators.rules.rule import Rule
from riverrun.operators.rules.shape import Shape

Sets = npt.NDArray[np.uint64]
Values = npt.NDArray[Any]
LARGEST = 1024
"""Rules of a group: sets of more would not be small."""
POLARS: dict[str, pl.DataType] = {
    "BOOLEAN": pl.Boolean(),
    "BIGINT": pl.Int64(),
    "DOUBLE": pl.Float64(),
    "VARCHAR": pl.String(),
}


class Group:
    """Some rules of one shape."""

    def __init__(self, shape: Shape, rules: list[Rule]) -> None:
        self.shape, self.rules = shape, rules
        self.begins = np.array([each.begins for each in rules], np.int64)
        self.ends = np.array([each.ends for each in rules], np.int64)
        self.ids = np.array([each.id for each in rules], np.int64)
        words = -(-len(rules) // 64)
        number = np.arange(len(rules))
        self.single = np.zeros((len(rules), words), np.uint64)
        self.single[number, number // 64] = np.uint64(1) << (number % 64).astype(np.uint64)
        self.every: Sets = np.bitwise_or.reduce(self.single, axis=0)
        self.limits: dict[str, Limits] = {}

    @cached_property
    def parameters(self) -> pl.DataFrame:
        """A row for each rule."""
        return pl.DataFrame(
            [
                pl.Series(
                    column_of(name),
                    [each.parameters[name] for each in self.rules],
                    pl.List(POLARS[type[:-2]]) if type.endswith("[]") else POLARS[type],
                )
                for name, type in self.shape.types
            ]
        )

    @cached_property
    def told(self) -> pl.DataFrame:
        """What rows say of their rule."""
        return pl.DataFrame(
            {
                "rule": [each.name for each in self.rules],
                "version": [each.version for each in self.rules],
                "metadata": [json.dumps(each.metadata, ensure_ascii=False) for each in self.rules],
            },
            schema={"rule": pl.String, "version": pl.Int64, "metadata": pl.String},
        )

    def limit(self, atom: Atom) -> Limits:
        key = f"{atom.kind} {atom.parameter}"
        if key not in self.limits:
            self.limits[key] = Limits(self.parameters[atom.parameter], atom, self.single)
        return self.limits[key]

    def candidates(self, page: AtHand) -> tuple[Numbers, Numbers]:
        """Keys and rules of which a match can end with a new row; or begin, if it is to be told
        that it came to nothing."""
        shape, nothing = self.shape, np.empty(0, np.int64)
        told = shape.spec.matching.timeouts
        if shape.prompt:
            chosen = shape.firsts if told else shape.ends
            ways = [self._where(shape.filters[v], page, page.new) for v in chosen]
            found: Sets = np.bitwise_or.reduce(ways) if len(ways) > 1 else ways[0]
        else:
            found = self._where(Filter(), page, page.new)
        keys = np.flatnonzero(found.any(axis=1))
        if not len(keys):
            return nothing, nothing
        for v in () if told else shape.required:
            if shape.ends != (v,):
                found = found & self._where(shape.filters[v], page, None)
        keys = np.flatnonzero(found.any(axis=1))
        bits = np.unpackbits(found[keys].view(np.uint8), axis=1, bitorder="little")
        rows, rules = np.nonzero(bits)
        return keys[rows], rules

    def _where(self, each: Filter, page: AtHand, chosen: Truths | None) -> Sets:
        """Of each key, the rules for which some of the chosen rows can be of a variable."""
        starts, found = page.begins[:-1], None
        for text in each.shared:
            holds = page.conditions[text]
            chosen = holds if chosen is None else chosen & holds
        for atom in each.atoms:
            sets = self._where_atom(atom, page, chosen)
            found = sets if found is None else found & sets
        if found is not None:
            return found
        if chosen is None:
            return np.broadcast_to(self.every, (page.keys, len(self.every)))
        some = np.logical_or.reduceat(chosen, starts)
        return np.where(some[:, None], self.every, np.uint64(0))

    def _where_atom(self, atom: Atom, page: AtHand, chosen: Truths | None) -> Sets:
        starts, limits = page.begins[:-1], self.limit(atom)
        if atom.sign == "=":
            codes = limits.codes(atom, page)
            if chosen is not None:
                codes = np.where(chosen, codes, -1)
            sets: Sets = np.bitwise_or.reduceat(limits.same[codes], starts, axis=0)
            return sets
        found = page.value(atom)
        if found.known is not None:
            chosen = found.known if chosen is None else chosen & found.known
        upwards = atom.sign in (">", ">=")
        values = found.values
        if chosen is not None:
            values = np.where(chosen, values, _outermost(values.dtype, lowest=upwards))
        # what is no number is greater than all: it is a maximum, never a minimum
        extreme = np.maximum if upwards else np.fmin
        return limits.beyond(atom, extreme.reduceat(values, starts))

    def holds(self, atom: Atom, page: AtHand, rows: Numbers, rules: Numbers) -> Truths:
        """Whether a comparison holds, of rows with rules."""
        limits = self.limit(atom)
        if atom.sign == "=":
            found: Truths = limits.codes(atom, page)[rows] == limits.code[rules]
            return found
        value = page.value(atom)
        values, limit = value.values[rows], limits.values[rules]
        match atom.sign:
            case ">":
                found = ~(values <= limit)  # also what is no number
            case ">=":
                found = ~(values < limit)
            case "<":
                found = values < limit
            case "<=":
                found = values <= limit
            case _:
                raise ValueError(atom.sign)
        return found if value.known is None else found & value.known[rows]


def _outermost(dtype: np.dtype, *, lowest: bool) -> float | int:
    if dtype.kind == "f":
        return -np.inf if lowest else np.inf
    return int(np.iinfo(dtype).min if lowest else np.iinfo(dtype).max)


class Limits:
    """The values of one parameter: sorted, and for each place among them the rules beyond it."""

    def __init__(self, given: pl.Series, atom: Atom, single: Sets) -> None:
        self.texts = given if atom.kind == "text" else None
        if self.texts is not None:
            values = given.rank("dense").cast(pl.Int64).to_numpy() - 1
        else:
            values = given.cast(pl.Int64 if atom.kind == "whole" else pl.Float64).to_numpy()
        self.values: Values = values
        order = np.argsort(values, kind="stable")
        self.sorted = values[order]
        none = np.zeros((1, single.shape[1]), np.uint64)
        chosen = single[order]
        self.below = np.concatenate([none, np.bitwise_or.accumulate(chosen, axis=0)])
        self.above = np.concatenate([np.bitwise_or.accumulate(chosen[::-1], axis=0)[::-1], none])
        self.distinct, self.code = np.unique(values, return_inverse=True)
        self.same = np.zeros((len(self.distinct) + 1, single.shape[1]), np.uint64)
        """Of each value that there is, its rules; the last is for any other."""
        np.bitwise_or.at(self.same, self.code, single)

    def beyond(self, atom: Atom, extremes: Values) -> Sets:
        """The rules for whose limits a comparison holds with the furthest value of a key."""
        side: Literal["left", "right"] = "left" if atom.sign in (">", "<=") else "right"
        sets = self.below if atom.sign in (">", ">=") else self.above
        found: Sets = sets[np.searchsorted(self.sorted, extremes, side=side)]
        return found

    def codes(self, atom: Atom, page: AtHand) -> Numbers:
        """Which of the values each row has; -1: none of them."""
        key = (id(self), atom.value)
        if key not in page.codes:
            page.codes[key] = self._codes(atom, page)
        return page.codes[key]

    def _codes(self, atom: Atom, page: AtHand) -> Numbers:
        if self.texts is not None:
            codes = dict(zip(self.texts.to_list(), self.code.tolist(), strict=True))
            found = page.texts(atom).replace_strict(
                list(codes), list(codes.values()), default=-1, return_dtype=pl.Int64
            )
            return found.to_numpy()
        value = page.value(atom)
        place = np.searchsorted(self.distinct, value.values)
        place[place == len(self.distinct)] = 0
        same = self.distinct[place] == value.values
        if value.known is not None:
            same &= value.known
        return np.where(same, place, -1)
