"""`riverrun promote`: a version is made public at a position of the input. What is done is done by
the runs of both; here it is checked, asked for, and waited for."""

from __future__ import annotations

import getpass
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from riverrun.app import App
from riverrun.compiler import upgrades
from riverrun.compiler.shape import shape
from riverrun.config import Settings
from riverrun.errors import BrokerError, InputError
from riverrun.kafka.promotions import PromotionLog
from riverrun.kafka.topics import OUTAGE
from riverrun.kernels.program import Program
from riverrun.operators.alert.kernel import Alert
from riverrun.outputs import OutputSpec
from riverrun.partitions import as_texts
from riverrun.promotion import ASKED, FROM, GIVEN_UP, LEFT, TAKEN, Ends, Noted, Promotion, ahead_of
from riverrun.runtime import checkpoint, deployments
from riverrun.runtime.applications import application
from riverrun.runtime.batches import Batches
from riverrun.runtime.deploy import STATE
from riverrun.runtime.promoting import tables
from riverrun.runtime.target import remembered
from riverrun.runtime.versioned import beside
from riverrun.sinks.kafka.sink import Topic
from riverrun.sinks.postgresql.sink import Postgres
from riverrun.sinks.sqlite_file import Sqlite
from riverrun.sinks.terminal import Screen
from riverrun.sinks.viewing.sink import View
from riverrun.sinks.webhooks import Webhook
from riverrun.versions import Version

TIMES = ("time", "lateness", "idle", "producer", "punctuation", "max_ahead")
"""Of a source, what its clock goes by."""
TOLD = ("emit", "updatable")
"""Of a step, when it tells its results."""
LOOK = 0.05
"""Seconds between two looks at what the runs have done."""
SHARED = (Topic, Postgres, Sqlite, View)
"""Sinks whose rows others read."""

Tell = Callable[[str], None]
Programs = Mapping[str, App]
"""Of both versions, as their files have them."""


@dataclass(frozen=True)
class Promoted:
    application: str
    former: str
    version: str
    at: Mapping[str, int]
    """X: the former is public up to it, the new one from it on."""
    to_x: float
    """Seconds that the former took to X, with its tables in places of their own."""
    at_x: float
    """Seconds from then until the public tables were those of the new one."""

    @property
    def seconds(self) -> float:
        """What the switch took: from the pointer to the last table."""
        return self.to_x + self.at_x

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "seconds": self.seconds}


