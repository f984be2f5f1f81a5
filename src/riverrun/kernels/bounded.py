"""Aggregates that keep a number of values that the program says, and no more."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import polars as pl

from riverrun.kernels import multisets
from riverrun.kernels.parts import Aggregation, Change, Kind, Part, Parts, of_lists

PLACE = "'at': __at, 'pos': __pos, 'sub': __sub"
LATER = "'at': -epoch_us(__at), 'pos': -__pos, 'sub': -__sub"
BY_PLACE = f"{{{{{PLACE}, 'value': {{x}}}}}}"
BY_VALUE = f"{{{{'value': {{x}}, {PLACE}}}}}"
CHOSEN = f"{{{{'by': {{other}}, {PLACE}, 'value': {{x}}}}}}"

NAMES = ("earliest", "latest", "largest", "smallest", "distinct_values", "max_by", "min_by")


def kind_of(each: Aggregation) -> Kind:
    return _kind(each.kind, each.k)


@cache
def _kind(name: str, k: int) -> Kind:
    match name:
        case "earliest":
            return _listed(BY_PLACE, lambda lists: lists.list.sort().list.head(k))
        case "latest":
            return _listed(BY_PLACE, lambda lists: lists.list.sort().list.tail(k))
        case "smallest":
            return _listed(BY_VALUE, lambda lists: lists.list.sort().list.head(k))
        case "largest":
            return _listed(BY_VALUE, lambda lists: lists.list.sort(descending=True).list.head(k))
        case "distinct_values":
            return _listed("{{'value': {x}, 'n': 1::BIGINT}}", lambda lists: _different(lists, k))
        case "max_by":
            return _chosen(f"arg_max({CHOSEN}, {{{{'by': {{other}}, {LATER}}}}})", largest=True)
        case "min_by":
            return _chosen(f"arg_min({CHOSEN}, {{{{'by': {{other}}, {PLACE}}}}})", largest=False)
        case _:
            raise ValueError(f"no such aggregate: {name}")


def _listed(item: str, kept: Callable[[pl.Series], pl.Series]) -> Kind:
    """A list of items, of which some are kept."""
    made = f"coalesce(list({item}) FILTER ({{given}}), [])"
    single = f"CASE WHEN {{given}} THEN [{item}] ELSE [] END"
    keep: Change = of_lists(kept)
    parts = (Part("v", made, lambda parts: multisets.appended(parts["v"]), single),)
    return Kind(parts, _values, keep, keep)


def _values(parts: Parts, _: Aggregation) -> pl.Expr:
    return parts["v"].list.eval(pl.element().struct.field("value"))


def _different(lists: pl.Series, k: int) -> pl.Series:
    return multisets.settled(lists).list.head(k)


def _chosen(made: str, *, largest: bool) -> Kind:
    """One item: that of the greatest or smallest, and of equal ones the first."""

    def merge(parts: Parts) -> pl.Expr:
        present = parts["v"].drop_nulls()
        order = [present.struct.field(name) for name in ("by", "at", "pos", "sub")]
        return present.sort_by(order, descending=[largest, False, False, False]).first()

    part = Part("v", f"{made} FILTER ({{given}})", merge)
    return Kind((part,), lambda parts, _: parts["v"].struct.field("value"))
