"""The passes over a plan, one by one: what each is given, and what it makes of it."""

from __future__ import annotations

import pytest

import riverrun as rr
from riverrun.compiler.passes import PASSES, passed
from riverrun.compiler.passes.absorb_tables import absorb_tables
from riverrun.compiler.passes.check import check
from riverrun.compiler.passes.gather_changes import gather_changes
from riverrun.compiler.passes.keep_late_rows import keep_late_rows
from riverrun.compiler.passes.keep_personal import keep_personal
from riverrun.plan.nodes import Plan, Step, Versions
from riverrun.plan.rows import inputs_of, nodes_of


def shop() -> tuple[rr.App, rr.Stream, rr.Table, rr.Table]:
    app = rr.App("shop")
    orders = app.stream("orders", schema="user string, item string, at timestamp", time="at")
    users = app.table("users", schema="id string, country string", key="id")
    items = app.table("items", schema="sku string, price int", key="sku")
    return app, orders, users, items


def drawn(plan: Plan) -> list[str]:
    """Every node with what feeds it; then the outputs."""
    nodes = nodes_of(plan.outputs)
    lines = []
    for node in nodes:
        feeding = ", ".join(_word(each) for each in inputs_of(node))
        lines.append(f"{_word(node)} <- {feeding}" if feeding else _word(node))
    return [*lines, *(f"output {each.name} <- {_word(each.input)}" for each in plan.outputs)]


def _word(node) -> str:
    if isinstance(node, Step):
        return f"{node.does.kind} {node.name}"
    if isinstance(node, Versions):
        return f"versions {node.table.name}"
    name = getattr(node, "topic", None)
    return f"topic {name}" if name else type(node).__name__.lower()


def test_their_order_is_one_visible_tuple():
    assert (gather_changes, keep_late_rows, check, keep_personal, absorb_tables) == PASSES


def test_changes_that_leave_from_several_pages_are_gathered_once_for_all_outputs():
    app, _, users, items = shop()
    joined = users.join(items, on={"country": "sku"}, name="both")
    joined.to("a", "b")
    assert drawn(gather_changes(app.plan())) == [
        "topic users",
        "to table users <- topic users",
        "topic items",
        "to table items <- topic items",
        "join tables both <- to table users, to table items",
        "gather a.settled <- join tables both",
        "output a <- gather a.settled",
        "output b <- gather a.settled",
    ]


def test_changes_that_leave_from_one_page_are_left_as_they_are():
    app, orders, _, _ = shop()
    orders.to_table("user", name="latest").to("out")
    assert drawn(gather_changes(app.plan())) == drawn(app.plan())


def test_late_rows_that_nobody_uses_are_kept_in_a_topic():
    app, orders, _, _ = shop()
    per_minute = orders.group_by("item", name="items").window(rr.tumbling("1 minute"))
    per_minute.agg(n=rr.count()).to("out")
    once = orders.deduplicate("item", within="1 minute", name="once")
    once.to("once")
    once.late.to("again")
    plan = keep_late_rows(app.plan())
    assert [(each.name, each.added) for each in plan.outputs] == [
        ("out", False), ("once", False), ("again", False), ("items.late", True),
    ]  # fmt: skip


def test_both_sides_of_a_join_have_late_rows_of_their_own():
    app, orders, _, _ = shop()
    orders.join(orders, on="user", within="1 minute", prefix="r_", name="pairs").to("out")
    names = [each.name for each in keep_late_rows(app.plan()).outputs]
    assert names == ["out", "pairs.late", "pairs.right.late"]


def test_a_table_that_only_a_join_uses_has_no_step():
    app, orders, users, _ = shop()
    orders.join(users.where("country <> ''"), on={"user": "id"}, name="known").to("out")
    assert drawn(absorb_tables(app.plan())) == [
        "topic orders",
        "topic users",
        "versions users <- topic users",
        "where <- versions users",
        "join latest known <- topic orders, where",
        "output out <- join latest known",
    ]


def test_a_table_that_is_also_written_keeps_its_step():
    app, orders, users, _ = shop()
    orders.join(users, on={"user": "id"}, name="known").to("out")
    users.to("copy")
    assert drawn(absorb_tables(app.plan()))[-2:] == [
        "output out <- join latest known",
        "output copy <- to table users",
    ]


def test_a_check_changes_nothing_or_names_the_line():
    app, orders, _, _ = shop()
    orders.to("out")
    assert check(app.plan()) == app.plan()
    orders.to("out")
    with pytest.raises(rr.ProgramError, match="two outputs are called 'out'") as caught:
        check(app.plan())
    assert str(caught.value.where).startswith(__file__)


def test_what_is_described_is_what_runs():
    app, orders, users, _ = shop()
    orders.join(users, on={"user": "id"}, name="known").to("out")
    described = [n.name for n in nodes_of(passed(app.plan()).outputs) if isinstance(n, Step)]
    assert described == [step.name for step in app.program().steps] == ["known"]
