"""Aggregates on real Kafka and real Spark: killed, started over, asked from outside."""

from __future__ import annotations

import json
import random
import runpy
import time
from collections import defaultdict
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import urllib3

from doors import served
from riverrun.commands import Commands
from riverrun.errors import TopicError
from riverrun.kafka import admin
from riverrun.runtime import event_topics
from running import Run, produce, records, table

BANK = Path(__file__).parents[1] / "examples" / "18_bank.py"
ACCOUNTS, TRANSFERS, CENTS = 12, 60, 1_000


def program(folder: Path, name: str) -> Path:
    """The example, under names of its own."""
    file = folder / f"{name}.py"
    text = BANK.read_text().replace('rr.App("bank")', f'rr.App("{name}")')
    for word in ("account-commands", "account-events", '"transfers"', '"transfers-ended"'):
        own = f'"{name}-{word[1:]}' if word.startswith('"') else f"{name}-{word}"
        text = text.replace(word, own)
    for view in ("balances", "paid_in"):
        text = text.replace(f'view("{view}")', f'view("{name}_{view}")')
    file.write_text(text)
    return file


def happened(client, name):
    """The events of each account, in the order of their topic."""
    found = defaultdict(list)
    for _, value in records(client, f"{name}-account-events"):
        event = json.loads(value)
        found[event["aggregate"]].append(event)
    return found


def test_money_is_constant_whatever_is_killed_and_all_is_made_again_of_events(
    broker, broker_settings, tmp_path, riverrun, once
):
    name, home = "killedbank", broker_settings.home
    file = program(tmp_path, name)
    dice = random.Random(3)
    admin.create_topic(broker, f"{name}-transfers", partitions=2)
    bank = runpy.run_path(str(file))
    with Run(file, home=home) as run:
        while f"{name}-account-commands.replies" not in {t.name for t in admin.topics(broker)}:
            time.sleep(0.2)
        commands = Commands(f"{name}-account-commands", settings=broker_settings)
        with commands:
            opened = [
                commands.submit(bank["Open"](f"owner {n}"), to=f"a{n}", id=f"open {n}")
                for n in range(ACCOUNTS)
            ]
            paid = [
                commands.submit(bank["Deposit"](CENTS), to=f"a{n}", by="cash", id=f"paid {n}")
                for n in range(ACCOUNTS)
            ]
            commands.flush()
            assert all(each.result(120).accepted for each in (*opened, *paid))
            refused = commands.send(bank["Withdraw"](CENTS + 1), to="a0", timeout="1 minute")
            assert (refused.outcome, refused.reason) == ("rejected", f"only {CENTS} cents are left")
        sent = [
            {
                "transfer": f"t{n}", "source": f"a{dice.randrange(ACCOUNTS)}",
                "target": f"a{dice.randrange(ACCOUNTS + 2)}", "cents": dice.randrange(1, 900),
            }
            for n in range(TRANSFERS)
        ]  # fmt: skip
        lines = "\n".join(map(json.dumps, sent))
        assert riverrun("produce", f"{name}-transfers", stdin=lines).code == 0
        until_some(broker, f"{name}-transfers-ended", run)
        run.kill()
    once(file)
    ended = [json.loads(value) for _, value in records(broker, f"{name}-transfers-ended")]
    assert sorted(each["transfer"] for each in ended) == sorted(each["transfer"] for each in sent)
    assert {each["outcome"] for each in ended} == {"done", "refused"}
    events = happened(broker, name)
    assert all(
        [each["version"] for each in found] == list(range(1, len(found) + 1))
        for found in events.values()
    )
    assert balance(events) == ACCOUNTS * CENTS
    expected = {each: balance({each: found}) for each, found in events.items()}
    assert viewed(riverrun, name) == expected
    # without a checkpoint: states come from events, and old commands take no effect
    once(file, "--fresh")
    assert happened(broker, name) == events
    told = riverrun("history", f"{name}.account/a0", "--json", "--replay-decisions")
    found = json.loads(told.out)
    assert found["state"] == {"owner": "owner 0", "cents": expected["a0"]}
    assert [each["version"] for each in found["events"]] == list(range(1, found["version"] + 1))
    assert all(each["same"] for each in found["decisions"])
    first = json.loads(riverrun("history", "account/a0", "--version", "1", "--json").out)
    assert first["state"] == {"owner": "owner 0", "cents": 0}


def until_some(client, topic, run):
    """Some transfers have ended, and others are under way."""
    while not records(client, topic):
        assert run.process.poll() is None, run.error()
        time.sleep(0.1)


def balance(events):
    signs = {"Deposited": 1, "Withdrawn": -1}
    return sum(
        signs[each["type"]] * each["data"]["cents"]
        for found in events.values()
        for each in found
        if each["type"] in signs
    )


def viewed(riverrun, name):
    said = riverrun("query", f"SELECT * FROM {name}_balances", "--json").out
    rows = map(json.loads, said.splitlines())
    return {row["aggregate"]: row["cents"] for row in rows}


