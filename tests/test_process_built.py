"""Processors when a program is built, described, resumed and sent to workers."""

from __future__ import annotations

import subprocess
import sys

import pytest

import riverrun as rr
from processors import SCHEMA, Silence, driver_of
from riverrun.compiler import describe
from riverrun.compiler.passes import passed
from riverrun.compiler.shape import shape
from riverrun.spark.portable import portable


def refused(processor, **options):
    stream = rr.App("p").stream("clicks", schema=SCHEMA, time="at")
    with pytest.raises(rr.ProgramError) as error:
        stream.process(processor, **{"by": "user", **options})
    assert "test_process_built.py" in str(error.value.where)
    return error.value.fact


def test_mistakes_are_found_when_the_program_is_built():
    def made(**parts):
        return type("Made", (rr.Processor,), parts)

    def on_event(self, event, state, context): ...

    good = {"outputs": {"out": "n int"}, "on_event": on_event}
    assert refused(made(**good), by="usr") == "there is no column 'usr'"
    assert refused(made(**good), by=[]) == "process needs at least one column"
    assert refused(print) == "process() needs a processor"
    assert refused(made(outputs=good["outputs"])) == "Made has no on_event"
    wrong = {**good, "on_event": lambda self, event: None}
    assert refused(made(**wrong)) == "on_event does not take what it is given"
    assert refused(made(on_event=on_event)) == "Made has no outputs"
    assert refused(made(**{**good, "outputs": {"o": "n nothing"}})) == "the schema cannot be read"
    assert refused(made(**good, state="n")) == "the schema cannot be read"
    assert refused(made(**good, state="clear int")) == "state cannot have a column 'clear'"
    assert refused(made(**good, state="user string")) == "state cannot have a column 'user'"
    needs = made(**good, __init__=lambda self, period: None)
    assert refused(needs) == "Made cannot be made without arguments"
    stream = rr.App("p").stream("clicks", schema=SCHEMA, time="at")
    two = stream.process(made(**{**good, "outputs": {"a": "n int", "b": "n int"}}), by="user")
    assert two.outputs == ("a", "b")
    with pytest.raises(rr.ProgramError, match="there is no output 'c'"):
        two["c"]
    with pytest.raises(rr.ProgramError, match="more than one output"):
        print(two.stream)


def test_a_description_names_the_class_its_state_and_outputs(tmp_path):
    app = rr.App("p")
    clicks = app.stream("clicks", schema=SCHEMA, time="at")
    clicks.process(Silence, by="user").stream.to("silent")
    text = describe.as_text(passed(app.plan()), tmp_path)
    assert "step clicks_silence_by_user" in text
    assert "  runs      Silence\n  state     clicks BIGINT, last TIMESTAMP\n" in text
    assert "  silent    user VARCHAR, since TIMESTAMP, clicks BIGINT\n" in text


def test_a_checkpoint_is_refused_when_state_or_outputs_change():
    found = shape(driver_of(Silence()).program)["steps"]["step"]
    assert found["keys"] == ["user"]
    assert found["state"] == '"clicks" BIGINT, "last" TIMESTAMP'
    assert list(found["outputs"]) == ["silent"]


PROGRAM = """
import riverrun as rr
from beside import LIMIT

class Count(rr.Processor):
    state = "n bigint default 0"
    outputs = {"out": "n bigint"}
    def on_event(self, event, state, context):
        state.n += LIMIT
"""


def test_a_processor_travels_with_the_code_of_its_program(tmp_path, monkeypatch):
    (tmp_path / "traveller.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("LIMIT = 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    import traveller  # noqa: PLC0415

    data = portable(traveller.Count(), driver_of(traveller.Count()).program)
    code = "import pickle, sys; print(pickle.load(sys.stdin.buffer).on_event.__name__)"
    done = subprocess.run(
        [sys.executable, "-c", code], input=data, cwd="/", capture_output=True, check=True
    )
    assert done.stdout == b"on_event\n"
