"""What every operator must hold: its results follow from its input, not from how it was run."""

from __future__ import annotations

import json
import pickle
import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from riverrun.app import App
from riverrun.compiler.shape import shape
from riverrun.kernels.operator import Operator
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

    def run(self, batches: Batches, *, pages: int = 3, restart: bool = False) -> Driver:
        driver = Driver(self.app(pages))
        for kind, target, body in self.asked():
            driver.control(kind, target, **body)
        for batch in batches:
            for topic, records in batch.items():
                driver.send(topic, *records)
            if restart:
                driver.crash()
            driver.pass_time("1 second")
            if restart:
                driver.restart()
        driver.end()
        return driver

    def test_the_input_has_results(self) -> None:
        outputs = self.run(self.cut(1)).outputs
        assert any(outputs.values()), "a contract over nothing proves nothing"
        assert not outputs["dead"], outputs["dead"]

    @pytest.mark.parametrize("seed", range(2))
    def test_a_crash_at_any_batch_changes_nothing(self, seed: int) -> None:
        batches = self.cut(seed)
        calm, disturbed = self.run(batches), self.run(batches, restart=True)
        assert disturbed.outputs == calm.outputs

    def test_a_replay_gives_the_same_lines(self) -> None:
        driver = self.run(self.cut(2))
        before = dict(driver.outputs)
        driver.replay()
        assert driver.outputs == before

    @pytest.mark.parametrize("pages", [1, 8])
    def test_the_number_of_pages_changes_nothing(self, pages: int) -> None:
        batches = self.cut(3)
        assert _standing(self.run(batches, pages=pages)) == _standing(self.run(batches))

    @pytest.mark.parametrize("seed", range(2))
    def test_the_cut_into_batches_changes_nothing(self, seed: int) -> None:
        if self.arrival_matters:
            pytest.skip("by its nature")
        whole = [dict(self.records())]
        assert _standing(self.run(self.cut(seed))) == _standing(self.run(whole))

    def test_what_is_taken_back_was_there(self) -> None:
        driver = self.run(self.cut(4))
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


def _standing(driver: Driver) -> dict[str, Any]:
    """What readers have at the end: a table's rows, and all rows of a stream in any order."""
    found: dict[str, Any] = {}
    for output in driver.program.outputs:
        lines = driver.outputs[output.name]
        rows = driver.table(output.name) if output.table else [line["value"] for line in lines]
        found[output.name] = sorted(json.dumps(row, sort_keys=True) for row in rows)
    return found