class Promote:
    def __init__(
        self, settings: Settings, client: Mapping[str, str], version: Version, tell: Tell
    ) -> None:
        self.settings, self.version, self.tell = settings, version, tell
        self.log = PromotionLog(client, version.of, patience=OUTAGE)
        self.log.make()

    @property
    def former(self) -> Version:
        """The one that is public now, or was until it was left."""
        known = self.log.look()
        name = known.public if known.open is None else known.open.former
        return Version(self.version.of, name)

    def going_on(self) -> bool:
        """Whether it was asked for before, or is done; an InputError if something else was."""
        known = self.log.look()
        if known.open is None and known.public == self.version.name:
            if not known.done:
                raise InputError(f"{self.version.name} of {self.version.of} is public already")
            return True
        if known.open is not None and known.open.version != self.version.name:
            raise InputError(
                f"{known.open.version} of {self.version.of} is about to be public",
                hint=f"`riverrun promote {self.version.of} {known.open.version}` waits for it",
            )
        return known.open is not None

    def require_running(self) -> None:
        """Who is about to run is waited for: until then, what is known of a version is of a run
        before, whose results may have gone elsewhere."""
        for each in (self.former, self.version):
            told = False
            while not self._runs(each):
                if not told:
                    self.tell(f"waiting: {each.application} is about to run")
                    told = True
                time.sleep(LOOK)

    def _runs(self, version: Version) -> bool:
        """False while it is about to."""
        if checkpoint.holder(self._folder(version)) is None:
            raise InputError(
                f"{version.application} does not run",
                hint="both versions have to: results change hands at a place of the input that "
                "both come to; nothing has changed",
            )
        return application(self.settings, version.application).state == "running"

    def require(self, programs: Programs) -> None:
        """All that could stand in the way, before anything happens."""
        former = self.former
        for each in (former, self.version):
            _require_places(programs[each.name], each, self.settings, public=each == former)
        both = tuple(programs[each.name].program() for each in (former, self.version))
        _require_alike(*both)
        self._require_whole(programs[self.version.name])
        for difference in other_times(*both):
            self.tell(
                f"warning: {difference}: of streams that come of it, a row near the position may be"
                " missing or come twice"
            )

    def _require_whole(self, app: App) -> None:
        """A version from a copy of state has in its tables what has changed since."""
        entry = deployments.standing(self.settings, self.version)
        if entry is None or entry.start != STATE:
            return
        for own, _ in tables(app, self.version, self.settings):
            raise InputError(
                f"the table {own.output.name} of {self.version.name} is not whole",
                got="it was deployed --from state: it has the keys that have changed since",
                hint="deploy it --from beginning",
            )

    def caught_up(self, within: float) -> None:
        """Waits until the version has read what the public one has by now: the public places wait
        for it from X on. It is given up if it has read nothing for so many seconds."""
        goal = self._stands(self.former)
        least, heard_at = 0, time.monotonic()
        while left := _missing(self._stands(self.version), goal):
            name = self.version.application
            if not least:
                self.tell(f"waiting: {name} has {left:,} records to read yet")
            if not least or left < least:
                least, heard_at = left, time.monotonic()
            if time.monotonic() - heard_at > within:
                raise InputError(
                    f"{name} does not read on",
                    got=f"{left:,} records to read yet, and none was in {within:.0f} s",
                    hint="nothing has changed; is a topic paused (`riverrun ps`), or a batch long?",
                )
            self.require_running()
            time.sleep(LOOK)

    def ask(self) -> None:
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        self.log.note(Noted(0, ASKED, version=self.version.name, by=who))
        self.going_on()

    def wait(self, within: float) -> Promoted:
        """Until it is done: it goes on without us, too. It is given up if there is no X after so
        many seconds."""
        number = self._number()
        told: set[str] = set()
        give_up_at = time.monotonic() + within
        while (found := self._found(number)) is not None and TAKEN not in found.times:
            if found.at is None and time.monotonic() > give_up_at:
                self._give_up(number, within)
                continue
            for text in self._news(found):
                if text not in told:
                    self.tell(text)
                    told.add(text)
            time.sleep(LOOK)
        if found is None or found.at is None:
            raise InputError("the promotion was given up", hint="nothing has changed")
        times = found.times
        return Promoted(
            self.version.of, found.former, found.version, as_texts(found.at),
            times[LEFT] - times[FROM], times[TAKEN] - times[LEFT],
        )  # fmt: skip

    def _number(self) -> int:
        known = self.log.look()
        return known.open.number if known.open else known.done[-1].number

    def _found(self, number: int) -> Promotion | None:
        known = self.log.look()
        all_there = [*known.done, *([known.open] if known.open else [])]
        return next((each for each in all_there if each.number == number), None)

    def _give_up(self, number: int, within: float) -> None:
        """A run may be quicker: then it has happened."""
        known = self.log.note(Noted(0, GIVEN_UP, number))
        if known.open is None:
            raise BrokerError(
                "a version has not said where it stands",
                got=f"after {within:.0f} s",
                hint="nothing has changed; is a batch very long, or a topic paused?",
            )

    def _news(self, found: Promotion) -> Iterator[str]:
        if found.at is not None:
            yield f"{found.former} is public up to {_places(found.at)}, {found.version} from there"
        for name, done in ((found.former, found.left), (found.version, TAKEN in found.times)):
            each = Version(self.version.of, name)
            if not done and checkpoint.holder(self._folder(each)) is None:
                yield f"{each.application} does not run: start it, and it goes on from there"

    def _stands(self, version: Version) -> Ends:
        batches = Batches(self._folder(version))
        batches.look()
        known = batches.known()
        return ahead_of(batches.at(max(known)).ends, {}) if known else {}

    def _folder(self, version: Version) -> Any:
        return self.settings.checkpoint_of(version.application)


def _missing(standing: Ends, goal: Ends) -> int:
    """Records up to the goal, of partitions that both read."""
    return sum(max(goal[each] - end, 0) for each, end in standing.items() if each in goal) or (
        0 if standing else 1
    )


