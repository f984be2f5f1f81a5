"""What a version does at X: tables go to where it writes from there on, and the log is told.

All rows up to X are there, of both versions, and nobody writes before the log says so. So what is
to be done follows from the tables as they stand, and can be done again after any end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from riverrun.app import App
from riverrun.config import Settings
from riverrun.delivery.comparable import as_additions
from riverrun.embedded import kafka
from riverrun.errors import CheckpointError
from riverrun.kafka.promotions import PromotionLog
from riverrun.kafka.topics import OUTAGE
from riverrun.kernels.sql import shared_evaluator
from riverrun.outputs import Swapped
from riverrun.partitions import as_texts
from riverrun.promotion import LEFT, TAKEN, Noted
from riverrun.runtime import deployments
from riverrun.runtime.target import PATIENCE, Target, opened, unreadable
from riverrun.runtime.versioned import beside
from riverrun.versions import Version

Tell = Callable[[str], None]


def switched(app: App, version: Version, settings: Settings, tell: Tell) -> None:
    """The former version takes its tables along; the new one puts its own in their place. It is
    left out where it is done already."""
    log = PromotionLog(kafka.client(settings), version.of, patience=OUTAGE)
    known = log.look()
    if known.open is None or known.turn(version.name) != "switch":
        return
    leaving = version.name == known.open.former
    for own, public in tables(app, version, settings):
        source, place = (public, own) if leaving else (own, public)
        done = brought(source, place)
        tell(
            f"{place.output.sink.text}: {done.added:,} added, {done.changed:,} changed,"
            f" {done.removed:,} removed"
        )
    if not leaving:
        deployments.promoted(settings, version, as_texts(known.open.at or {}))
    log.note(Noted(0, LEFT if leaving else TAKEN, known.open.number))


def tables(app: App, version: Version, settings: Settings) -> Iterator[tuple[Target, Target]]:
    """Of each table that others read: the version's own place, and the public one. What others are
    told is no table of theirs."""
    own, public = (beside(app, version, public=each).program() for each in (False, True))
    for mine, theirs in zip(own.outputs, public.outputs, strict=True):
        if mine.table and mine.sink != theirs.sink and theirs.sink.beside(version) is not None:
            yield opened(own, mine, settings), opened(public, theirs, settings)


def brought(source: Target, place: Target) -> Swapped:
    """The rows of one place are those of another, in one step for every reader."""
    place.destination.prepare([place.output])
    evaluator = shared_evaluator()
    handed = place.destination.handed_over(source.output, place.output, place.owner)
    if handed is not None:
        return handed
    found = source.destination.standing(source.output, source.owner)
    renewal = place.destination.renewal(place.output, place.owner)
    if found is None or renewal is None:
        raise unreadable(place.output)
    source.batches.look()
    tick = source.batches.at(source.batches.committed()).tick
    with renewal as fresh:
        with found as standing:
            for rows in standing.rows:
                fresh.change(as_additions(source.output, rows, evaluator), evaluator)
        give_up_at = time.monotonic() + PATIENCE
        while time.monotonic() < give_up_at:
            with fresh.held():
                if (swapped := fresh.swap(tick)) is not None:
                    return swapped
    raise CheckpointError(
        "somebody writes to a table whose writers wait for each other",
        where=place.output.sink.text,
        hint="stop whoever it is; then start this one again, and it goes on",
    )
