"""What `.process(…)` checks of a processor before anything runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from riverrun.arguments import names
from riverrun.errors import Location, ProgramError
from riverrun.kernels.letters import OnError
from riverrun.operators.process.frames import ProcessFrames
from riverrun.operators.process.rows import Process
from riverrun.plan.building import checked_policy, step_fields
from riverrun.plan.nodes import Node, Step
from riverrun.processor import FrameProcessor, Processor
from riverrun.schema import Schema, defaults, parse

HANDLERS: dict[type, dict[str, tuple[str, ...]]] = {
    Processor: {
        "on_event": ("event", "state", "context"),
        "on_timer": ("name", "state", "context"),
    },
    FrameProcessor: {"on_frame": ("events", "state", "context"), "on_timers": ("state", "context")},
}
TAKEN = ("clear",)
"""Names that the state of a key has for itself."""


def process(
    rows: Node,
    given: Any,
    by: str | Sequence[str],
    *,
    name: str | None,
    on_error: OnError | None,
    at: Location,
) -> Step:
    columns = names("by", by, 'by="user"')
    processor = _instance(given, at)
    _require_handlers(processor, at)
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(processor).__name__).lower()
    named = f"{word}_by_{'_'.join(columns)}"
    fields = step_fields("process", rows, columns, name, named=named, at=at)
    state, values = _state(processor, fields["keys"], at)
    kind = ProcessFrames if isinstance(processor, FrameProcessor) else Process
    does = kind(
        **fields,
        schema=rows.schema.visible,
        on_error=checked_policy(on_error, None, at),
        processor=processor,
        state=state,
        defaults=values,
        outputs=_outputs(processor, at),
    )
    return Step((rows,), does)


def _instance(given: Any, at: Location) -> Processor | FrameProcessor:
    made = given
    if isinstance(given, type) and issubclass(given, Processor | FrameProcessor):
        try:
            made = given()
        except TypeError as error:
            raise ProgramError(
                f"{given.__name__} cannot be made without arguments", where=at, got=str(error)
            ) from error
    if not isinstance(made, Processor | FrameProcessor):
        raise ProgramError(
            "process() needs a processor",
            where=at,
            got=repr(given),
            hint="a class derived from rr.Processor or rr.FrameProcessor",
        )
    return made


def _require_handlers(processor: Processor | FrameProcessor, at: Location) -> None:
    base: type = Processor if isinstance(processor, Processor) else FrameProcessor
    for number, (name, arguments) in enumerate(HANDLERS[base].items()):
        handler = getattr(processor, name)
        if getattr(type(processor), name) is not getattr(base, name):
            _require_arguments(handler, name, arguments, at)
        elif number == 0:
            raise ProgramError(
                f"{type(processor).__name__} has no {name}",
                where=at,
                hint=f"def {name}(self, {', '.join(arguments)}): …",
            )


def _require_arguments(
    handler: Callable[..., Any], name: str, arguments: tuple[str, ...], at: Location
) -> None:
    try:
        inspect.signature(handler).bind(*arguments)
    except TypeError as error:
        raise ProgramError(
            f"{name} does not take what it is given",
            where=at,
            got=f"{name}{inspect.signature(handler)}: {error}",
            hint=f"def {name}(self, {', '.join(arguments)}): …",
        ) from error


def _state(
    processor: Processor | FrameProcessor, keys: tuple[str, ...], at: Location
) -> tuple[Schema, tuple[Any, ...]]:
    text = processor.state
    if not isinstance(text, str):
        raise ProgramError("a processor's state is its columns as text", where=at, got=repr(text))
    state = parse(text, at).with_plain_times if text.strip() else Schema(())
    framed = isinstance(processor, FrameProcessor)
    for name in state.names:
        if name in TAKEN or not name.isidentifier() or name in keys:
            hint = "the key is at hand as it is" if name in keys else "choose another name"
            raise ProgramError(f"state cannot have a column {name!r}", where=at, hint=hint)
    if framed and "timer" in state and state.type_of("timer") != "TIMESTAMP":
        raise ProgramError(
            "the column timer of state is a timestamp", where=at, got=state.type_of("timer")
        )
    if framed and "timer" in state and type(processor).on_timers is FrameProcessor.on_timers:  # type: ignore[union-attr]
        raise ProgramError(f"{type(processor).__name__} has a timer, but no on_timers", where=at)
    return state, defaults(text, at) if state.columns else ()


def _outputs(processor: Processor | FrameProcessor, at: Location) -> tuple[tuple[str, Schema], ...]:
    outputs = processor.outputs
    if not isinstance(outputs, Mapping) or not outputs:
        raise ProgramError(
            f"{type(processor).__name__} has no outputs",
            where=at,
            hint='outputs = {"name": "column type, column type"}',
        )
    for name in outputs:
        if not isinstance(name, str) or not re.fullmatch(r"\w+", name) or name == "state":
            raise ProgramError(
                "an output's name has letters, digits and _, and is not 'state'",
                where=at,
                got=repr(name),
            )
    return tuple((name, parse(ddl, at).with_plain_times) for name, ddl in outputs.items())