def test_a_running_application_is_asked_told_and_compared_with_its_events(
    broker, broker_settings, tmp_path, riverrun
):
    name, home = "toldbank", broker_settings.home
    file = program(tmp_path, name)
    admin.create_topic(broker, f"{name}-transfers")
    with Run(file, home=home) as run:
        while not run.statuses():
            if f"{name}-account-commands" in {t.name for t in admin.topics(broker)}:
                break
            assert run.process.poll() is None, run.error()
            time.sleep(0.2)
        until_known(riverrun, name)
        said = riverrun("send", f"{name}.account/é 1", "Open", "owner=Ann", "--timeout", "120")
        assert said.code == 0, said.err
        assert 'Opened  {"owner": "Ann"}' in said.out
        said = riverrun("send", f"{name}.account/é 1", "Withdraw", '{"cents": 5}', "--json")
        assert said.code == 1
        assert json.loads(said.out)["reason"] == "only 0 cents are left"
        said = riverrun("send", f"{name}.account/é 1", "Nope")
        assert (said.code, "failed: ValueError: there is no 'Nope'" in said.out) == (1, True)
        compared = riverrun("rebuild-state", f"{name}.account", "--apply")
        assert compared.code == 0, compared.err
        assert "1 states, made of 1 events: all are equal" in compared.out
        said = riverrun("send", f"{name}.account/é 1", "Deposit", "cents=5", "--version", "1")
        assert said.code == 0, said.err
        assert "Deposited" in riverrun("history", f"{name}.account/é 1").out
        compare_with_other_rules(riverrun, file, name)
        own = replace(broker_settings, brokers=broker["bootstrap.servers"])
        with served(own, name) as door:
            sent = {"type": "Deposit", "data": {"cents": 7}, "id": "by http", "by": "web"}
            url = f"{door.url}/commands/{name}.account/%C3%A9%201"
            first, again = (posted(url, sent) for _ in range(2))
            assert first == again
            assert (first[0], first[1]["version"], first[1]["events"][0]["type"]) == (
                200, 3, "Deposited",
            )  # fmt: skip
            status, refused = posted(url, {"type": "Withdraw", "data": {"cents": 99}})
            assert (status, refused["error"]["fact"]) == (409, "only 12 cents are left")
            assert posted(url, {"type": "Withdraw", "data": {"cents": "?"}})[0] == 422
            assert posted(url, {"type": 5})[0] == 400
            assert posted(f"{door.url}/commands/nothing/x", sent)[0] == 400
        run.kill()
        with served(own, name) as door:
            late = {"type": "Deposit", "data": {"cents": 1}, "id": "late", "timeout": 1}
            status, refused = posted(f"{door.url}/commands/{name}.account/x", late)
            assert (status, refused["error"]["fact"]) == (504, NONE)


NONE = "no reply to the command within 1 second"


def compare_with_other_rules(riverrun, file, name):
    other = file.with_name(f"{name}_other.py")
    other.write_text(file.read_text().replace("cents + cents", "cents + 2 * cents"))
    compared = riverrun("rebuild-state", f"{name}.account", "--program", str(other))
    assert compared.code == 1, compared.err
    assert compared.out.startswith("the program has other rules (")
    assert '{"cents": 10}' in compared.out
    other.write_text(file.read_text().replace("cents + cents", "cents / 0"))
    said = riverrun("history", f"{name}.account/é 1", "--program", str(other))
    assert "error: Account cannot be made of an event that has happened" in said.err


def posted(url, sent):
    answer = urllib3.request("POST", url, json=sent, retries=False, timeout=90)
    return answer.status, answer.json()


def until_known(riverrun, name):
    give_up = time.monotonic() + 120
    while "no application here" in riverrun("history", f"{name}.account/x").err:
        assert time.monotonic() < give_up
        time.sleep(0.5)


SUMS = """
from __future__ import annotations
from dataclasses import dataclass, replace
import riverrun as rr

@dataclass(frozen=True)
class Add:
    n: int

@dataclass(frozen=True)
class Added:
    n: int

@dataclass(frozen=True)
class Sum:
    n: int = 0
    def decide(self, command: Add):
        return Added(command.n)
    def evolve(self, event: Added) -> Sum:
        return replace(self, n=self.n + event.n)

app = rr.App("stuck-sums")
sums = app.aggregate("sum", Sum, commands="stuck-commands", events="stuck-events")
sums.of(Added).group_by("aggregate", name="totals").agg(n=rr.sum("n")).to("stuck-totals")
"""


def test_rules_that_fail_on_an_old_event_can_be_mended_or_taken_back(
    broker, tmp_path, riverrun, once
):
    file = tmp_path / "sums.py"

    def written(evolve: str) -> str:
        file.write_text(SUMS.replace("self.n + event.n", evolve))
        return str(file)

    admin.create_topic(broker, "stuck-commands", partitions=1)
    send = partial(produce, broker, "stuck-commands")
    send([{"aggregate": "a", "type": "Add", "data": {"n": n}} for n in (5, 0, 7)])
    once(written("self.n + event.n"))
    failed = riverrun("run", written("self.n + 10 // event.n"), "--once")
    assert "Sum cannot be made of an event that has happened" in failed.err
    send([{"aggregate": "a", "type": "Add", "data": {"n": 100}}])
    checked = riverrun("check", written("self.n + 10 // (event.n or 1)"))
    assert checked.code == 0, checked.err
    once(str(file))
    once(written("self.n + event.n"))  # and back again
    assert table(broker, "stuck-totals") == {"a": {"aggregate": "a", "n": 112}}
    versions = [json.loads(value)["version"] for _, value in records(broker, "stuck-events")]
    assert versions == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("config", "fact"),
    [
        ({"cleanup.policy": "compact"}, "cleanup.policy is compact"),
        ({"retention.ms": "60000"}, "retention.ms is 60000"),
    ],
)
def test_a_topic_that_would_lose_events_is_refused(broker, tmp_path, config, fact):
    name = f"losing{len(fact)}"
    app = runpy.run_path(str(program(tmp_path, name)))["app"]
    admin.create_topic(broker, f"{name}-account-events", config=config)
    with pytest.raises(TopicError, match="would lose events") as error:
        event_topics.ensure(app.program(), broker)
    assert fact in str(error.value)
    assert "riverrun topics alter" in str(error.value)
