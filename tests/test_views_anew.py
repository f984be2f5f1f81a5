"""A program that starts over begins with empty views, and followers hear of the rows that go."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from riverrun.outputs import Done, Part
from riverrun.runtime import checkpoint
from riverrun.sinks.viewing.notes import Revision
from riverrun.sinks.viewing.store import Store
from riverrun.views.asked import Words
from riverrun.views.reading import Place
from test_views import HOUR, Stand, closed, place

__all__ = ["closed", "place"]


def anew(stand: Stand, checkpoint: str) -> Stand:
    """As the driver does before the first batch."""
    found = replace(stand, checkpoint=checkpoint, tick=stand.tick + 100, there={})
    before = Part("shop", checkpoint, 1, -1, 0, found.tick - 1)
    found.views.start_over(before, [found.output], found.evaluator)
    return found


def test_rows_that_are_not_written_again_are_gone_and_followers_hear_of_it(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    stand.batch(0, {"ann": 1, "bob/é": 2, "": 3})
    reader = stand.reader()
    at = Place.parse(str(reader.changes("per_user", Place.parse("0.-1"), 10)[-1].place))
    again = anew(stand, "c2")
    assert reader.page("per_user", Words()).rows == []
    told = reader.changes("per_user", at, 10)
    assert {(each.key, each.value) for each in told} == {
        ('"ann"', None), ('"bob/é"', None), ('""', None)
    }  # fmt: skip
    assert {str(each.place.revision) for each in told} == {"2.-1"}
    again.batch(0, {"ann": 5})
    assert reader.page("per_user", Words()).rows == [{"user": "ann", "n": 5}]
    after = reader.changes("per_user", Place.parse(str(told[-1].place)), 10)
    assert [(str(each.place.revision), each.key) for each in after] == [("2.0", '"ann"')]
    whole = {each.key for each in reader.changes("per_user", Place.parse("2.-1"), 10)}
    assert whole == {'"ann"'}


def test_a_start_that_is_broken_off_and_made_again_tells_of_each_row_once(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place())
    stand.batch(0, {f"user {number}": number for number in range(1200)})
    anew(stand, "c2")
    anew(stand, "c3").batch(0, {"ann": 1})
    found = stand.reader().changes("per_user", Place.parse("1.0"), 5000)
    assert len({each.key for each in found if each.value is None}) == 1200
    assert len(found) == 1201


def test_a_first_batch_without_a_time_is_not_taken_for_an_old_one(
    place: Callable[[], Store],
) -> None:
    stand = Stand(place(), tick=10 * HOUR)
    stand.views.note(replace(Done.before_all(Part("shop", "c1", 1, 0, 0, 0)), batch=0))
    stand.views.tidied_at = -1e9
    stand.batch(1, {"ann": 1})
    assert len(stand.reader().changes("per_user", Place.parse("1.-1"), 10)) == 1


def test_from_the_beginning_is_all_that_is_kept(place: Callable[[], Store]) -> None:
    stand = Stand(place(), tick=10 * HOUR)
    stand.batch(0, {"ann": 1})
    later = replace(stand, tick=20 * HOUR)
    later.views.tidied_at = -1e9
    later.batch(1, {"bob": 2})
    reader = stand.reader()
    assert reader.view("per_user").kept == Revision(1, 0)
    assert [each.key for each in reader.changes("per_user", Place.parse("0.-1"), 10)] == ['"bob"']


def test_a_checkpoint_has_begun_once_a_batch_is_planned(tmp_path: Path) -> None:
    assert not checkpoint.begun(tmp_path)
    offsets = tmp_path / "query" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.crc").touch()
    assert not checkpoint.begun(tmp_path)
    (offsets / "0").touch()
    assert checkpoint.begun(tmp_path)
