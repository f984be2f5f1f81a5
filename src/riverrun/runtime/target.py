"""An output of an application that runs, or has run: what is needed to look at it from outside."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from riverrun import private
from riverrun.app import App
from riverrun.compiler import upgrades
from riverrun.compiler.shape import Shape, shape
from riverrun.config import Settings
from riverrun.embedded import kafka
from riverrun.errors import CheckpointError, InputError
from riverrun.far import AnyPath
from riverrun.forgetting.places import place_of
from riverrun.kernels.letters import RecordPlace
from riverrun.kernels.program import Program
from riverrun.outputs import Destination, OutputSpec, Owner, Standing, destination_of
from riverrun.runtime import aside, checkpoint
from riverrun.runtime.batches import Batches
from riverrun.runtime.forgetting.stores import require_same as require_same_store
from riverrun.runtime.replay import part_for
from riverrun.runtime.surroundings import places_of
from riverrun.sources.kafka import KafkaSource

SCRATCH = "scratch-"
"""The beginning of the name of a folder that a process works in; the rest is its number."""
LOOK = 0.01
"""Seconds between two looks whether a batch is through."""
PATIENCE = 120.0
"""Seconds to wait for a moment between two batches."""


@dataclass(frozen=True)
class Target:
    settings: Settings
    program: Program
    output: OutputSpec
    destination: Destination
    owner: Owner
    batches: Batches
    source: KafkaSource

    @property
    def runs(self) -> bool:
        return checkpoint.holder(self.batches.folder) is not None

    @property
    def aside(self) -> dict[RecordPlace, str]:
        """Records that have no part in it."""
        return aside.causes(aside.read(self.batches.folder))

    @contextmanager
    def standing(self) -> Iterator[tuple[int, Standing]]:
        """What stands there, and of which batch it is: all tasks have written theirs of it, and
        none has begun with the next."""
        give_up_at = time.monotonic() + PATIENCE
        while True:
            committed = self.batches.committed()
            found = self.destination.standing(self.output, self.owner)
            if found is None:
                raise unreadable(self.output)
            with found as standing:
                number = self.between(committed, standing.batch, whole=standing.whole)
                if number is not None:
                    self.batches.look()
                    yield number, standing
                    return
            self.wait(give_up_at)

    def between(self, committed: int, written: int | None, *, whole: bool = False) -> int | None:
        """The batch that all is of; None in the middle of one. `committed` was looked up before
        `written`, which is None where nobody notes it."""
        if written is None:
            return committed if self.batches.begun() == committed else None
        return max(committed, written) if whole or written <= committed else None

    def require_same_checkpoint(self) -> None:
        if (self.batches.folder / "id").read_text() != self.owner.checkpoint:
            raise CheckpointError(
                "the application has started over meanwhile",
                where=self.batches.folder,
                hint="nothing was changed: try again",
            )

    def wait(self, give_up_at: float) -> None:
        if not self.runs or time.monotonic() > give_up_at:
            raise CheckpointError(
                "a batch is half written",
                where=self.output.sink.text,
                got="the job writes it" if self.runs else "the job does not run",
                hint="let the job finish it: `riverrun run`" if not self.runs else "try again",
            )
        time.sleep(LOOK)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A folder that is gone afterwards; one that was left behind is gone before."""
        home = private.folder(self.settings.run_of(self.program.name))
        for left in home.glob(f"{SCRATCH}*"):
            if not psutil.pid_exists(int(left.name.removeprefix(SCRATCH))):
                shutil.rmtree(left, ignore_errors=True)
        folder = home / f"{SCRATCH}{os.getpid()}"
        try:
            yield private.folder(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def target(app: App, settings: Settings, name: str) -> Target:
    program = app.program().with_keys(place_of(settings, app.name))
    if files := next((each.files for each in program.sources if each.files is not None), None):
        raise InputError(
            "what is read from files cannot be compared: only topics are read again",
            got=files,
        )
    output = output_named(program, name)
    part_for(program, output)  # an error if it cannot be computed here
    _require_same(remembered(program, settings), shape(program), settings.checkpoint_of(app.name))
    if program.personal:  # what is sealed by other keys is another text, and nobody could read it
        require_same_store(settings.checkpoint_of(app.name), program.keys)
    return opened(program, output, settings)


def remembered(program: Program, settings: Settings) -> Shape:
    """The program as it has run here."""
    folder = settings.checkpoint_of(program.name)
    found = upgrades.read(folder)
    if found is None or not (folder / "id").exists():
        raise InputError(
            f"nothing is known of the application {program.name!r}", where=folder,
            hint="has it run here?",
        )  # fmt: skip
    return found


def opened(program: Program, output: OutputSpec, settings: Settings) -> Target:
    """The output as a program that has run here writes it."""
    folder, client = settings.checkpoint_of(program.name), kafka.client(settings)
    places = places_of(replace(program, outputs=(output,)), settings, client, _quiet)
    destination = destination_of(output.sink, places)
    if destination is None:
        raise unreadable(output)
    owner = Owner(program.name, (folder / "id").read_text())
    return Target(
        settings, program, output, destination, owner, Batches(folder), KafkaSource(client)
    )  # fmt: skip


def _quiet(text: str) -> None:
    """What is started shows by itself."""


def unreadable(output: OutputSpec) -> InputError:
    return InputError(
        "what this output has taken cannot be read back",
        where=output.sink.text,
        got="a table" if output.table else "a stream",
        hint="tables can be, in databases, Delta, Parquet and compacted topics; `riverrun compare "
        "--at` makes streams again",
    )


def output_named(program: Program, name: str) -> OutputSpec:
    """By its name, or the end of it, where only one has it."""
    known = {output.name: output for output in program.outputs}
    found = [each for each in known if each == name] or [
        each for each in known if each.endswith((f":{name}", f"/{name}", f".{name}"))
    ]
    if len(found) != 1:
        raise InputError(
            f"the program has {'more than one' if found else 'no'} output {name!r}",
            hint=f"it has: {', '.join(known)}",
        )
    return known[found[0]]


def _require_same(before: Shape, now: Shape, folder: AnyPath) -> None:
    """What the log says goes by the program: it must be the one that has run."""
    for part in ("pages", "topics", "sources", "steps", "settings", "outputs"):
        if before.get(part) != now[part]:
            raise CheckpointError(
                "the program is not the one that has run",
                where=folder,
                got=f"other {part}",
                hint="give the version that runs; `riverrun check` tells what is different",
            )
