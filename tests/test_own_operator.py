"""An operator of one's own: what it must hold is said when the program is built."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import riverrun as rr
from riverrun.extend import Entry, Input, Leaving, PlainOperator, Result, Step, Words, step_fields


@dataclass(frozen=True, kw_only=True)
class Nothing(PlainOperator):
    kind = "nothing"
    takes = "facts"
    can_be_late = False
    form: str = "facts"
    kept: object = None

    @property
    def leaving(self):
        return Leaving(form=self.form, key=())

    def enter(self, number, rows):
        return Entry.of_facts(self.schema.names, rows)

    def words(self):
        return Words.of(("gives", "nothing"))

    def frozen(self):
        return {"kept": self.kept}

    def advance(self, state, batch):
        return Result()


class Twofold(Nothing):
    kind = "twofold"

    @property
    def inputs(self):
        return (Input(takes="facts", late=False), Input(port="right", takes="facts", late=False))


class Tumbler(Nothing):
    kind = "aggregate"


def making(kind=Nothing, **fields):
    def on(rows, at):
        given = step_fields("nothing", rows, ("page",), None, named="nothing", at=at)
        schema = rows.schema.visible
        return Step((rows,), kind(**given, schema=schema, on_error="set aside", **fields))

    return on


def views() -> rr.Stream:
    return rr.App("shop").stream("views", schema="page string, n int")


MISTAKES = {
    "apply needs what makes a step": lambda: views().apply(5),
    "what apply was given makes no step": lambda: views().apply(lambda rows, at: None),
    "'nothing' gives a table": lambda: views().apply(making(form="changes")),
    "'nothing' gives a stream": lambda: views().apply_to_table(making()),
    "'aggregate' is a kind of step that riverrun has": lambda: views().apply(making(Tumbler)),
    "'nothing' takes facts": lambda: views().to_table("page").apply(making()),
    "'twofold' is fed by something else": lambda: views().apply(making(Twofold)),
    "what 'nothing' freezes cannot be kept": lambda: views().apply(making(kept={1})),
}


@pytest.mark.parametrize("fact", MISTAKES)
def test_a_mistake_is_told_at_the_users_line(fact):
    with pytest.raises(rr.ProgramError) as caught:
        MISTAKES[fact]()
    assert caught.value.fact.startswith(fact)
    assert caught.value.where.file == __file__


def test_an_operator_that_does_not_answer_cannot_be_made():
    class Silent(PlainOperator):
        kind = "silent"

    with pytest.raises(rr.ProgramError, match="abstract"):
        views().apply(making(Silent))
