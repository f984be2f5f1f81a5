"""A version beside the current one: what it is called, and where its results go."""

from __future__ import annotations

import psycopg
import pytest

import baskets
import riverrun as rr
from json_lines import JsonLines
from riverrun import config
from riverrun.alerts.outbox import Outbox
from riverrun.compiler.versioned import published_outputs, versioned_outputs
from riverrun.errors import InputError, ProgramError
from riverrun.runtime.made import Premises, facts
from riverrun.runtime.versioned import beside
from riverrun.sinks.database import OWN_TABLES, PROGRESS, RUNS
from riverrun.sinks.kafka.sink import Topic
from riverrun.testing import Driver
from riverrun.versions import CURRENT, Version

V2 = Version("shop", "v2")


@pytest.fixture
def app():
    app = rr.App("shop")
    app.orders = app.stream("orders", schema="id bigint, price double, text string")
    app.per_id = app.orders.group_by("id").agg(n=rr.count())
    return app


def sinks(app):
    return [each.sink for each in versioned_outputs(tuple(app.outputs), V2)]


def test_an_application_and_its_own_topics_carry_the_version():
    assert V2.application == "shop--v2"
    assert V2.topic("shop.pages.late") == "shop--v2.pages.late"
    assert V2.topic("orders") == "orders--v2"
    assert V2.topic("shopping.orders") == "shopping.orders--v2"
    assert V2.table("minutes") == "minutes__v2"


@pytest.mark.parametrize("name", ["", "V2", "v.2", "v-2", "v" * 31, "../x", "_2", "é"])
def test_a_version_has_a_name_that_every_store_takes(name):
    with pytest.raises(InputError, match="a version's name"):
        Version.named("shop", name)


def test_every_store_has_a_place_of_its_own_for_the_version(app, tmp_path):
    app.orders.to(rr.sinks.topic("all", partitions=3))
    app.per_id.to(rr.sinks.view("per_id"))
    app.per_id.to(rr.sinks.postgres("shop.per_id"))
    app.per_id.to(rr.sinks.sqlite(tmp_path / "a.db", "per_id"))
    app.per_id.to(rr.sinks.delta(tmp_path / "lake"))
    app.orders.to(rr.sinks.parquet(tmp_path / "files"))
    app.orders.to(rr.sinks.search_index("orders", text="text"))
    app.per_id.to(rr.sinks.cache("per_id"))
    app.orders.to(rr.sinks.screen())
    topic, view, postgres, sqlite, delta, parquet, search, cache, screen = sinks(app)
    assert (topic.name, topic.partitions) == ("all--v2", 3)
    assert (view.view, postgres.table) == ("per_id__v2", "shop.per_id__v2")
    assert (sqlite.file, sqlite.table) == (tmp_path / "a.db", "per_id__v2")
    assert delta.folder == str(tmp_path / "lake--v2")
    assert parquet.folder == str(tmp_path / "files--v2")
    assert (search.index, cache.cache) == ("orders--v2", "per_id--v2")
    assert screen == app.outputs[-1].sink
    made = facts(beside(app, V2).program().outputs, tmp_path)
    assert {each["kind"] for each in made} == {
        "topic", "view", "postgres", "sqlite", "folder", "stays",
    }  # fmt: skip
    assert all("v2" in each["name"] for each in made)


def test_whoever_would_be_told_something_is_not(app, tmp_path):
    app.orders.to(rr.sinks.webhook("https://example.com/hook?token=secret"))
    app.orders.to(JsonLines(str(tmp_path / "lines")))
    hook, lines = sinks(app)
    assert type(hook) is Topic
    assert hook.name == "shop--v2.mute.webhook-https-example.com-hook"
    assert lines.name.startswith("shop--v2.mute.lines-")


def test_two_that_are_mute_have_topics_of_their_own(app):
    app.orders.to(rr.sinks.webhook("https://example.com/a?b"))
    app.per_id.to(rr.sinks.webhook("https://example.com/a/", name="https//example.com/a"))
    assert [each.name for each in sinks(app)] == [
        "shop--v2.mute.webhook-https-example.com-a",
        "shop--v2.mute.webhook-https-example.com-a-2",
    ]


def test_nobody_is_alerted_by_a_version_beside(app):
    app.orders.alert(
        rr.alerts.webhook("http://127.0.0.1:1/x"), rr.alerts.sse("seen"), group_by="id", name="bad"
    )
    found = sinks(app)
    assert not any(isinstance(each, Outbox) for each in found)
    assert [each.name for each in found] == [
        "shop--v2.bad.groups", "shop--v2.bad.told", "view:seen__v2",
    ]  # fmt: skip


def test_a_program_reads_again_what_its_own_version_writes(app):
    dear = app.orders.where("price > 10").through("dear")
    dear.group_by("id").window(rr.tumbling("1 minute")).agg(n=rr.count()).to("windows")
    own = beside(app, V2)
    program = own.program()
    assert [source.topic for source in program.sources] == ["dear--v2", "orders"]
    names = {each.sink.kafka_topic() for each in program.outputs}
    assert {"dear--v2", "windows--v2", "shop--v2.dead"} < names
    assert any(each.startswith("shop--v2.") and each.endswith(".late") for each in names)
    driver = Driver(own)
    driver.send("orders", {"id": 1, "price": 11})
    driver.batch()
    driver.batch()
    assert [each.name for each in app.outputs] == ["dear", "windows"]


def test_a_name_that_becomes_too_long_is_refused(app):
    app.per_id.to(rr.sinks.view("v" * 62))
    with pytest.raises(ProgramError, match="the name of a view"):
        sinks(app)


def test_a_program_that_decides_commands_is_not_deployed_beside_itself():
    app = rr.App("buying")
    app.aggregate("basket", baskets.Basket, commands="basket-commands", events="basket-events")
    with pytest.raises(InputError, match="decides commands"):
        sinks(app)


def test_a_version_that_is_retired_leaves_no_notes_in_postgresql(postgres):
    settings, tables = config.load(), OWN_TABLES
    with psycopg.connect(postgres, autocommit=True) as own:
        premises = Premises(settings, {})
        premises.forget([{"kind": "postgres", "name": "users__v2"}], "shop--v2")  # there are none
        own.execute(f"{PROGRESS}; {RUNS}")
        for name in ("shop", "shop--v2"):
            own.execute(
                "INSERT INTO riverrun_progress VALUES (%s, %s, 0, 1, 1, 1, 1)", (name, name)
            )
            own.execute("INSERT INTO riverrun_runs VALUES (%s, 1)", (name,))
        premises.forget([{"kind": "postgres", "name": "users__v2"}], "shop--v2")
        left = [own.execute(f"SELECT application FROM {each}").fetchall() for each in tables]
        assert left == [[("shop",)], [("shop",)]]


def test_the_current_version_sends_what_is_in_its_outboxes():
    app = rr.App("shop")
    errors = app.stream("errors", schema="service string")
    errors.alert(rr.alerts.webhook("http://127.0.0.1:1/hook"), group_by="service", name="failing")
    outputs = tuple(app.outputs)
    assert published_outputs(outputs, Version("shop", CURRENT)) == outputs
