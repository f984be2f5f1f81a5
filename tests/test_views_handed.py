"""A view that another version writes from now on: followers are told the difference, once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

from riverrun.outputs import Owner
from riverrun.sinks.viewing.store import Store
from riverrun.views.asked import Words
from riverrun.views.reading import Place, Reader
from test_views import Stand, closed, place

__all__ = ["closed", "place"]


class Follower:
    """Knows a view by its changes alone."""

    def __init__(self, reader: Reader) -> None:
        self.reader, self.at, self.rows = reader, Place.parse("0.-1"), dict[str, int]()

    def told(self) -> list[tuple[str, str, int | None]]:
        found = self.reader.changes("per_user", self.at, 100)
        news = []
        for each in found:
            self.at, n = each.place, each.value and json.loads(each.value)["n"]
            news.append((str(each.place.revision), json.loads(each.key), n))
            self.rows[json.loads(each.key)] = n
        self.rows = {user: n for user, n in self.rows.items() if n is not None}
        return news


def rows(reader: Reader) -> dict[str, int]:
    return {row["user"]: row["n"] for row in reader.page("per_user", Words()).rows}


def hand(source: Stand, place: Stand) -> None:
    """To where the owner of `place` writes from now on."""
    owner = Owner(place.application, place.checkpoint)
    place.views.handed_over(source.output, place.output, owner)


def test_a_view_is_handed_over_and_back_and_followers_are_told_each_difference_once(
    place: Callable[[], Store],
) -> None:
    store = place()
    old, new = Stand(store), Stand(store, "per_user__v2", checkpoint="c2", application="shop--v2")
    old.batch(0, {"ann": 1, "bob": 2, "cid": 3})
    new.batch(0, {"ann": 10, "cid": 3, "dan": 4})
    reader, follower = old.reader(), Follower(old.reader())
    assert len(follower.told()) == 3

    beside = replace(old, name="per_user__current")
    public = replace(old)
    public.application, public.checkpoint = new.application, new.checkpoint
    hand(old, beside)
    hand(new, public)
    hand(new, public)  # once more, as after a kill
    assert [each[1:] for each in follower.told()] == [("ann", 10), ("bob", None), ("dan", 4)]
    assert rows(reader) == follower.rows == {"ann": 10, "cid": 3, "dan": 4}

    public = replace(public, there=dict(new.there))  # announced as that of the new one
    public.batch(1, {"ann": 11, "cid": None})
    beside.there = dict(old.there)
    beside.batch(1, {"ann": 2})
    assert [each[1:] for each in follower.told()] == [("ann", 11), ("cid", None)]
    assert rows(reader) == follower.rows == {"ann": 11, "dan": 4}

    hand(public, new)
    hand(beside, old)
    told = follower.told()
    assert {each[1:] for each in told} == {("ann", 2), ("bob", 2), ("cid", 3), ("dan", None)}
    assert len({each[0] for each in told}) == 1
    assert rows(reader) == follower.rows == {"ann": 2, "bob": 2, "cid": 3}
    again = replace(old, there=dict(beside.there))
    again.batch(2, {"eve": 5})
    assert [each[1:] for each in follower.told()] == [("eve", 5)]
