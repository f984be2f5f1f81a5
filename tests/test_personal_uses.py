"""What steps, keys and outputs do with personal columns: nothing computes with sealed text."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import pytest

import riverrun as rr
from riverrun.extend import Entry, Leaving, PlainOperator, Result, Step, Words, step_fields
from riverrun.operators.registry import OPERATORS
from riverrun.testing import Driver

SCHEMA = "customer bigint, name string, email string, city string, cents bigint, at timestamp"
PERSONAL = rr.personal("name", "email", subject="customer")
ANN = {
    "customer": 1, "name": "Annabel", "email": "ann@x.org", "city": "Bern", "cents": 5,
    "at": "2026-01-01T00:00:00Z",
}  # fmt: skip
BOB = {**ANN, "customer": 2, "name": "Bobbert", "email": "bob@x.org", "cents": 7}


def orders(app, personal=PERSONAL, topic="orders"):
    return app.stream(topic, schema=SCHEMA, time="at", personal=personal)


def built(build):
    app = rr.App("shop")
    build(orders(app))
    return app.program()


def pattern(measures="a.city AS c", define="cents > 1", rows="", key="customer"):
    return (
        f"PARTITION BY {key} MEASURES {measures} {rows} PATTERN (a) WITHIN INTERVAL '1' MINUTE "
        f"DEFINE a AS {define}"
    )


def alert(rows, **more):
    return rows.alert(
        rr.alerts.topic("people"), wait="0 seconds", name="al", **({"group_by": "city"} | more)
    )


@pytest.mark.parametrize(
    ("build", "got"),
    [
        (lambda s: s.to_table("customer", delete="name = 'x'").to("o"), "delete: name = 'x'"),
        (lambda s: s.to_table("customer", delete="name is null").to("o"), "delete: name is null"),
        (lambda s: s.match(pattern("upper(a.name) AS n")).to("o"), "MEASURES: n"),
        (lambda s: s.match(pattern("public(upper(NAME)) AS n")).to("o"), "MEASURES: n"),
        (lambda s: s.match(pattern("max(a.name) AS n")).to("o"), "MEASURES: n"),
        (lambda s: s.match(pattern("a.name = 'x' AS n")).to("o"), "MEASURES: n"),
        (lambda s: s.match(pattern(define="name = 'x'")).to("o"), "DEFINE: a AS name = 'x'"),
        (lambda s: s.match(pattern(define="PREV(a.name) = 'x'")).to("o"), "DEFINE"),
        (lambda s: alert(s, title="{name} fails"), "title: {name} fails"),
        (lambda s: alert(s, text="x {email}"), "text: x {email}"),
        (lambda s: alert(s, resolve="name = 'x'"), "resolve: name = 'x'"),
        (lambda s: alert(s, group_by="name"), "group_by: name"),
        (lambda s: s.search("saved", text=["name"]).to("o"), "stored queries"),
        (lambda s: s.search("saved", text=["city"]).to("o"), "stored queries"),
        (lambda s: s.match_rules("live", by="customer", measures="n bigint").to("o"), "live rules"),
        (lambda s: s.to_table("customer").group_by("city").top(1, by="name").to("o"), "by: "),
        (
            lambda s: s.select("customer", "name", "at").join(
                s.select("customer", "email"), on="customer", within="1 hour", where="name > email"
            ).to("o"),
            "where: name > email",
        ),
    ],
)  # fmt: skip
def test_a_step_that_would_compute_with_sealed_text_is_refused_at_its_line(build, got):
    with pytest.raises(rr.ProgramError, match="reads the personal") as told:
        built(build)
    assert str(told.value.got).startswith(got)
    assert __file__ in str(told.value.where)
    assert told.value.hint


def test_every_kind_of_step_says_what_it_computes_with():
    silent = [kind for kind, each in OPERATORS.items() if each.uses is PlainOperator.uses]
    assert silent == ["aggregate"]  # whose columns the compiler looks at itself


@dataclass(frozen=True, kw_only=True)
class Silent(PlainOperator):
    kind = "silent"
    takes = "facts"
    can_be_late = False

    @property
    def leaving(self):
        return Leaving(form="facts", key=self.keys)

    def enter(self, number, rows):
        return Entry.of_facts(self.schema.names, rows)

    def words(self):
        return Words.of()

    def frozen(self):
        return {}

    def advance(self, state, batch):
        return Result()


class Open(Silent):
    kind = "open"

    def uses(self, number):
        return ()


def applied(kind):
    def on(rows, at):
        fields = step_fields("own", rows, ("customer",), None, named="own", at=at)
        return Step((rows,), kind(**fields, schema=rows.schema.visible, on_error="stop"))

    return on


def test_an_operator_of_ones_own_that_does_not_say_what_it_computes_with_is_refused():
    with pytest.raises(
        rr.ProgramError, match="it is not known what 'orders_own' computes of"
    ) as no:
        built(lambda s: s.apply(applied(Silent)).to("o"))
    assert "uses(…)" in no.value.hint
    built(lambda s: s.apply(applied(Open)).to("o"))
    built(lambda s: s.select("customer", "cents").apply(applied(Silent)).to("o"))


def test_a_measure_that_is_a_personal_column_stays_so_under_its_new_name():
    app = rr.App("shop")
    measures = "a.name AS who, a.city AS name, count(a.email) AS n, last(a.email) AS mail"
    found = orders(app).match(pattern(measures))
    found.with_columns(loud="upper(who)", town="upper(name)").to("o")
    driver = Driver(app)
    driver.send("orders", ANN, {**BOB, "at": "2026-01-02T00:00:00Z"})
    [line] = driver.batch().of("o")
    assert line["value"]["town"] == "BERN"
    assert all(line["value"][name].startswith("rrp1:") for name in ("who", "mail", "loud"))
    assert driver.keys.reveal(line["value"]).value == {
        "customer": 1, "who": "Annabel", "name": "Bern", "n": 1, "mail": "ann@x.org",
        "loud": "ANNABEL", "town": "BERN",
    }  # fmt: skip


@pytest.mark.parametrize("right", ["city", "email"])
def test_a_join_by_columns_that_are_never_the_same_is_refused(right):
    app = rr.App("shop")
    other = orders(app, rr.personal("email", subject="person", by="customer"), topic="others")
    mine = orders(app).select("customer", "name", "at")
    mine.join(other.select(right), on={"name": right}, within="1 minute").to("o")
    with pytest.raises(rr.ProgramError, match=f"joined by 'name' = '{right}'") as told:
        app.program()
    assert "name is personal of a customer" in told.value.got


def test_a_union_is_personal_in_all_of_its_rows_or_in_none():
    app = rr.App("shop")
    rows = orders(app)
    names = rows.select("customer", x="name")
    names.union(rows.select("customer", x="city")).to("mixed")
    with pytest.raises(rr.ProgramError, match="'x' is not personal in the same way"):
        app.program()
    app = rr.App("shop")
    rows = orders(app)
    both = rows.select("customer", x="name").union(rows.select("customer", x="null::varchar"))
    both.select("customer", u="upper(x)").to("o")
    driver = Driver(app)
    driver.send("orders", ANN)
    found = [driver.keys.reveal(each["value"]).value["u"] for each in driver.batch().of("o")]
    assert found == ["ANNABEL", None]


class Total(rr.Aggregate):
    state = "total double default 0"
    returns = "double"

    def add(self, state, x):
        state.total += x

    def merge(self, state, other):
        state.total += other.total

    def finish(self, state):
        return state.total


def test_an_aggregate_of_ones_own_is_given_no_length_of_sealed_text():
    with pytest.raises(rr.ProgramError, match="'n' would mix what is personal"):
        built(lambda s: s.group_by("city").agg(n=Total("public(length(name))::double")).to("o"))
    known = "public(length(name)::double)"
    built(lambda s: s.with_columns(l=known).group_by("city").agg(n=Total("l")).to("o"))


def test_the_time_is_told_by_no_personal_column_however_it_is_spelled():
    with pytest.raises(rr.ProgramError, match="cannot be used to tell the time"):
        rr.App("shop").stream(
            "orders", schema=SCHEMA, time="strptime(NAME, '%Y')", personal=PERSONAL
        )


def test_an_index_of_the_words_of_sealed_text_is_refused():
    with pytest.raises(rr.ProgramError, match="would look into the personal name"):
        built(
            lambda s: s.to_table("customer").to(rr.sinks.search_index("i", text=["name", "city"]))
        )
    built(lambda s: s.to_table("customer").to(rr.sinks.search_index("i", text=["city"])))


def test_text_that_looks_sealed_is_never_opened_as_somebody_elses_value():
    app = rr.App("shop")
    rows = orders(app)
    rows.to("copies")
    rows.select("customer", n="public(name)").to("public")
    driver = Driver(app)
    driver.send("orders", BOB)
    stolen = driver.batch().of("copies")[0]["value"]["name"]
    for customer in (99, 2):  # as one's own, and as his
        driver.send("orders", {**BOB, "customer": customer, "name": stolen})
        out = driver.batch()
        assert out.of("public")[0]["value"] == {"customer": customer, "n": stolen}
        copy = out.of("copies")[0]["value"]
        assert copy["name"] != stolen
        assert driver.keys.reveal(copy).value["name"] == stolen
    before = [line for name in ("copies", "public") for line in driver.outputs[name]]
    assert sorted(map(repr, driver.replay())) == sorted(map(repr, before))


def test_whether_a_forgotten_column_is_null_has_one_answer_everywhere():
    app = rr.App("shop")
    rows = orders(app)
    rows.select("customer", i="name is null").to("alone")
    rows.select("customer", i="name is null", j="public(upper(name))").to("beside")
    rows.where("name is null").select("customer").to("where")
    rows.where("name is null and public(upper(name)) is null").select("customer").to("both")
    rows.where("name is not null").select("customer").to("not")
    table = rows.to_table("customer")
    table.select("customer", "name", i="name is null").to("table")
    table.where("name is null").select("customer").to("rows")
    others = app.table(
        "others", schema="customer bigint, name string", key="customer",
        personal=rr.personal("name", subject="customer"),
    )  # fmt: skip
    others.where("name is null").select("customer", i="name is null").to("others_null")
    joined = rows.select("customer").join(others.where("name is not null"), on="customer")
    joined.select("customer").to("joined")
    driver = Driver(app)
    driver.send("orders", ANN, BOB)
    driver.send("others", {"customer": 1, "name": "Annabel"}, key="1")
    out = driver.batch()
    assert [each["value"]["i"] for each in out.of("alone")] == [False, False]
    assert [len(out.of(name)) for name in ("where", "both", "not", "rows")] == [0, 0, 2, 0]
    driver.forget("customer/1")
    driver.batch()
    driver.send("others", {"customer": 1, "name": "Annabel"}, key="1")
    driver.batch()
    driver.send("orders", {**ANN, "at": "2026-01-01T00:00:09Z"})
    out = driver.batch()
    assert [each["value"]["i"] for each in out.of("alone")] == [True]
    assert [each["value"] for each in out.of("beside")] == [{"customer": 1, "i": True, "j": None}]
    assert [len(out.of(name)) for name in ("where", "both", "not", "rows")] == [1, 1, 0, 1]
    assert {row["customer"]: row["i"] for row in driver.table("table")} == {1: True, 2: False}
    assert driver.table("others_null") == [{"customer": 1, "i": True}]
    assert out.of("joined") == []
    [forgotten] = [row for row in driver.table("table") if row["customer"] == 1]
    assert driver.keys.reveal(forgotten).forgotten == ["name"]


@dataclass(frozen=True)
class Register:
    email: str
    plan: str = "free"


@dataclass(frozen=True)
class Registered:
    email: str


@dataclass(frozen=True)
class Customer:
    email: str | None = None

    def decide(self, command: Register):
        return Registered(command.email)

    def evolve(self, event: Registered):
        return replace(self, email=event.email)


def customers(app):
    mine = rr.personal("email", subject="customer")
    return app.aggregate("customer", Customer, commands="c", events="e", personal=mine)


@pytest.mark.parametrize(
    "build",
    [
        lambda events: events.select(x="upper(data->>'email')"),
        lambda events: events.select(email="upper(data->>'email')"),
        lambda events: events.where("data->>'email' = 'x'"),
    ],
)
def test_personal_fields_of_json_are_taken_out_before_they_are_computed_with(build):
    app = rr.App("shop")
    build(customers(app).events).to("o")
    with pytest.raises(rr.ProgramError, match="computes with the personal email of 'data'"):
        app.program()
    app = rr.App("shop")
    taken = customers(app).events.select("type", mail="data->>'email'")
    taken.with_columns(loud="upper(mail)").to("o")
    driver = Driver(app)
    driver.send("c", {"aggregate": "7", "type": "Register", "data": {"email": "ann@x.org"}})
    [line] = driver.batch().of("o")
    assert driver.keys.reveal(line["value"]).value["loud"] == "ANN@X.ORG"


def test_a_command_with_a_slip_of_the_pen_leaves_no_plain_text():
    app = rr.App("shop")
    customers(app)
    driver = Driver(app)
    register = {"aggregate": "7", "type": "Register"}
    driver.send(
        "c",
        {**register, "data": {"mail": "ann@x.org"}},
        {**register, "data": {"email": "ann@x.org", "extra": ["ann@x.org"], "plan": "gold"}},
        {**register, "type": "Rename", "data": {"to": {"name": "ann@x.org"}}},
        {**register, "aggregate": None, "data": {"email": "ann@x.org"}},
    )
    letters = driver.batch().of("dead")
    assert len(letters) == 4
    assert "gold" in json.dumps(letters)
    assert "ann@" not in json.dumps(driver.outputs)


def test_a_command_that_the_program_sends_holds_the_text_that_it_had():
    app = rr.App("shop")
    mine = customers(app)

    class Invite(rr.Processor):
        outputs = {"commands": mine.commands}

        def on_event(self, event, state, context):
            made = mine.command(Register(event.email), to=str(event.customer), id="i")
            context.emit("commands", **made)

    rows = orders(app)
    rows.to("copies")
    mine.receive(rows.process(Invite, by="customer")["commands"])
    mine.of(Registered).select("email", domain="public(split_part(email, '@', 2))").to("seen")
    driver = Driver(app)
    driver.send("orders", ANN)
    copy = driver.batch().of("copies")[0]["value"]
    [seen] = driver.batch().of("seen")
    assert seen["value"] == {"email": copy["email"], "domain": "x.org"}
    other = {"aggregate": "9", "type": "Register", "data": {"email": copy["email"]}}
    driver.send("c", other)
    [stolen] = driver.batch().of("seen")
    assert driver.keys.reveal(stolen["value"]).value["email"] == copy["email"]
    assert stolen["value"]["domain"] == ""
