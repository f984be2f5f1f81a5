"""The Python client: nulls, types, tokens, followers, and what it says of refusals."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from datetime import date, datetime
from decimal import Decimal
from math import inf
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from click.testing import CliRunner
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from databases import EVALUATOR
from riverrun import exact
from riverrun.cli.get import command
from riverrun.client import Client, Refusal, Rows
from riverrun.config import Settings
from riverrun.embedded import ports
from riverrun.errors import InputError
from riverrun.kernels.questions import Point
from riverrun.outputs import Part
from riverrun.partitions import Partition
from riverrun.questions.answer import Answer as Found
from riverrun.server import noted
from riverrun.server.answers import Answer as Told
from riverrun.server.context import Context
from riverrun.server.freshness import LogEnds
from riverrun.server.limits import Limits, Rates
from riverrun.server.places import reader_of
from riverrun.server.running import Listening, beside
from riverrun.server.security import Guard, Tokens
from riverrun.sinks.viewing.sink import FILE
from riverrun.sinks.viewing.store import SqliteStore
from riverrun.views import Token
from serving import served
from test_server import Serving, asked, home, serving, stand
from test_views import Stand, closed
from test_views_nulls import written

__all__ = ["closed", "home", "serving", "stand"]


@pytest.fixture
def hubs(home: Settings) -> Stand:
    found = Stand(SqliteStore(home.home / FILE), "per_hub", "hub string, n bigint", ("hub",))
    texts = [None, "", "None", "null", "a,b", 'say "x"', "Oslo", "in.(Oslo)"]
    written(found, 0, [{"hub": text, "n": n} for n, text in enumerate(texts)])
    return found


def test_none_is_null_in_look_ups_and_conditions(hubs: Stand, serving: Serving) -> None:
    url = serving()
    view = Client(url).view("per_hub")
    assert view.get(None) == {"hub": None, "n": 0}
    assert view.get("None") == {"hub": "None", "n": 2}
    assert view.get("") == {"hub": "", "n": 1}
    assert [row["n"] for row in view.rows({"hub": None})] == [0]
    assert [row["n"] for row in view.rows({"hub": ["Oslo", "a,b", 'say "x"']})] == [6, 4, 5]
    assert [row["n"] for row in view.rows({"hub": ["null", None]})] == [3, 0]
    assert [row["n"] for row in view.rows({"hub": ["in.(Oslo)"], "n": 7})] == [7]
    assert list(view.rows({"hub": []})) == []
    assert asked(f"{url}/views/per_hub/?null=hub")[1]["row"] == {"hub": None, "n": 0}
    for path in ("/?null=n", "/x?null=hub", "//?null=hub"):
        assert asked(f"{url}/views/per_hub{path}")[0] == 400
    assert asked(f"{url}/views/per_hub?hub=in.(%22a)")[0] == 400
    with pytest.raises(InputError, match=r"the key of per_hub is \(hub\)"):
        view.get()
    told = view.changes("0.-1")
    seen = {next(told).key for _ in range(8)}
    assert None in seen
    assert "\x00" not in seen


def test_a_part_of_a_key_is_none(home: Settings, serving: Serving) -> None:
    ddl = "hub string, day bigint, n bigint"
    stand = Stand(SqliteStore(home.home / FILE), "per_day", ddl, ("hub", "day"))
    keys = [(None, None), (None, 1), ("x", None), ("x", 1)]
    written(stand, 0, [{"hub": h, "day": d, "n": n} for n, (h, d) in enumerate(keys)])
    url = serving()
    view = Client(url).view("per_day")
    rows = [view.get(*key) for key in keys]
    assert [row and row["n"] for row in rows] == [0, 1, 2, 3]
    assert asked(f"{url}/views/per_day/1?null=hub")[1]["row"]["n"] == 1
    assert asked(f"{url}/views/per_day?null=hub&null=day")[0] == 400


def test_a_follower_whose_connection_breaks_before_the_first_change_misses_none(
    stand: Stand, home: Settings
) -> None:
    port = ports.any_free()
    seen: list[tuple[Any, Any]] = []

    def follow() -> None:
        for change in Client(f"http://127.0.0.1:{port}").view("per_user").changes():
            seen.append((change.key, change.row and change.row["n"]))
            if len(seen) == 2:
                return

    follower = threading.Thread(target=follow, daemon=True)
    with beside(home, Listening(port=port)):
        follower.start()
        time.sleep(1)
    stand.batch(1, {"ann": 10})
    with beside(home, Listening(port=port)):
        time.sleep(0.2)
        stand.batch(2, {"ann": 11})
        follower.join(20)
    assert seen == [("ann", 10), ("ann", 11)]


def test_a_follower_of_a_view_that_does_not_change_knows_how_far_it_has_come(
    stand: Stand, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riverrun.server.changes.BEAT", 0.1)
    view = Client(serving()).view("per_user")
    told = view._stream(None)
    assert next(told) == ("1.0", None)
    stand.note(1)  # a batch without changes of this view
    while (place := next(told)) == ("1.0", None):
        pass
    assert place == ("1.1", None)
    told.close()  # type: ignore[attr-defined]


ROW = {
    "id": "UUID", "at": "TIMESTAMP", "day": "DATE", "price": "DECIMAL(10,2)", "big": "HUGEINT",
    "ratio": "DOUBLE", "counts": "MAP(BIGINT, VARCHAR)", "ids": "UUID[]",
    "place": "STRUCT(x DOUBLE, y TIMESTAMP)", "note": "VARCHAR", "seen": "TIMESTAMP_MS",
}  # fmt: skip
VALUES = (
    "'0b7f0b48-2c3f-4a53-9a53-3c6f2f1b7e11'", "'2026-01-31 12:00:00.5'", "'2026-01-31'", "10",
    "170141183460469231731687303715", "'Infinity'", "MAP {1: 'a'}",
    "['0b7f0b48-2c3f-4a53-9a53-3c6f2f1b7e11']", "{'x': 1.5, 'y': '2026-01-31 12:00:00'}", "NULL",
    "'2026-01-31 12:00:00'",
)  # fmt: skip


def test_rows_and_keys_have_the_types_of_python(home: Settings, serving: Serving) -> None:
    ddl = ", ".join(f"{name} {type}" for name, type in ROW.items())
    stand = Stand(SqliteStore(home.home / FILE), "typed", ddl, ("id", "at"))
    pairs = zip(VALUES, ROW.items(), strict=True)
    cells = ", ".join(f'{value}::{type} AS "{name}"' for value, (name, type) in pairs)
    rows = EVALUATOR.run(f"SELECT {cells}, 1::TINYINT AS __op, 0::BIGINT AS __revision")
    part = Part("shop", "c1", 1, 0, 0, 5)
    stand.views.deliver(part, [(stand.output, rows)], EVALUATOR)
    stand.note(0, clocks={"per_user": 1_800_000_000_000_000})
    view = Client(serving()).view("typed")
    own, at = UUID("0b7f0b48-2c3f-4a53-9a53-3c6f2f1b7e11"), datetime(2026, 1, 31, 12, 0, 0, 500000)
    row = view.get(own, at)
    assert row is not None
    wanted = {
        "id": own, "at": at, "day": date(2026, 1, 31), "price": Decimal("10.00"),
        "big": int("170141183460469231731687303715"), "counts": {1: "a"}, "ids": [own],
        "ratio": inf,
        "place": {"x": 1.5, "y": datetime(2026, 1, 31, 12)}, "note": None,
        "seen": datetime(2026, 1, 31, 12),
    }  # fmt: skip
    assert row == wanted
    assert str(row["price"]) == "10.00"
    assert row.fresh.at == datetime(1970, 1, 1, 0, 0, 1)
    assert row.fresh.clock == datetime(2027, 1, 15, 8)
    change = next(view.changes("0.-1"))
    assert change.key == {"id": own, "at": at}
    assert change.row is not None
    assert change.row == wanted
    assert str(change.row["price"]) == "10.00"
    [found] = view.rows({"at": at, "id": [own], "day": date(2026, 1, 31)})
    assert found["id"] == own
    assert "<i>null</i>" in Rows([found])._repr_html_()


def test_without_a_row_a_token_still_tells_what_has_become_of_the_write(
    stand: Stand, serving: Serving
) -> None:
    view = Client(serving()).view("per_user")
    token = str(Token.of({Partition("clicks", 0): 15}))
    until = 1_800_000_000_000_000
    stand.note(1, clocks={"per_user": 5}, closes={"per_user": until})
    row = view.get("nobody", token=token)
    assert not row
    assert (row.state, row.step, row.until) == ("held", "per_user", datetime(2027, 1, 15, 8))
    assert row.fresh.revision == "1.1"


def test_a_server_that_ends_leaves_the_note_of_another(home: Settings) -> None:
    with beside(home, Listening()) as first:
        with beside(home, Listening()) as second:
            assert noted.found(home) is not None
            assert noted.found(home).url == second  # type: ignore[union-attr]
        assert noted.found(home).url == first  # type: ignore[union-attr]
    assert noted.found(home) is None


def test_how_far_the_log_is_ahead_is_not_told_from_long_ago(home: Settings) -> None:
    class Ends(LogEnds):
        """As Kafka tells it, a little later."""

        end = 5

        def _ask(self, topics: list[str]) -> None:
            time.sleep(0.1)
            found = {Partition("clicks", 0): self.end}
            self._known["clicks"] = time.monotonic(), found

    async def told() -> list[int]:
        ends = Ends(home)
        limits = Limits()
        context = Context(
            home, reader_of(home), Guard(Tokens(home), local=True), limits, ends, Rates(limits)
        )
        found = [await context.log_ends(("clicks",))]
        ends.end = 9
        found.append(await context.log_ends(("clicks",)))  # of this second
        ends._known["clicks"] = time.monotonic() - 10, {Partition("clicks", 0): 5}
        found.append(await context.log_ends(("clicks",)))
        return [each[Partition("clicks", 0)] for each in found if each is not None]

    assert asyncio.run(told()) == [5, 5, 9]


def test_a_question_is_answered_with_types_and_its_point() -> None:
    point = Point(7, 1_800_000_000_000_000, 1_800_000_000_000_000, {"clicks/0": 3})
    at = datetime(2026, 1, 31, 12)
    row = {"user": None, "spent": Decimal("1.50"), "at": at, "tags": {"a": 1}}
    types = ("VARCHAR", "DECIMAL(9,2)", "TIMESTAMP", "MAP(VARCHAR, BIGINT)")
    found = Found(tuple(row), types, [row], pa.table({}), point)

    async def ask(request: Request) -> Response:
        assert await request.json() == {"sql": "SELECT 1", "timeout": 10.0}
        return Told(found.as_json())

    with served([Route("/ask/shop.per_user", ask, methods=["POST"])]) as url:
        answer = Client(url).ask("shop.per_user", "SELECT 1")
    assert answer.rows == [row]
    assert (answer.batch, answer.offsets) == (7, {"clicks/0": 3})
    assert answer.at == answer.clock == datetime(2027, 1, 15, 8)
    assert "<td>1.50</td>" in answer._repr_html_()


def test_a_refusal_says_which_column_and_its_code() -> None:
    error = {
        "code": "RR103", "fact": "1 record does not fit", "got": None, "hint": "mend it",
        "errors": [{"record": 0, "column": "ms", "cause": "ms is not a DOUBLE: fast"}],
    }  # fmt: skip
    refusal = Refusal(400, {"error": error})
    assert str(refusal).splitlines() == [
        "1 record does not fit [RR103]",
        "  got: record 0: ms is not a DOUBLE: fast",
        "  hint: mend it",
    ]
    assert refusal.errors[0]["column"] == "ms"


def test_what_is_sent_may_have_the_types_of_python_and_may_be_partial() -> None:
    at = datetime(2026, 1, 31, 12, 0, 0, 250000)
    record = {"at": at, "day": date(2026, 1, 31), "ms": at, "s": at, "price": Decimal("1.10")}
    seen: list[tuple[Any, str]] = []

    async def topic(request: Request) -> Response:
        if request.method == "GET":
            return Told({"columns": {"ms": "TIMESTAMP_MS", "s": "TIMESTAMP_S", "at": "TIMESTAMP"}})
        seen.append((exact.loads(await request.body()), str(request.query_params)))
        errors = [{"record": 1, "column": "at", "cause": "no time"}]
        return Told({"records": 1, "token": "rr1.x", "refused": 1, "errors": errors})

    with served([Route("/topics/clicks", topic, methods=["GET", "POST"])]) as url:
        client = Client(url)
        token = client.send("clicks", [record, {"price": 1}], partial=True)
        with pytest.raises(InputError, match="cannot be sent"):
            client.send("clicks", {"at": object()})
    assert (token, token.records, token.errors[0]["record"]) == ("rr1.x", 1, 1)
    [([first, _], query)] = seen
    assert first == {
        "at": "2026-01-31T12:00:00.250000Z", "day": "2026-01-31", "ms": 1769860800250,
        "s": 1769860800.25, "price": 1.1,
    }  # fmt: skip
    assert query == "partial=true"


def test_a_process_that_ends_while_it_follows_says_nothing(stand: Stand, serving: Serving) -> None:
    program = f"""
import threading
from riverrun.client import Client
view, seen = Client({serving()!r}).view("per_user"), threading.Event()
def follow():
    for change in view.changes("0.-1"):
        seen.set()
threading.Thread(target=follow, daemon=True).start()
assert seen.wait(20)
print(view)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.stdout.startswith("<view per_user of http://127.0.0.1:")
    assert (done.returncode, done.stderr) == (0, "")


def test_a_key_of_the_command_line_may_be_negative_or_null(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("riverrun.cli.get.options.settings", lambda: home)
    stand = Stand(SqliteStore(home.home / FILE), "per_n", "k bigint, n bigint", ("k",))
    written(stand, 0, [{"k": -5, "n": 1}, {"k": None, "n": 2}])
    for words, n in ((["-5"], 1), (["--null", "k"], 2)):
        found = CliRunner().invoke(command, ["per_n", *words, "--json"])
        assert exact.loads(found.output)["row"]["n"] == n
    found = CliRunner().invoke(command, ["per_n", "7"])
    assert found.exit_code == 1
    assert "per_n has no row 7" in found.output
