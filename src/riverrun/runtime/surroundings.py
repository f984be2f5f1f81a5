"""What a program needs around it: servers that run, topics that fit, a master that suits it."""

from __future__ import annotations

import re
from collections.abc import Callable

from riverrun.config import Settings
from riverrun.embedded import kafka, postgres
from riverrun.errors import ConfigError, TopicError
from riverrun.kafka import admin
from riverrun.kafka.topics import KafkaTopics
from riverrun.kernels.program import Program
from riverrun.operators.alert.spec import AlertSpec
from riverrun.operators.decide.spec import Decide
from riverrun.outputs import Need, Places, Sink
from riverrun.partitions import real
from riverrun.runtime import event_topics
from riverrun.runtime.compaction import compaction_warnings
from riverrun.times import AppendTime

Tell = Callable[[str], None]
NICE = 10
"""How much a program with views gives way, unless the settings say otherwise."""


def places_of(program: Program, settings: Settings, client: dict[str, str], tell: Tell) -> Places:
    """What the destinations of a program need to know; servers that they need are started."""
    address = _postgres(program, settings, tell)
    return Places(
        tuple(client.items()), program.delivery, address, settings.compaction_lag // 1000,
        valkey=settings.valkey, home=str(settings.home), views=settings.views,
    )  # fmt: skip


def kafka_of(settings: Settings, tell: Tell) -> dict[str, str]:
    if settings.brokers is None and not kafka.running(settings):
        tell("starting Kafka")
    return kafka.ensure(settings)


def _postgres(program: Program, settings: Settings, tell: Tell) -> str | None:
    in_views = settings.views == "postgres" and _needing("views", program)
    if not (in_views or _needing("PostgreSQL", program)):
        return None
    if settings.postgres is None and not postgres.running(settings):
        tell("starting PostgreSQL")
    return postgres.ensure(settings)


def check_master(program: Program, settings: Settings) -> None:
    """A file may be on this machine only."""
    master, views = settings.master, _needing("views", program)
    files = _needing("one machine", program) + (views if settings.views == "sqlite" else [])
    outputs = [(sink.text, "an output") for sink in files]
    steps = [s.name for s in program.steps if "one machine" in s.does.needs()]
    read = [(s.files, "a stream of files") for s in program.sources if s.files is not None]
    if settings.keys is None:
        read += [(each.topic, "personal columns, whose keys are") for each in program.personal]
    here = [*outputs, *((f"the step {name}", "a lookup") for name in steps), *read]
    if here and not re.match(r"local(\[|$)", master):
        raise ConfigError(
            f"a program with such {here[0][1]} runs on one machine",
            where=here[0][0],
            got=f"the Spark master {master}",
            hint="use --master local[*], or a database that is a server, such as PostgreSQL",
        )


def _needing(what: Need, program: Program) -> list[Sink]:
    return [output.sink for output in program.outputs if what in output.sink.needs()]


def nice_of(program: Program, settings: Settings) -> int:
    """Who looks something up goes before who writes it, unless somebody waits for replies, or is
    to be alerted."""
    if settings.nice is not None:
        return settings.nice
    awaited = any(step.does.kind in (Decide.kind, AlertSpec.kind) for step in program.steps)
    return NICE if _needing("views", program) and not awaited else 0


def check_surroundings(program: Program, client: dict[str, str], tell: Tell) -> None:
    """What is read is there, and fits."""
    event_topics.ensure(program, client)
    check_sources(program, client)
    for step in program.steps:
        step.does.check_surroundings()
    for text in compaction_warnings(program, client):
        tell(f"warning: {text}")


def check_sources(program: Program, client: dict[str, str]) -> None:
    """Input topics must be there, with the settings that the program relies on."""
    own = program.own_topics
    read = [s.topic for s in program.sources if s.topic not in own and s.files is None]
    KafkaTopics(client).facts(read)
    _require_append_time(program, client)


def _require_append_time(program: Program, client: dict[str, str]) -> None:
    for source in program.sources:
        if not isinstance(source.time, AppendTime):
            continue
        found = admin.settings(client, real(source.topic))[admin.TIMESTAMP_TYPE]
        if found != admin.APPEND_TIME:
            raise TopicError(
                f"the topic {real(source.topic)!r} does not keep append time",
                where=source.at,
                got=f"{admin.TIMESTAMP_TYPE} is {found}: records have their producer's time",
                hint=f"`riverrun topics alter {real(source.topic)} {admin.TIMESTAMP_TYPE}="
                f"{admin.APPEND_TIME}` holds for new records; or make another topic with"
                " `riverrun topics create … --append-time`",
            )
