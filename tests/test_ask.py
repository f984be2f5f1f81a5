"""Questions to a program in the driver: of every kind of table, at every batch, after crashes."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

import riverrun as rr
from riverrun.compiler.shape import shape
from riverrun.control import ASKED, QUESTION, QUESTIONS, SKEW, Command, first_of, waited_for
from riverrun.errors import InputError, JobError, ProgramError
from riverrun.kernels import questions
from riverrun.kernels.questions import Answering, Place, Point, Question, as_bytes, part_of
from riverrun.questions.answer import Parts, answered
from riverrun.questions.split import split
from riverrun.runtime import checkpoint
from riverrun.schema import parse
from riverrun.testing import Driver

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "k string, g bigint, x bigint, at timestamp"


def stream(app, **more):
    return app.stream("rows", schema=SCHEMA, time="at", lateness="10 seconds", **more)


def windowed(window):
    def program(app):
        rows = stream(app).group_by("k", name="asked")
        rows = rows.window(window, updatable="20 seconds", emit="changes")
        rows.agg(n=rr.count(), total=rr.sum("x"), mean=rr.avg("x"), xs=rr.collect("x")).to("out")

    return program


def all_time(app):
    stream(app).group_by("k", name="asked").agg(n=rr.count(), most=rr.max("x")).to("out")


def of_a_table(app):
    latest = stream(app).to_table("k", delete="x = 0")
    latest.group_by("g", name="asked").agg(n=rr.count(), x=rr.sum("x")).to("out")


def compared(app):
    rows = stream(app).group_by("k", name="asked")
    rows = rows.window(rr.tumbling("10 seconds"), updatable="20 seconds", emit="changes")
    rows.agg(n=rr.compared_to("10 seconds", rr.count())).to("out")


def latest(app):
    stream(app).to_table("k", delete="x = 0", name="asked").to("out")


def topic(app):
    app.table("rows", schema=SCHEMA, key="k").to("out")


def ranked(app):
    table = stream(app).to_table("k", delete="x = 0")
    table.group_by("g", name="asked").top(2, by="x", place="place").to("out")


def joined(how):
    def program(app):
        left = stream(app).to_table("k", delete="x = 0", name="left")
        right = app.table("others", schema="o string, g bigint, y bigint", key="o")
        left.join(right, on="g", how=how, name="asked").to("out")

    return program


TABLES = {
    "all time": all_time, "of a table": of_a_table, "compared": compared, "latest": latest,
    "topic": topic, "ranked": ranked,
    **{f"{how} join": joined(how) for how in ("inner", "left", "right", "full")},
}  # fmt: skip
WINDOWS = {
    "tumbling": rr.tumbling("15 seconds"),
    "a day of a zone": rr.tumbling("1 day", timezone="Europe/Berlin"),
    "hopping": rr.hopping("30 seconds", "10 seconds"),
    "session": rr.session("5 seconds"),
    "sliding": rr.sliding("12 seconds"),
}


def played(program, seed, batches=10):
    """Random records in random batches, with crashes and restarts; a driver after each."""
    dice, app = random.Random(seed), rr.App("asked", pages=3)
    program(app)
    driver = Driver(app)
    for number in range(batches):
        for _ in range(dice.randrange(9)):
            at = NOON + timedelta(seconds=number * 4 - dice.randrange(30))
            key, group = dice.choice("abcdef"), dice.choice([None, 1, 2])
            row = {"k": key, "g": group, "x": dice.randrange(4), "at": at.isoformat()}
            driver.send("rows", row, key=json.dumps(key))
            other = {"o": key, "g": dice.choice([None, 1, 2]), "y": number}
            driver.send("others", None if dice.random() < 0.2 else other, key=json.dumps(key))
        if dice.random() < 0.2:
            driver.crash()
        yield driver
        if dice.random() < 0.2:
            driver.restart()


def rows_of(answer):
    return sorted(json.dumps(row, sort_keys=True) for row in answer.as_json()["rows"])


def step_of(driver):
    return "asked" if "asked" in driver.program.tables else "rows"


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_a_table_are_those_that_its_readers_have(name, seed):
    found = 0
    for driver in played(TABLES[name], seed):
        answer = driver.ask(step_of(driver), "FROM rows")
        wanted = [json.dumps(row, sort_keys=True) for row in driver.table("out")]
        if name == "compared":
            wanted = [row for row in wanted if still_open(json.loads(row), answer, 20)]
        assert rows_of(answer) == sorted(wanted)
        found += len(wanted)
    assert found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", WINDOWS)
def test_the_rows_of_windows_are_those_that_are_not_closed(name, seed):
    found = 0
    for driver in played(windowed(WINDOWS[name]), seed):
        answer = driver.ask("asked", "FROM rows")
        rows = [
            row for row in driver.table("out") if still_open(row, answer, 20, name == "sliding")
        ]
        assert rows_of(answer) == sorted(json.dumps(row, sort_keys=True) for row in rows)
        found += len(rows)
    assert found


def still_open(row, answer, updatable, last=False):
    """A row of a sliding window is its end itself, and may come as long as the clock is there."""
    end = datetime.fromisoformat(row["window_end"]).timestamp() * 1e6 + last
    return end > answer.point.clock - updatable * 1_000_000


def test_a_window_can_be_asked_for_before_it_is_emitted():
    app = rr.App("shop")
    views = app.stream("views", schema="page string, at timestamp", time="at")
    views.group_by("page", name="pages").window(rr.tumbling("1 hour")).agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("views", {"page": "/", "at": NOON.isoformat()})
    answer = driver.ask("pages", "SELECT page, n, window_end FROM pages")
    assert driver.outputs["out"] == []
    assert answer.as_json()["rows"] == [{"page": "/", "n": 1, "window_end": "2026-01-01T13:00:00Z"}]
    assert answer.types == ("VARCHAR", "BIGINT", "TIMESTAMP")
    assert answer.table.num_rows == 1


def test_a_step_behind_another_exchange_is_asked_at_the_same_point():
    app = rr.App("shop", pages=3)
    per_user = stream(app).group_by("k", name="users").agg(n=rr.count())
    per_user.group_by("n", name="counts").agg(users=rr.count()).to("out")
    driver = Driver(app)
    assert driver.program.levels == 2
    for number in range(30):
        driver.send("rows", {"k": f"u{number % 7}", "g": 1, "x": 1, "at": NOON.isoformat()})
    answer = driver.ask("counts", "FROM counts ORDER BY n")
    assert answer.rows == [{"n": 4, "users": 5}, {"n": 5, "users": 2}]
    assert answer.point == Point(0, 0, driver.last.clocks["counts"], {"rows/0": 30})


def test_questions_leave_no_trace_in_what_comes_out_and_in_what_is_kept():
    def after(asks):
        seen = []
        for driver in played(windowed(rr.hopping("30 seconds", "10 seconds")), 7):
            if asks:
                command = Question("q", "asked", "FROM rows").command(None)
                driver.control(command.kind, command.target, **command.body)
            seen.append(list(driver.batch()))
        kept = [sum(map(len, each.data.values())) for each in driver.checkpoint.stores.values()]
        return seen, kept, driver.status.clocks, driver.status.rows

    assert after(asks=True) == after(asks=False)


def test_what_no_step_keeps_cannot_be_asked():
    app = rr.App("shop")
    stream(app).group_by("k", name="users").agg(n=rr.count()).to("out")
    driver = Driver(app)
    with pytest.raises(InputError, match="no step 'rows' can be asked") as caught:
        driver.ask("rows", "FROM rows")
    assert "those that can: users" in str(caught.value)


def test_a_question_that_fails_on_a_row_is_an_error_and_the_job_goes_on():
    app = rr.App("shop")
    stream(app).group_by("k", name="users").agg(n=rr.count()).to("out")
    driver = Driver(app)
    driver.send("rows", {"k": "a", "g": 1, "x": 1, "at": NOON.isoformat()})
    with pytest.raises(InputError, match="Could not convert string 'a' to INT32"):
        driver.ask("users", "SELECT k::INTEGER FROM users")
    assert driver.ask("users", "FROM users").rows == [{"k": "a", "n": 1}]


SCHEMA_OF_ONE = parse("x bigint")


def part(question, rows, answering=None):
    place = Place(0, 1, Point(1, 2, 3))
    table = pl.DataFrame({"x": rows}).to_arrow()
    [found] = (answering or Answering()).parts(
        [question], place, lambda until: (table, SCHEMA_OF_ONE)
    )
    return found


def test_a_page_that_takes_too_long_is_interrupted():
    slow = "SELECT count(*) FROM rows a, rows b, rows c WHERE (a.x * b.x) % 7 = c.x % 5"
    found = part(Question("q", "asked", slow, seconds=0.2), range(100_000))
    assert (found.trouble, found.detail) == ("too slow", "0.2")


def test_a_page_that_has_too_much_to_say_says_so():
    dice = random.Random(1)
    rows = [dice.randrange(1 << 62) for _ in range(1000)]
    assert part(Question("q", "asked", "FROM rows", bytes=20_000), rows).rows.num_rows == 1000
    found = part(Question("q", "asked", "FROM rows", bytes=5_000), rows)
    assert (found.trouble, found.data) == ("too large", b"")
    assert 5_000 < int(found.detail) < 20_000


def test_the_questions_of_a_batch_have_a_time_together(monkeypatch):
    monkeypatch.setattr(questions, "MOST_SECONDS", 0.2)
    answering = Answering()
    answering.begin((1,))
    slow = "SELECT count(*) FROM rows a, rows b, rows c WHERE (a.x * b.x) % 7 = c.x % 5"
    assert part(Question("q", "a", slow), range(100_000), answering).trouble == "too slow"
    assert part(Question("q", "a", "FROM rows"), [1], answering).trouble == "too busy"
    answering.begin((2,))
    assert part(Question("q", "a", "FROM rows"), [1], answering).trouble is None


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/hostname')",
        "COPY rows TO '/tmp/rows.csv'", "ATTACH '/tmp/other.db'", "SET threads=8",
        "SELECT * FROM table", "INSTALL httpfs", "SELECT * FROM '/etc/passwd'",
    ],
)  # fmt: skip
def test_a_question_sees_nothing_but_the_rows(query):
    found = part(Question("q", "asked", query), [1])
    assert found.trouble == "failed", found


def test_what_many_ask_is_worked_out_once():
    made, place = [], Place(0, 1, Point(1, 2, 3))

    def rows(until):
        made.append(until)
        return pl.DataFrame({"x": [1, 2]}).to_arrow(), SCHEMA_OF_ONE

    asked = [Question(str(n), "asked", "FROM rows") for n in range(5)]
    parts = list(Answering().parts(asked, place, rows))
    assert [each.question for each in parts] == ["0", "1", "2", "3", "4"]
    assert len({id(each.data) for each in parts}) == 1
    assert len(made) == 1


def test_parts_that_come_again_are_dropped_and_those_of_two_batches_are_not_mixed():
    def told(page, batch, rows=(1,), question="q"):
        made = Place(page, 2, Point(batch, batch, 0)).part(
            Question(question, "asked", ""), data=as_bytes(pl.DataFrame({"x": rows}).to_arrow())
        )
        return part_of(made.encoded())

    parts = Parts("q")
    for each in (told(0, 5), told(0, 5, (2,)), told(1, 6), told(1, 5, question="another")):
        parts.add(each)
    assert parts.whole() is None
    assert parts.pages == "1 of 2 pages have answered"
    parts.add(told(1, 5))
    found = parts.whole()
    assert [each.rows["x"].to_pylist() for each in found] == [[1], [1]]
    assert {each.point.batch for each in found} == {5}


def test_a_page_that_was_too_busy_counts_when_it_answers_after_all():
    busy = Place(0, 1, Point(5, 5, 0)).part(Question("q", "asked", ""), trouble="too busy")
    parts = Parts("q")
    parts.add(busy)
    parts.add(part(Question("q", "asked", "FROM rows"), [1]))
    assert [each.trouble for each in parts.whole()] == ["too busy"]
    again = Parts("q")
    again.add(busy)
    again.add(Place(0, 1, Point(5, 5, 0)).part(Question("q", "asked", ""), data=b""))
    assert [each.trouble for each in again.whole()] == [None]


def question(offset, until=None, **more):
    return Command(offset, QUESTION, "asked", {"until": until, **more})


def test_questions_that_nobody_waits_for_any_more_are_passed_over():
    now = 10 * SKEW
    asked = [question(0, 1), Command(1, "pause", "*"), question(2, now), question(3)]
    assert [each.offset for each in waited_for(asked, now)] == [1, 2, 3]


def test_a_batch_takes_so_many_questions_and_the_next_one_the_others():
    asked = [question(number, query=f"q{number}") for number in range(QUESTIONS + 5)]
    assert first_of(asked, len(asked), 0) == QUESTIONS
    assert first_of(asked[QUESTIONS:], len(asked), 0) == len(asked)
    alike = [question(number) for number in range(ASKED + 5)]  # they are worked out once
    assert first_of(alike, len(alike), 0) == ASKED


def test_a_question_that_cannot_be_read_changes_nothing():
    driver = Driver(_with_users())
    driver.control(QUESTION, "users", id=1)
    driver.control(QUESTION, "users", id=1, query="FROM rows", bytes="x", seconds=1)
    driver.batch()
    assert driver.topics.replied == []


def test_an_answer_that_is_too_large_says_what_to_do():
    driver = Driver(_with_users())
    texts = random.Random(1)
    for number in range(60_000):
        key = f"{number}-{texts.randrange(1 << 256):x}"
        driver.send("rows", {"k": key, "g": 1, "x": 1, "at": NOON.isoformat()})
    with pytest.raises(InputError, match="the answer is too large") as caught:
        driver.ask("users", "FROM users")
    assert "ask for fewer rows or columns" in str(caught.value)
    assert driver.ask("users", "SELECT count(*) AS n FROM users").rows == [{"n": 60_000}]


def _with_users():
    app = rr.App("shop", pages=2)
    stream(app).group_by("k", name="users").agg(n=rr.count()).to("out")
    return app


def test_the_topic_of_answers_is_no_output():
    app = rr.App("shop")
    stream(app).to("shop.answers")
    with pytest.raises(ProgramError, match=r"the topic 'shop.answers' is riverrun's own"):
        app.program()


def noted(settings):
    """An application that has run, and does not run now."""
    folder = settings.checkpoint_of("shop.eu")
    with checkpoint.held(folder, "shop.eu"):
        checkpoint.note(folder, shape(_with_users().program()))


def test_an_application_that_does_not_run_is_an_error_at_once(settings, riverrun):
    noted(settings)
    outcome = riverrun("ask", "shop.eu.users", "SELECT count(*) FROM users")
    assert outcome.err.startswith("error: the application 'shop.eu' does not run [")
    assert outcome.code == 2


@pytest.mark.parametrize(
    ("name", "sql", "says"),
    [
        ("users", "FROM users", "a step is named with its application"),
        ("nowhere.users", "FROM users", "nothing is known of the application 'nowhere'"),
        ("shop.eu.out", "FROM rows", "no step 'out' of 'shop.eu' can be asked"),
        ("shop.eu.users", "SELECT m FROM users", "there is no column 'm'"),
        ("shop.eu.users", " ", "a question is one SELECT to a step"),
        ("", "FROM rows", "a question is one SELECT to a step"),
    ],
)
def test_what_cannot_be_asked_of_an_application_is_told_without_it(
    settings, riverrun, name, sql, says
):
    noted(settings)
    assert riverrun("ask", name, sql).err.startswith(f"error: {says} [RR103]")


def test_what_takes_too_long_to_put_together_is_an_error():
    driver = Driver(_with_users())
    for number in range(3_000):
        driver.send("rows", {"k": str(number), "g": 1, "x": 1, "at": NOON.isoformat()})
    slow = "SELECT count(*) FROM rows a, rows b, rows c WHERE a.k || b.k > c.k"
    plan = split(slow, "users", driver.program.tables["users"])
    rows = driver.ask("users", "FROM users")
    with pytest.raises(JobError, match="the answer takes too long to make"):
        answered(plan, rows.table, rows.point, seconds=0.2)
