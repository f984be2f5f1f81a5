"""Personal columns in the test driver: sealed when they are read, computed with, forgotten."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import riverrun as rr
from envelopes import envelope
from riverrun.errors import CheckpointError
from riverrun.testing import Driver

PERSONAL = rr.personal("email", "name", subject="customer")
SCHEMA = "customer bigint, email string, name string, cents bigint, at timestamp"
ANN = {"customer": 1, "email": "ann@x.org", "name": "Ann", "cents": 5}
BOB = {"customer": 2, "email": "bob@y.org", "name": "Bob", "cents": 7}


def orders(app, personal=PERSONAL, **more):
    return app.stream("orders", schema=SCHEMA, key="customer", personal=personal, **more)


def read(driver, name):
    """The rows of an output, with all that can be read."""
    return [driver.keys.reveal(line["value"]).value for line in driver.outputs[name]]


def test_what_is_personal_is_sealed_and_the_same_value_is_the_same_text():
    app = rr.App("shop")
    orders(app).to("copies")
    driver = Driver(app)
    driver.send("orders", ANN, {**ANN, "name": "Änne \N{SNOWMAN}"}, {**BOB, "email": ANN["email"]})
    first, second, other = [each["value"] for each in driver.batch().of("copies")]
    assert first["email"] == second["email"] != other["email"]
    assert first["email"].startswith("rrp1:")
    assert [each["name"] for each in read(driver, "copies")] == ["Ann", "Änne \N{SNOWMAN}", "Bob"]
    assert driver.replay() == driver.outputs["copies"]


def test_a_forgotten_value_is_null_with_a_mark_and_counts_still_hold():
    app = rr.App("shop")
    rows = orders(app)
    rows.to("copies")
    rows.group_by("email").agg(n=rr.count(), names=rr.distinct("name")).to("mails")
    driver = Driver(app)
    driver.send("orders", ANN, ANN, BOB)
    driver.forget("customer/1")
    batch = driver.batch()  # the batch that the command comes with is still sealed by the key
    revealed = driver.keys.reveal([each["value"] for each in batch.of("copies")])
    assert [each["email"] for each in revealed.value] == [None, None, "bob@y.org"]
    assert revealed.forgotten == ["[0].email", "[0].name", "[1].email", "[1].name"]
    driver.send("orders", ANN, {**ANN, "email": "ann@new.org"}, BOB)
    driver.batch()
    assert read(driver, "copies")[3:] == [
        {**ANN, "email": None, "name": None, "at": None},
        {**ANN, "email": None, "name": None, "at": None},
        {**BOB, "at": None},
    ]
    counts = {row["n"] for row in driver.table("mails")}
    assert counts == {2}
    assert len(driver.table("mails")) == 3  # of Ann before, of Ann after, and of Bob
    assert "ann" not in json.dumps(driver.outputs).lower()


def test_what_expressions_compute_is_personal_unless_they_say_public():
    app = rr.App("shop")
    rows = orders(app).where("email like '%@x.org' and name is not null")
    rows.with_columns(
        loud="upper(name)", both="name || ' <' || email || '>'",
        domain="public(split_part(email, '@', 2))", size="public(length(name))",
        named="name is not null", known="coalesce(name, '?')",
    ).select(
        "loud", "both", "domain", "size", "named", "email as mail", "known"
    ).to("made")  # fmt: skip
    driver = Driver(app)
    driver.send("orders", ANN, BOB, {**ANN, "name": None})
    [line] = driver.batch().of("made")
    assert [line["value"][name] for name in ("domain", "size", "named")] == ["x.org", 3, True]
    assert all(line["value"][name].startswith("rrp1:") for name in ("loud", "both", "mail"))
    assert read(driver, "made") == [
        {
            "loud": "ANN", "both": "Ann <ann@x.org>", "domain": "x.org", "size": 3, "named": True,
            "mail": "ann@x.org", "known": "Ann",
        }
    ]  # fmt: skip
    driver.forget("customer/1")
    driver.batch()
    driver.send("orders", ANN)
    assert driver.batch().of("made") == []  # nobody knows any more that it ends so
    assert "ann" not in json.dumps([{**line["value"], "domain": ""}]).lower()


def test_a_column_before_a_dot_is_personal_too_and_none_is_named_by_its_number():
    """Where one column of a step is opened, another that was not seen would leave in plain text."""
    app = rr.App("shop")
    opened = {"size": "public(length(name))"}
    rows = orders(app).where("name.length() > 1 and email.contains(name) is not null")
    made = {"loud": "name.upper()", "both": "email.concat(name.upper())", "said": "name.public()"}
    rows.select("customer", **opened, **made).to("made")
    driver = Driver(app)
    driver.send("orders", ANN)
    [line] = driver.batch().of("made")
    assert (line["value"]["size"], line["value"]["said"]) == (3, "Ann")
    assert all(line["value"][name].startswith("rrp1:") for name in ("loud", "both"))
    [value] = read(driver, "made")
    assert (value["loud"], value["both"]) == ("ANN", "ann@x.orgANN")
    with pytest.raises(rr.ProgramError, match="#2 cannot be used in an expression"):
        rows.select(**opened, second="#2")


@pytest.mark.parametrize(
    ("build", "fact"),
    [
        (lambda s: s.with_columns(n="name.length()"), "'n' is computed from the personal name"),
        (lambda s: s.with_columns(n="length(name)"), "'n' is computed from the personal name"),
        (lambda s: s.group_by("customer").agg(n=rr.min("name")), "'n' would mix the personal name"),
        (lambda s: s.group_by("customer").agg(n=rr.collect("name")), "'n' would mix"),
        (lambda s: s.group_by("customer").agg(n=rr.top("email", 3)), "'n' would mix"),
        (lambda s: s.group_by("customer").agg(n=rr.distinct("lower(email)")), "'n' would mix"),
        (lambda s: s.to_table("customer").where("name = 'x'"), "an expression over a table"),
        (lambda s: s.with_time("strptime(name, '%Y')", name="t"), "a time is made of the personal"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_at_its_line(build, fact):
    app = rr.App("shop")
    build(orders(app)).to("out")
    with pytest.raises(rr.ProgramError) as told:
        app.program()
    assert fact in told.value.fact
    assert __file__ in str(told.value.where)


@pytest.mark.parametrize(
    ("given", "fact"),
    [
        (rr.personal("cents", subject="customer"), "'cents' is BIGINT: only text can be personal"),
        (rr.personal("mail", subject="customer"), "there is no column 'mail'"),
        (rr.personal("email", subject="person"), "there is no column 'person'"),
        ([PERSONAL, rr.personal("email", subject="customer")], "'email' is personal twice"),
    ],
)  # fmt: skip
def test_a_declaration_that_does_not_fit_is_refused(given, fact):
    with pytest.raises(rr.ProgramError) as told:
        orders(rr.App("shop"), given)
    assert told.value.fact == fact
    with pytest.raises(rr.ProgramError):
        rr.personal(subject="customer")
    with pytest.raises(rr.ProgramError):
        rr.personal("email", subject="a/b")


def test_dead_letters_and_errors_hold_nothing_that_can_be_read():
    app = rr.App("shop")
    orders(app).with_columns(number="public(name::bigint)").to("numbers")
    driver = Driver(app)
    driver.send("orders", ANN, '{"customer": 1, "email": ["ann@x.org"], "name": 5', key="ann@x.org")
    driver.send("orders", {**ANN, "customer": None}, {**ANN, "email": {"ann": 1}}, {"customer": 9})
    letters = driver.batch().of("dead")
    assert [each["value"]["step"] for each in letters if each["value"]["step"] == "decode"]
    assert all(each["value"]["cut"] == ["key", "value", "headers"] for each in letters)
    assert "no customer: customer is missing" in [each["value"]["cause"] for each in letters]
    assert "ann" not in json.dumps(driver.outputs).lower()


def test_values_of_two_people_are_not_mixed():
    app = rr.App("shop")
    mine = [rr.personal("x", subject="user", by="a"), rr.personal("y", subject="user", by="b")]
    pairs = app.stream("pairs", schema="a bigint, x string, b bigint, y string", personal=mine)
    pairs.with_columns(both="x || y").to("both")
    driver = Driver(app)
    driver.send("pairs", {"a": 1, "x": "v", "b": 1, "y": "w"}, {"a": 1, "x": "v", "b": 2, "y": "w"})
    driver.batch()
    assert [row["both"] for row in read(driver, "both")] == ["vw"]
    [letter] = driver.outputs["dead"]
    assert letter["value"]["cause"] == "it is computed from personal values of two subjects"


def test_tables_joins_and_topics_that_are_read_again_carry_what_is_sealed():
    app = rr.App("shop")
    people = app.table(
        "people", schema="customer bigint, email string", key="customer",
        personal=rr.personal("email", subject="customer"),
    )  # fmt: skip
    rows = orders(app, rr.personal("name", subject="customer"))
    joined = rows.select("customer", "name", "cents").join(people, on="customer", prefix="p_")
    joined.through("middle").with_columns(to="name || ' <' || p_email || '>'").to("letters")
    people.to("copies")
    driver = Driver(app)
    driver.send("people", {"customer": 1, "email": "ann@x.org"}, key="1")
    driver.send("orders", ANN)
    driver.batch()
    driver.batch()
    assert [row["to"] for row in read(driver, "letters")] == ["Ann <ann@x.org>"]
    driver.send("people", None, key="1")
    driver.batch()
    assert driver.table("copies") == []
    assert "ann@x" not in json.dumps(driver.outputs)


VALUES = st.one_of(
    st.none(), st.text(max_size=6), st.sampled_from(["Ann", "ann@x.org", "rrp1:", " "])
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"customer": st.integers(1, 3), "email": VALUES, "name": VALUES, "cents": st.integers(0, 9)}
    ),
    max_size=12,
)


def topology(personal) -> rr.App:
    app = rr.App("shop")
    rows = orders(app, personal)
    rows.where("name <> 'Ann' or email is null").to("some")
    rows.select("customer", "cents", "reverse(name) as back", "email || name as both").to("made")
    rows.group_by("customer", "email").agg(n=rr.count(), names=rr.distinct("name")).to("counts")
    rows.to_table("customer").group_by("customer").agg(n=rr.count("email")).to("latest")
    return app


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(ROWS, max_size=4))
def test_results_are_those_of_the_plain_program_however_batches_are_cut(batches):
    plain, sealed = Driver(topology(None)), Driver(topology(PERSONAL))
    for batch in batches:
        for driver in (plain, sealed):
            driver.send("orders", *batch)
            driver.batch()
    for name in ("some", "made", "counts", "latest"):
        assert sorted(map(repr, read(sealed, name))) == sorted(map(repr, read(plain, name)))
    sealed.forget("customer/1")
    sealed.batch()
    pairs = zip(read(sealed, "made"), read(plain, "made"), strict=True)
    forgotten = {"back": None, "both": None}
    assert all(
        mine == ({**row, **forgotten} if row["customer"] == 1 else row) for mine, row in pairs
    )


@dataclass(frozen=True)
class Register:
    email: str
    plan: str = "free"


@dataclass(frozen=True)
class Registered:
    email: str
    plan: str = "free"


@dataclass(frozen=True)
class Customer:
    email: str | None = None
    plan: str = ""

    def decide(self, command: Register):
        if command.email == self.email:
            return rr.Rejected(f"{command.email} is registered")
        return Registered(command.email, command.plan)

    def evolve(self, event: Registered) -> Customer:
        return replace(self, email=event.email, plan=event.plan)


def test_rules_of_aggregates_are_given_what_is_sealed_and_events_hold_nothing_else():
    app = rr.App("shop")
    mine = rr.personal("email", subject="customer")
    customers = app.aggregate("customer", Customer, commands="c", events="e", personal=mine)
    customers.of(Registered).with_columns(domain="public(split_part(email, '@', 2))").to("seen")
    driver = Driver(app)
    register = {
        "aggregate": "7",
        "type": "Register",
        "data": {"email": "ann@x.org", "plan": "gold"},
    }
    driver.send("c", register, {**register, "id": "again"}, {**register, "data": ["ann@x.org"]})
    out = driver.batch()
    assert [each["value"]["outcome"] for each in out.of("c.replies")] == [
        "accepted", "rejected", "failed",
    ]  # fmt: skip
    [seen] = read(driver, "seen")
    assert (seen["email"], seen["plan"], seen["domain"]) == ("ann@x.org", "gold", "x.org")
    assert driver.keys.reveal(out.of("c.replies")[1]["value"]["reason"]).value != "ann@x.org"
    driver.forget("customer/7")
    driver.batch()
    assert driver.keys.reveal(driver.outputs["seen"][0]["value"]).forgotten == ["email"]
    assert "ann@" not in json.dumps(driver.outputs)
    other = rr.personal("plans", subject="customer")
    with pytest.raises(rr.ProgramError, match="'plans' is no field of text") as refused:
        rr.App("x").aggregate("customer", Customer, commands="c", events="e", personal=other)
    assert "email" in refused.value.hint


def test_columns_that_are_replaced_renamed_and_oddly_named_stay_personal():
    app = rr.App("shop")
    rows = app.stream(
        "people",
        schema='id string, "E-Mail" string, "group" string',
        key="E-Mail",
        personal=rr.personal("E-Mail", "group", subject="person", by="id"),
    )
    changed = rows.with_columns(group='lower("group")', plain="public('x' || \"e-mail\")")
    changed.select(
        '"E-Mail" as "group"', "group as mail", "plain", "_key as key", 'upper("GROUP") as g'
    ).to("made")
    driver = Driver(app)
    driver.send("people", {"id": "ann", "E-Mail": "Ann@X", "group": "VIP"}, key="Ann@X")
    driver.send("people", {"id": "bob", "E-Mail": None, "group": None})
    driver.batch()
    assert read(driver, "made") == [
        {"group": "Ann@X", "mail": "vip", "plain": "xAnn@X", "key": "Ann@X", "g": "VIP"},
        {"group": None, "mail": None, "plain": None, "key": None, "g": None},
    ]
    [line, _] = driver.outputs["made"]
    assert "Ann@X" not in json.dumps({**line, "value": {**line["value"], "plain": ""}})


def test_somebody_may_be_told_by_what_is_personal_itself():
    app = rr.App("shop")
    rows = app.stream(
        "people", schema="email string", personal=rr.personal("email", subject="email")
    )
    rows.to("copies")
    driver = Driver(app)
    driver.send("people", {"email": "ann@x.org"})
    driver.forget("email/ann@x.org")
    driver.crash()
    assert driver.keys.reveal(driver.batch().of("copies")[0]["value"]).forgotten == ["email"]
    assert "ann@" not in json.dumps([vars(each) for each in driver.topics.asked])


def test_a_batch_that_dies_has_forgotten_nobody_yet():
    app = rr.App("shop")
    orders(app).to("copies")
    driver = Driver(app)
    driver.send("orders", ANN)
    driver.forget("customer/1")
    driver.crash()
    assert not driver.keys.forgotten(driver.keys.subject("customer", "1"))
    [line] = driver.batch().of("copies")
    assert (
        len(line["value"]["email"]) > len("rrp1:") + 22
    )  # what it would have been without a crash
    assert driver.keys.forgotten(driver.keys.subject("customer", "1"))


def test_every_reading_of_a_topic_agrees_on_what_is_personal_and_a_checkpoint_does():
    app = rr.App("shop")
    orders(app).to("copies")
    app.stream("orders", schema="customer bigint, name string", name="again").to("leak")
    with pytest.raises(rr.ProgramError, match="'name' is personal in one reading of 'orders' only"):
        app.program()
    sealed, plain = rr.App("shop"), rr.App("shop")
    orders(sealed).to("copies")
    orders(plain, None).to("copies")
    driver = Driver(plain)
    with pytest.raises(CheckpointError, match="'orders' changed"):
        driver.restart(sealed)


def test_rows_before_a_change_are_not_kept_of_captured_tables():
    app = rr.App("shop")
    people = app.table(
        "people", schema="id bigint, email string", key="id", format="debezium",
        personal=rr.personal("email", subject="customer", by="id"),
    )  # fmt: skip
    people.to("copies")
    people.changes().select("email", "op").to("changes")
    driver = Driver(app)
    ann, new = {"id": 1, "email": "ann@x.org"}, {"id": 1, "email": "new@x.org"}
    driver.send("people", envelope("c", ann), key='{"id": 1}')
    driver.batch()
    driver.send("people", envelope("u", new, before=ann, lsn=1), key='{"id": 1}')
    driver.batch()
    assert [(row["op"], row["email"]) for row in read(driver, "changes")] == [
        ("+", "ann@x.org"), ("-", "ann@x.org"), ("+", "new@x.org"),
    ]  # fmt: skip
    driver.send("people", envelope("d", None, before=new, lsn=2), key='{"id": 1}')
    driver.batch()
    assert driver.table("copies") == []
    kept = b"".join(
        each for store in driver.checkpoint.stores.values() for each in store.data.values()
    )
    for word in ("ann@x", "new@x"):
        assert word not in json.dumps(driver.outputs)
        assert word.encode() not in kept
