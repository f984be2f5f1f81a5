"""The passes over a plan, in their order. What they give is what runs, and what is described."""

from __future__ import annotations

from collections.abc import Callable

from riverrun.compiler.passes.absorb_tables import absorb_tables
from riverrun.compiler.passes.check import check
from riverrun.compiler.passes.gather_changes import gather_changes
from riverrun.compiler.passes.keep_late_rows import keep_late_rows
from riverrun.compiler.passes.keep_personal import keep_personal
from riverrun.plan.nodes import Plan

PASSES: tuple[Callable[[Plan], Plan], ...] = (
    gather_changes,
    keep_late_rows,
    check,
    keep_personal,
    absorb_tables,
)


def passed(plan: Plan) -> Plan:
    for each in PASSES:
        plan = each(plan)
    return plan
