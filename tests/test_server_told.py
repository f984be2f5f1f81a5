"""Stored queries, rules and alerts over HTTP: what is asked, what is answered, who may."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import urllib3

import riverrun as rr
from doors import note, served
from riverrun.client import Client, Refusal
from riverrun.config import Settings
from riverrun.control import QUERY, RULE, Command
from riverrun.embedded import kafka
from riverrun.errors import InputError
from riverrun.kafka import admin
from riverrun.kafka.control import ControlLog
from riverrun.kafka.records import Record
from riverrun.kafka.sender import Sender
from riverrun.operators.rules.answers import answer_to, refusal
from riverrun.runtime import checkpoint
from riverrun.server.security import Tokens

AWAY, PATIENCE = "127.0.0.1:1", "1 minute"
WRONG = InputError("a bracket is not closed", where="character 7 of the query")
NAMES = ["a/b", "..", ".", "天气", "é😀", "%2F", "a?b#c&d=e", "changes", "';--", "x" * 255]
NO_NAMES = ["", "a b", "a\nb", "\t", "x" * 256, "x" * 20_000]


def program(name: str) -> rr.App:
    app = rr.App(name)
    rows = app.stream(f"{name}.in", schema="id bigint, body string, card string, at timestamp")
    rows.search("saved", text="body", keep="id").to(f"{name}.found")
    rows.match_rules("fraud", by="card", measures="n bigint").to(f"{name}.matched")
    rows.alert(rr.alerts.topic(f"{name}.people"), group_by="card", name="failing")
    return app


@dataclass(frozen=True)
class Stand:
    """A server, and an application that it knows."""

    url: str
    name: str
    settings: Settings

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        answer = urllib3.request(
            method, f"{self.url}{path.replace('APP', self.name)}", body=content, retries=False,
            timeout=60, **more,
        )  # fmt: skip
        return answer.status, json.loads(answer.data)

    @property
    def log(self) -> ControlLog:
        return ControlLog(self.settings.client(), self.name)

    def commands(self) -> list[Command]:
        return self.log.commands(0, self.log.end()) if self.log.exists() else []


@pytest.fixture(scope="module")
def served_home(
    broker_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stand]:
    home = tmp_path_factory.mktemp("told")
    brokers = kafka.client(broker_settings)["bootstrap.servers"]
    settings = replace(Settings(home=home, cache=home), brokers=brokers)
    with served(settings, "") as door:
        yield Stand(door.url, "", settings)


@pytest.fixture
def stand(served_home: Stand) -> Iterator[Stand]:
    found = replace(served_home, name=f"told{time.time_ns()}")
    note(found.settings, program(found.name))
    yield found
    Tokens(found.settings).file.unlink(missing_ok=True)


@pytest.fixture
def away(tmp_path: Path) -> Iterator[Stand]:
    """Without a broker: what needs none is answered all the same."""
    settings = replace(Settings(home=tmp_path, cache=tmp_path), brokers=AWAY)
    note(settings, program("news"))
    with served(settings, "", seconds=2) as door:
        yield Stand(door.url, "news", settings)


def answered(command: Command) -> Command:
    if str(command.body.get("query", "")).endswith("("):
        return answer_to(command, refusal(WRONG, "query"))
    return answer_to(command, {"effective": 1_767_225_600_000_000, "version": 1})


@contextmanager
def running(stand: Stand, *, answers: bool = True) -> Iterator[None]:
    """As a job that holds its checkpoint, and reads the log."""
    over = threading.Event()

    def answer() -> None:
        place = 0
        while not over.wait(0.05):
            new = [each for each in stand.commands() if each.offset >= place]
            place += len(new)
            if asked := [each for each in new if each.kind != "answer"]:
                stand.log.send(*(answered(each) for each in asked))

    thread = threading.Thread(target=answer if answers else over.wait)
    with checkpoint.held(stand.settings.checkpoint_of(stand.name), stand.name):
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


@pytest.mark.broker
def test_a_query_is_added_found_changed_and_removed(stand: Stand) -> None:
    with running(stand):
        queries, ann = Client(stand.url).queries(f"{stand.name}.saved"), {"owner": "ann"}
        [known] = queries.add({"name": "ann-7", "query": "river", **ann}, timeout=PATIENCE)
        assert (known.state, known.version) == ("in effect", 1)
        assert known.effective == "2026-01-01T00:00:00Z"
        assert known.asked == {"name": "ann-7", "query": "river", "owner": "ann"}
        assert queries.get("ann-7") == known
        assert queries.standing() == {"ann-7": known}
        with pytest.raises(Refusal, match="a bracket is not closed") as refused:
            queries.add({"name": "ann-7", "query": "lake ("}, timeout=PATIENCE)
        assert (refused.value.status, refused.value.code) == (422, "RR103")
        assert refused.value.where == "character 7 of the query"
        assert queries.get("ann-7") == known
        said = stand.ask("GET", "/queries/APP.saved/ann-7")[1]
        assert said["last"]["state"] == "refused"
        [removed] = queries.remove("ann-7", timeout=PATIENCE)
        assert removed.state == "removed"
        assert queries.get("ann-7") is None
        assert queries.standing() == {}
        assert queries.all()["ann-7"].state == "removed"
        with pytest.raises(Refusal, match="there is no such query") as refused:
            queries.remove("ann-7")
        assert refused.value.status == 404


@pytest.mark.broker
def test_a_rule_goes_by_the_same_door(stand: Stand) -> None:
    with running(stand):
        rules = Client(stand.url).rules(f"{stand.name}.fraud")
        asked = {"name": "large", "template": "spree", "parameters": {"small": 1.5}}
        [known] = rules.add(asked, timeout=PATIENCE)
        assert known.state == "in effect"
        assert rules.standing() == {"large": known}
    assert [each.kind for each in stand.commands()] == [RULE, "answer"]
    assert stand.ask("GET", "/queries/APP.saved")[1]["queries"] == []


@pytest.mark.broker
def test_while_no_job_runs_what_is_asked_waits_in_the_log(stand: Stand) -> None:
    status, said = stand.ask("PUT", "/queries/APP.saved/a?wait=30", {"query": "river"})
    assert (status, said["state"], said["offset"]) == (202, "not answered", 0)
    assert said["text"].endswith("does not run: it answers when it runs next")
    assert stand.ask("GET", "/queries/APP.saved/a")[1]["state"] == "not answered"
    assert stand.ask("DELETE", "/queries/APP.saved/a")[0] == 202
    assert [each.kind for each in stand.commands()] == [QUERY, "remove query"]


@pytest.mark.broker
def test_a_job_that_does_not_answer_in_time_is_told_of_with_what_is_known(stand: Stand) -> None:
    with running(stand, answers=False):
        status, said = stand.ask("PUT", "/queries/APP.saved/a?wait=300ms", {"query": "river"})
    assert status == 504
    assert said["error"]["fact"].endswith("has not answered within 0.3 s")
    assert said["error"]["got"].startswith(f"it is record 0 of {stand.name}.control, of which 0 ")
    assert said["error"]["known"]["state"] == "not answered"


@pytest.mark.broker
def test_those_who_ask_first_and_at_once_are_all_heard(stand: Stand) -> None:
    def put(number: int) -> None:
        found.append(stand.ask("PUT", f"/queries/APP.saved/q{number}", {"query": "river"})[0])

    found: list[int] = []
    threads = [threading.Thread(target=put, args=(number,)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [202] * 4
    assert len(stand.commands()) == 4


@pytest.mark.broker
def test_queries_come_page_by_page(stand: Stand) -> None:
    bodies = [{"name": f"q{n:02}", "query": "river", "request": str(n)} for n in range(25)]
    stand.log.send(*(Command(0, QUERY, "saved", each) for each in bodies))
    seen: list[list[str]] = []
    after: str | None = ""
    while after is not None:
        said = stand.ask("GET", f"/queries/APP.saved?limit=10&after={after}")[1]
        seen.append([each["name"] for each in said["queries"]])
        after = said["next"]
    assert [len(each) for each in seen] == [10, 10, 5]
    assert [name for page in seen for name in page] == [each["name"] for each in bodies]
    assert (said["application"], said["step"]) == (stand.name, "saved")
    for wrong in ("0", "-1", "10001", "x", "9" * 5000):
        assert stand.ask("GET", f"/queries/APP.saved?limit={wrong}")[0] == 400


@pytest.mark.broker
def test_whatever_others_have_written_to_the_log_it_is_listed(stand: Stand) -> None:
    deep = json.loads("[" * 600 + "]" * 600)
    odd = [{"name": "deep", "metadata": deep}, {"name": ["x"]}, {}, {"name": "n", "query": 1e999}]
    stand.log.send(*(Command(0, QUERY, "saved", each) for each in odd))
    status, said = stand.ask("GET", "/queries/APP.saved?all=true")
    assert (status, len(said["queries"])) == (200, 4)
    assert stand.ask("GET", "/queries/APP.saved/n")[1]["asked"]["query"] == "Infinity"


@pytest.mark.broker
def test_whatever_the_name_is_its_query_is_found(stand: Stand) -> None:
    queries = Client(stand.url).queries(f"{stand.name}.saved")
    for name in NAMES:
        [known] = queries.add({"name": name, "query": "river"})
        assert (known.name, known.state) == (name, "not answered")
        assert queries.get(name) == known
    assert set(queries.standing()) == set(NAMES)


@pytest.mark.parametrize("name", NO_NAMES, ids=range(len(NO_NAMES)))
def test_a_name_that_no_query_has_is_refused_before_it_is_asked(away: Stand, name: str) -> None:
    path = f"/queries/APP.saved/{quote(name, safe='')}"
    status, said = away.ask("PUT", path, {"query": "river"})
    assert (status, said["error"]["where"]) == (422, "name")
    assert len(json.dumps(said)) < 1000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"[]", 400), (b"null", 400), (b"{", 400), (b"[" * 50_000, 400),
        (rb'{"query": "\ud800"}', 400), (b'{"query": "x", "metadata": {"a": NaN}}', 400),
        (b'{"query": "x", "metadata": {"a": ' + b"[" * 500 + b"]" * 500 + b"}}", 400),
        (b'{"name": "b", "query": "x"}', 400), (b"{}", 422), (b'{"query": 1}', 422),
        (b'{"query": "x", "metadata": [1]}', 422), (b'{"query": "x", "colour": 1}', 422),
        (b'{"query": "x", "kind": "pause", "target": "*"}', 422),
        (b'{"query": "x", "request": "1"}', 422), (b'{"query": "x", "watch": true}', 422),
        (json.dumps({"query": "x" * 20_000}).encode(), 422),
        (json.dumps({"query": "x" * 100_000}).encode(), 422),
        (json.dumps({"query": "x" * 300_000}).encode(), 413),
    ],
)  # fmt: skip
def test_what_no_query_is_made_of_is_refused_before_it_is_asked(
    away: Stand, body: bytes, status: int
) -> None:
    found, said = away.ask("PUT", "/queries/APP.saved/a", body)
    assert found == status, said
    assert {"code", "fact", "got", "hint"} <= said["error"].keys()


def test_a_body_never_says_whom_a_command_is_for() -> None:
    sent = Command(0, QUERY, "saved", {"kind": "pause", "target": "*", "name": "a"})
    assert Command.decoded(0, sent.encoded()) == Command(0, QUERY, "saved", {"name": "a"})


@pytest.mark.parametrize("step", ["news.nothing", "nobody.saved", "news.fraud", "a.b.c", ".saved"])
def test_a_step_that_is_not_known_here_is_not_asked(away: Stand, step: str) -> None:
    for method, path in (("GET", ""), ("GET", "/a"), ("PUT", "/a"), ("DELETE", "/a")):
        body = {"query": "x"} if method == "PUT" else None
        assert away.ask(method, f"/queries/{step}{path}", body)[0] in (400, 404)
    assert away.ask("GET", f"/alerts/{step}")[0] in (400, 404)


def test_a_broker_that_is_away_is_told_of(away: Stand) -> None:
    status, said = away.ask("PUT", "/queries/APP.saved/a", {"query": "river"})
    assert status == 503, said
    assert AWAY not in json.dumps(said)


@pytest.mark.broker
def test_asking_a_step_that_is_not_there_makes_no_topic(stand: Stand) -> None:
    assert stand.ask("PUT", "/queries/nobody.saved/a", {"query": "x"})[0] == 404
    assert stand.ask("DELETE", "/queries/APP.saved/a")[0] == 404
    made = {each.name for each in admin.topics(stand.settings.client())}
    assert not made & {"nobody.control", f"{stand.name}.control"}


ROUTES = {
    "GET /queries/APP.saved": "ask:APP.saved", "GET /queries/APP.saved/a": "ask:APP.saved",
    "PUT /queries/APP.saved/a": "change:APP.saved",
    "DELETE /queries/APP.saved/a": "change:APP.saved",
    "GET /rules/APP.fraud": "ask:APP.fraud", "PUT /rules/APP.fraud/a": "change:APP.fraud",
    "DELETE /rules/APP.fraud/a": "change:APP.fraud",
    "GET /alerts/APP.failing": "ask:APP.failing",
    "POST /alerts/APP.failing/ack": "change:APP.failing",
    "POST /alerts/APP.failing/silence": "change:APP.failing",
    "POST /alerts/APP.failing/unsilence": "change:APP.failing",
}  # fmt: skip
SCOPES = sorted({*ROUTES.values(), "ask:*", "change:*", "query", "read:*", "write:*", "send:*"})


@pytest.mark.broker
def test_a_token_of_another_scope_opens_nothing_and_leaves_no_trace(stand: Stand) -> None:
    tokens = Tokens(stand.settings)
    for number, scope in enumerate(SCOPES):
        secret = tokens.add(f"holder{number}", (scope.replace("APP", stand.name),))
        for route, opened in ROUTES.items():
            method, path = route.split()
            found = stand.ask(method, path, b"", headers={"Authorization": f"Bearer {secret}"})[0]
            may = scope in (opened, f"{opened.partition(':')[0]}:*")
            assert (found == 403) == (not may), (scope, route, found)
    assert stand.ask("PUT", "/queries/APP.saved/a", {"query": "river"})[0] == 401
    assert stand.commands() == []


@pytest.mark.broker
def test_alerts_are_listed_and_silenced_by_who_has_the_token(stand: Stand) -> None:
    secret = Tokens(stand.settings).add("ann", ("ask:*", "change:*"))
    alerts = Client(stand.url, token=secret).alerts(f"{stand.name}.failing")
    assert alerts.standing() == []
    silence, effect = alerts.silence("card=~test-.*", lasts="2 hours", comment="upgrade")
    assert effect is False  # the application does not run
    [found] = alerts.silences()
    assert (found["id"], found["by"], found["comment"]) == (silence, "ann", "upgrade")
    assert alerts.unsilence(silence) is False
    assert alerts.silences() == []
    for said in (lambda: alerts.unsilence(silence), lambda: alerts.acknowledge("5b0cf1")):
        with pytest.raises(Refusal) as refused:
            said()
        assert refused.value.status == 404


@pytest.mark.broker
def test_an_alert_that_stands_is_acknowledged_by_the_beginning_of_its_name(stand: Stand) -> None:
    client, topic = stand.settings.client(), f"{stand.name}.failing.groups"
    group = {"card": "c1", "alert": "5b0cf1d2a4c07e31", "since": "2026-01-01T12:00:00Z", "n": 2}
    admin.create_topic(client, topic)
    sender = Sender(client, topic)
    sender.send(Record(json.dumps(group).encode(), b"c1"))
    sender.flush()
    alerts = Client(stand.url).alerts(f"{stand.name}.failing")
    [found] = alerts.standing()
    assert (found.alert, found.group, found.facts["n"]) == (group["alert"], {"card": "c1"}, 2)
    assert alerts.acknowledge("5b0cf1", by="ann", comment="looking") == (found, False)
    [said] = stand.commands()
    assert (said.kind, said.target) == ("acknowledge alert", "failing")
    assert said.body == {"alert": group["alert"], "by": "ann", "comment": "looking"}


@pytest.mark.parametrize(
    ("word", "body"),
    [
        ("silence", {"matchers": "card=1", "by": "ann"}), ("silence", {"by": "ann"}),
        ("silence", {"matchers": [], "by": "ann"}), ("silence", {"matchers": [1], "by": "ann"}),
        ("silence", {"matchers": ["card"], "by": "ann"}),
        ("silence", {"matchers": ["card=~("], "by": "ann"}),
        ("silence", {"matchers": ["colour=1"], "by": "ann"}),
        ("silence", {"matchers": ["card=1"]}), ("silence", {"matchers": ["card=1"], "by": 1}),
        ("silence", {"matchers": ["card=1"], "by": "ann", "lasts": "soon"}),
        ("silence", {"matchers": ["card=1"], "by": "ann", "lasts": "9999999 days"}),
        ("silence", {"matchers": ["card=" + "x" * 2000], "by": "ann"}),
        ("ack", {"alert": 1, "by": "ann"}), ("ack", {}), ("unsilence", {}), ("ack", []),
    ],
)  # fmt: skip
def test_what_cannot_be_said_of_alerts_is_refused(away: Stand, word: str, body: Any) -> None:
    status, said = away.ask("POST", f"/alerts/APP.failing/{word}", body)
    assert status == 400, said
