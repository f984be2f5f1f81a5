"""How each system is installed, in an environment of its own, and started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from riverrun.config import Settings
from riverrun.embedded import jars, java
from riverrun.errors import JobError

HERE = Path(__file__).parent
Plan = dict[str, Any]
Command = list[str]


@dataclass(frozen=True)
class Peer:
    """A system, and how its programs are run."""

    name: str
    file: str
    command: Callable[[Path, Plan], Command]
    """Given the Python of its environment, or the folder of its classes."""
    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    """Groups of locked jars."""
    without: tuple[tuple[str, str], ...] = ()
    """Works that it does not do, and why."""

    @property
    def program(self) -> Path:
        return HERE / self.file

    @property
    def lines(self) -> int:
        """Of program, without empty ones and comments."""
        kept = (line.strip() for line in self.program.read_text().splitlines())
        return sum(bool(line) and not line.startswith(("#", "//", '"""')) for line in kept)


def _python(python: Path, plan: Plan) -> Command:
    return [str(python), plan["program"]]


def _riverrun(python: Path, plan: Plan) -> Command:
    return [str(python), "-m", "riverrun.cli", "run", plan["program"], "--fresh"]


def _bytewax(python: Path, plan: Plan) -> Command:
    """As many processes as it may have, each with its own part of the recovery store."""
    recovery = Path(plan["state"]) / "recovery"
    recovery.mkdir(parents=True)
    parts = str(plan["parallel"])
    subprocess.run([str(python), "-m", "bytewax.recovery", str(recovery), parts], check=True)
    flow = f"{plan['program']}:flow"
    cluster = ["-m", "bytewax.testing", flow, "-p", parts, "-w", "1"]
    return [str(python), *cluster, "-r", str(recovery), "-s", "5", "-b", "0"]


def _java(classes: Path, plan: Plan) -> Command:
    path = ":".join([str(classes), *plan["jars"]])
    return [plan["java"], "-cp", path, "KafkaStreamsProgram"]


PEERS = {
    each.name: each
    for each in (
        Peer("riverrun", "riverrun_program.py", _riverrun),
        Peer("spark", "spark_program.py", _python, jars=("spark-kafka",)),
        Peer("pyflink", "flink_program.py", _python, ("apache-flink==2.3.0",), ("flink",)),
        Peer("kstreams", "KafkaStreamsProgram.java", _java, jars=("broker", "kafka-streams")),
        Peer("quix", "quix_program.py", _python, ("quixstreams==3.28.1",)),
        Peer("bytewax", "bytewax_program.py", _bytewax, ("bytewax[kafka]==0.21.1",)),
        Peer("pathway", "pathway_program.py", _python, ("pathway==0.33.0",)),
    )
}


class Starter:
    """Installs what a peer needs, once per user, and starts its programs."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.settings, self.folder = settings, folder

    def start(self, peer: Peer, plan: Plan) -> subprocess.Popen[bytes]:
        state = self.folder / f"{plan['output']}-state"
        state.mkdir()
        found = [str(jar) for group in peer.jars for jar in jars.fetch(group, self.settings)]
        runtime = java.find(self.settings.cache)
        plan = {**plan, "program": str(peer.program), "state": str(state), "jars": found}
        command = peer.command(self._home(peer, plan), {**plan, "java": str(runtime.executable)})
        environment = {
            **os.environ,
            "PLAN": json.dumps(plan),
            "RIVERRUN_HOME": str(self.settings.home),
            "RIVERRUN_BROKERS": plan["brokers"],
            "RIVERRUN_NICE": "0",
            "PATHWAY_THREADS": str(plan["parallel"]),
            "JAVA_HOME": str(runtime.executable.parents[1]),
        }
        log = self.log(plan).open("wb")
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=environment, cwd=state, start_new_session=True
        )

    def log(self, plan: Plan) -> Path:
        return self.folder / f"{plan['output']}.log"

    def _home(self, peer: Peer, plan: Plan) -> Path:
        if peer.file.endswith(".java"):
            return self._compiled(peer, plan)
        return self._environment(peer) if peer.packages else Path(sys.executable)

    def _environment(self, peer: Peer) -> Path:
        home = self.settings.cache / "peers" / peer.name
        python, stamp = home / "bin" / "python", home / "installed"
        if not stamp.exists() or stamp.read_text() != repr(peer.packages):
            _run(sys.executable, "-m", "venv", "--clear", home)
            quiet = ("--quiet", "--disable-pip-version-check")
            _run(python, "-m", "pip", "install", *quiet, *peer.packages)
            stamp.write_text(repr(peer.packages))
        return python

    def _compiled(self, peer: Peer, plan: Plan) -> Path:
        compiler = shutil.which("javac")
        if compiler is None:
            raise JobError("its program cannot be compiled: there is no javac on the path")
        classes = self.folder / "classes"
        if not classes.exists():
            _run(compiler, "-cp", ":".join(plan["jars"]), "-d", classes, peer.program)
        return classes


def _run(*command: object) -> None:
    words = [str(each) for each in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise JobError(f"it cannot be installed: {''.join(said)}")
