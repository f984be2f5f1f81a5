"""The log of promotions: what follows from its records, in whatever order they come."""

from __future__ import annotations

import riverrun as rr
from riverrun.partitions import Partition
from riverrun.promotion import (
    ASKED,
    FROM,
    GIVEN_UP,
    LEFT,
    PARKED,
    TAKEN,
    Noted,
    Promotions,
    ahead_of,
    promotions,
)
from riverrun.runtime.promote import other_times
from riverrun.sources.gate import Limit

ZERO, ONE = Partition("clicks", 0), Partition("clicks", 1)
X = {ZERO: 9, ONE: 4}


def log(*records: Noted) -> list[Noted]:
    """As a topic gives them back."""
    return [Noted.decoded(offset, each.encoded()) for offset, each in enumerate(records)]


def noted(kind: str, number: int | None = 0, **facts: object) -> Noted:
    return Noted(0, kind, number, **facts)  # type: ignore[arg-type]


WHOLE = [
    noted(ASKED, None, version="v2", by="ann"), noted(PARKED, at={ZERO: 5, ONE: 4}),
    noted(FROM, at=X), noted(LEFT), noted(TAKEN),
]  # fmt: skip


def seen(found: Promotions) -> tuple[object, ...]:
    return (
        found.turn("current"), found.turn("v2"), found.turn("v3"),
        [each for each in ("current", "v2", "v3") if found.is_public(each)],
    )  # fmt: skip


def test_a_promotion_goes_from_record_to_record_and_never_two_are_public():
    assert [seen(promotions(log(*WHOLE[:n]))) for n in range(6)] == [
        (None, None, None, ["current"]),
        (None, "park", None, ["current"]),
        ("point", "wait", None, ["current"]),
        ("switch", "go", None, ["current"]),
        (None, "switch", None, []),
        (None, None, None, ["v2"]),
    ]
    assert promotions(log(*WHOLE)).done[0].by == "ann"


def test_what_is_said_again_or_too_late_or_of_another_promotion_changes_nothing():
    for end in range(1, 6):
        before = promotions(log(*WHOLE[:end]))
        for each in (*WHOLE[:end], noted(FROM, 77, at={}), noted(TAKEN, 77), noted("odd")):
            again = promotions(log(*WHOLE[:end], each))
            assert seen(again) == seen(before)
            assert (again.open and again.open.at) == (before.open and before.open.at)
    assert promotions([Noted.decoded(0, each) for each in (None, b"{", b"[]", b"{}")]) == (
        Promotions()
    )


def test_it_can_be_given_up_until_there_is_an_x_and_not_after():
    for end in (1, 2):
        assert promotions(log(*WHOLE[:end], noted(GIVEN_UP))) == Promotions()
        # who was slower names an X that nobody goes by
        assert promotions(log(*WHOLE[:end], noted(GIVEN_UP), noted(FROM, at=X))) == Promotions()
    for end in (3, 4):
        whole = promotions(log(*WHOLE[:end], noted(GIVEN_UP)))
        assert whole == promotions(log(*WHOLE[:end]))


def test_of_two_that_ask_at_once_the_first_is_heard_and_back_is_the_same_way():
    other = noted(ASKED, None, version="v3")
    found = promotions(log(WHOLE[0], other))
    assert found.open is not None
    assert found.open.version == "v2"
    back = [noted(ASKED, None, version="current"), noted(PARKED, 5), noted(FROM, 5, at={ZERO: 20})]
    found = promotions(log(*WHOLE, *back))
    assert seen(found) == ("go", "switch", None, ["v2"])
    assert found.public_next == "current"


def test_no_batch_crosses_x_and_at_x_nothing_is_planned():
    found = promotions(log(*WHOLE[:3])).open
    assert found is not None
    limit = Limit("go", found)
    new = Partition("clicks", 2)
    begin = {ZERO: 5, ONE: 4, new: 0}
    assert limit.limited(begin, {ZERO: 50, ONE: 50, new: 3}) == {ZERO: 9, ONE: 4, new: 0}
    assert limit.limited(begin, {ZERO: 7, ONE: 4, new: 0})[ZERO] == 7
    assert not limit.holds(begin)
    assert limit.holds({ZERO: 9, ONE: 4, new: 0})
    assert Limit("wait", found).holds(begin)


def test_x_is_ahead_of_both_and_one_for_all_readings_of_a_topic():
    again = Partition("clicks~once more", 0)
    assert ahead_of({ZERO: 3, again: 8}, {ZERO: 5, ONE: 1}) == {ZERO: 8, ONE: 1}
    found = promotions(log(*WHOLE[:3])).open
    assert found is not None
    assert found.limit(again) == 9


def pages(lateness="5 seconds", emit="ready", *, table=False):
    app = rr.App("shop")
    views = app.stream("views", schema="page string, at timestamp", time="at", lateness=lateness)
    window = views.group_by("page", name="pages").window(rr.tumbling("1 minute"), emit=emit)
    counted = window.agg(n=rr.count())
    (counted if table else counted.changes()).to("counts")
    return app.program()


def test_what_makes_versions_tell_streams_at_other_clocks_is_named():
    assert list(other_times(pages(), pages())) == []
    assert list(other_times(pages(), pages("1 second", "final"))) == [
        "the topic views is read with another lateness",
        "the step 'pages' has another emit",
    ]
    assert list(other_times(pages(table=True), pages("1 second", table=True))) == []