def _places(at: Ends) -> str:
    return ", ".join(f"{name} {end:,}" for name, end in sorted(as_texts(at).items()))


def _require_places(app: App, version: Version, settings: Settings, *, public: bool) -> None:
    """The program is the one that runs, and could go on with its results elsewhere."""
    program, other = (beside(app, version, public=each).program() for each in (public, not public))
    if program.own_topics:
        raise _refused(
            version, "it reads what it writes", ", ".join(program.own_topics),
            "its results come from places that the versions do not share",
        )  # fmt: skip
    if any(each.files is not None for each in program.sources):
        raise _refused(version, "it reads files", "", "files have no places that can be compared")
    if program.delivery != "exactly once":
        raise _refused(version, "it delivers at least once", "", "results could come again")
    if any(isinstance(step.does, Alert) for step in program.steps):
        raise _refused(version, "it alerts", "", "who was told of what is not handed over")
    for output in beside(app, version, public=True).program().outputs:
        _require_sink(version, output)
    before, folder = remembered(program, settings), settings.checkpoint_of(program.name)
    if before["outputs"] != shape(program)["outputs"]:
        raise _refused(
            version, "its file is not what runs", "", "start it again; `riverrun check` tells more"
        )
    upgrades.require_fit(before, shape(other), folder, program.name)
    for own, theirs in tables(app, version, settings):
        for each in (own, theirs):
            if not isinstance(each.output.sink, View) and (
                each.destination.standing(each.output, each.owner) is None
                or each.destination.renewal(each.output, each.owner) is None
            ):
                raise _refused(
                    version, "a table cannot be put in the place of another",
                    each.output.sink.text, "nothing can be made beside it",
                )  # fmt: skip


def _require_sink(version: Version, output: OutputSpec) -> None:
    if not isinstance(output.sink, Topic | Postgres | Sqlite | View | Screen | Webhook):
        raise _refused(
            version, "a place of results cannot change hands yet", output.sink.text,
            "topics, PostgreSQL, SQLite, views and webhooks can",
        )  # fmt: skip


def _refused(version: Version, why: str, got: str, hint: str) -> InputError:
    return InputError(
        f"{version.application} cannot take part in a promotion: {why}", got=got or None, hint=hint
    )


def other_times(former: Program, program: Program) -> Iterator[str]:
    """Why rows of streams may leave the versions at other clocks. Tables get their difference."""
    if not _streams(former) & _streams(program):
        return
    before, now = shape(former), shape(program)
    for topic in sorted(before["sources"].keys() & now["sources"].keys()):
        one, other = before["sources"][topic], now["sources"][topic]
        if names := [each for each in TIMES if one[each] != other[each]]:
            yield f"the topic {topic} is read with another {', '.join(names)}"
    for step in sorted(before["settings"].keys() & now["settings"].keys()):
        one, other = before["settings"][step], now["settings"][step]
        if names := sorted(each for each in other if each in TOLD and one[each] != other[each]):
            yield f"the step {step!r} has another {', '.join(names)}"


def _streams(program: Program) -> set[str]:
    """Those that change hands: topics of the application stay each version's own."""
    own = f"{program.name}."
    streams = (each for each in program.outputs if not each.table)
    return {each.name for each in streams if not (each.sink.kafka_topic() or "").startswith(own)}


def _require_alike(former: Program, program: Program) -> None:
    """Who reads an output finds rows of the same kind there; databases also have their columns."""
    theirs = {each.name: each for each in former.outputs}
    for output in program.outputs:
        before = theirs.get(output.name)
        if before is None or not isinstance(output.sink, SHARED):
            continue
        if (before.key, before.table) != (output.key, output.table):
            raise InputError(
                f"the output {output.name!r} has another key",
                got=f"{', '.join(before.key) or 'none'}, then {', '.join(output.key) or 'none'}",
                hint="give it another name",
            )
        if not isinstance(output.sink, Topic) and before.schema != output.schema:
            raise InputError(
                f"the table {output.name!r} has other columns",
                got=f"{before.schema.ddl()}, then {output.schema.ddl()}",
                hint="give it another name",
            )
