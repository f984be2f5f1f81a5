"""What every operator must hold: its results follow from its input, not from how it was run."""

from __future__ import annotations

import json
import pickle
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import uuid4
from weakref import WeakKeyDictionary

import pytest

from riverrun.app import App
from riverrun.compiler.shape import shape
from riverrun.kernels.operator import Operator
from riverrun.kernels.questions import MOST_SECONDS, Question, part_of
from riverrun.testing.driver import Driver

Record = dict[str, Any]
Batches = list[dict[str, list[Record]]]
"""Per batch the records of each topic."""


class OperatorContract(ABC):
    """Derive a class, name it Test…, and give a program with one step of the kind that is tried.

    Records of a topic are sent in their order. `times`, seconds to wait after each batch, lets
    timers fire and inputs become idle.
    """

    arrival_matters: ClassVar[bool] = False
    """Whether results depend by their nature on what comes first."""

    @abstractmethod
    def program(self, app: App) -> None:
        """Adds sources, the step, and outputs to the application."""

    @abstractmethod
    def records(self) -> Mapping[str, list[Record]]:
        """What is sent, by topic: enough that every part of the operator has work to do."""

    def asked(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Commands of the control log, with the first batch: kind, target, and what else they
        say."""
        return []

    def app(self, pages: int = 3) -> App:
        app = App("contract", pages=pages)
        self.program(app)
        return app

    def step(self) -> Operator:
        steps = self.app().program().steps
        return max(steps, key=lambda step: (step.level, step.name)).does

    def cut(self, seed: int, most: int = 12) -> Batches:
        """The records in batches of random size; those of a topic keep their order."""
        dice, left = random.Random(seed), {t: list(each) for t, each in self.records().items()}
        batches: Batches = []
        while any(left.values()):
            batch = {topic: each[: dice.randint(0, most)] for topic, each in left.items()}
            left = {topic: each[len(batch[topic]) :] for topic, each in left.items()}
            batches.append(batch)
        return batches

    def run(
        self, batches: Batches, *, pages: int = 3, restart: bool = False, ask: bool = False
    ) -> Driver:
        driver = Driver(self.app(pages))
        for kind, target, body in self.asked():
            driver.control(kind, target, **body)
        for batch in batches:
            for topic, records in batch.items():
                driver.send(topic, *records)
            for step in driver.program.tables if ask else ():
                question = Question(uuid4().hex, step, "FROM rows", seconds=MOST_SECONDS)
                asked = question.command(None)
                driver.control(asked.kind, step, **asked.body)
            if restart:
                driver.crash()
            driver.pass_time("1 second")
            if restart:
                driver.restart()
        driver.end()
        return driver

    def calm(self, seed: int) -> Driver:
        """The run of a cut without mishaps. Cases share it, so they only read it."""
        kept = _CALM.setdefault(type(self), {})
        if seed not in kept:
            kept[seed] = self.run(self.cut(seed))
        return kept[seed]

    def test_the_input_has_results(self) -> None:
        outputs = self.calm(1).outputs
        assert any(outputs.values()), "a contract over nothing proves nothing"
        assert not outputs["dead"], outputs["dead"]

    @pytest.mark.parametrize("seed", range(2))
    def test_a_crash_at_any_batch_changes_nothing(self, seed: int) -> None:
        disturbed = self.run(self.cut(seed), restart=True)
        assert disturbed.outputs == self.calm(seed).outputs

    def test_a_replay_gives_the_same_lines(self) -> None:
        driver = self.run(self.cut(2))
        before = dict(driver.outputs)
        driver.replay()
        assert driver.outputs == before

    def test_questions_are_answered_and_change_nothing(self) -> None:
        if not self.app().program().tables:
            pytest.skip("it cannot be asked")
        asked = self.run(self.cut(0), ask=True)
        assert asked.outputs == self.calm(0).outputs
        parts = list(map(part_of, asked.topics.replied))
        assert parts
        troubles = [(each.trouble, each.detail) for each in parts if each.trouble]
        assert not troubles, troubles

    def test_the_number_of_pages_changes_nothing(self) -> None:
        expected = _standing(self.calm(1))
        for pages in (1, 8):
            assert _standing(self.run(self.cut(1), pages=pages)) == expected

    def test_the_cut_into_batches_changes_nothing(self) -> None:
        if self.arrival_matters:
            pytest.skip("by its nature")
        expected = _standing(self.run([dict(self.records())]))
        for seed in range(2):
            assert _standing(self.calm(seed)) == expected

    def test_what_is_taken_back_was_there(self) -> None:
        driver = self.calm(0)
        for output in driver.program.outputs:
            there: list[Any] = []
            for line in driver.outputs[output.name] if output.table else ():
                if line["op"] == "+":
                    there.append(line["value"])
                else:
                    assert line["value"] in there
                    there.remove(line["value"])

    def test_it_answers_for_people_and_for_checkpoints(self) -> None:
        step = self.step()
        assert step.kind
        assert step.words().lines
        assert step.key_words()
        frozen = step.frozen() | step.settings()
        assert json.loads(json.dumps(frozen)) == json.loads(json.dumps(frozen))
        assert shape(self.app().program()) == shape(self.app().program())

    def test_it_travels_to_workers(self) -> None:
        again = pickle.loads(pickle.dumps(self.step()))
        assert again.frozen() == self.step().frozen()
        assert again.enter(0, "rows") == self.step().enter(0, "rows")


_CALM: WeakKeyDictionary[type[OperatorContract], dict[int, Driver]] = WeakKeyDictionary()


def _standing(driver: Driver) -> dict[str, Any]:
    """What readers have at the end: a table's rows, and all rows of a stream in any order."""
    found: dict[str, Any] = {}
    for output in driver.program.outputs:
        lines = driver.outputs[output.name]
        rows = driver.table(output.name) if output.table else [line["value"] for line in lines]
        found[output.name] = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return found
