"""What keeps a program running elsewhere, as text: a unit of systemd, objects of Kubernetes."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from riverrun.config import Settings
from riverrun.errors import InputError

PATIENCE = 90
"""Seconds to end: a batch has 60 to finish."""
PLACE, HOME = "/app", "/var/lib/riverrun"
"""In a pod: the program, and all that it keeps."""

UNIT = """\
[Unit]
Description=riverrun: {name}
Wants=network-online.target
After=network-online.target

[Service]
Type=exec
{user}WorkingDirectory={folder}
Environment={environment}
ExecStart={command}
# what a new start may mend is started again by riverrun itself; this is for the rest
Restart=on-abnormal
RestartSec=10
# the batch that runs is finished: the signal is for the first process, not for Spark
KillMode=mixed
TimeoutStopSec={patience}
NoNewPrivileges=true

[Install]
WantedBy=multi-user.target
"""
USER = re.compile(r"\w[\w.@-]{,254}\$?")
"""A name, or a number: what systemd takes beyond that is hardly ever meant."""
IMAGE = re.compile(r"[!-~]+")
"""Visible signs: Kubernetes knows the rest, and some put something in their place later."""


def systemd(name: str, program: Path, settings: Settings, user: str | None) -> str:
    if user is not None and not USER.fullmatch(user):
        raise InputError("that is no name of a user", where="--user", got=repr(user))
    for each in (str(program), str(settings.home.absolute()), sys.executable):
        if re.search(r"[\x00-\x1f\x7f]", each):
            raise InputError("a unit of systemd takes no line breaks and the like", got=repr(each))
    command = (sys.executable, "-m", "riverrun.cli", "run", str(program), "--restart")
    return UNIT.format(
        name=name,
        user=f"User={user}\n" if user is not None else "",
        folder=_escaped(str(program.parent)),
        environment=_quoted(f"RIVERRUN_HOME={settings.home.absolute()}"),
        command=" ".join(map(_quoted, command)),
        patience=PATIENCE,
    )


def _escaped(text: str) -> str:
    """A percent sign is systemd's own."""
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    escaped = _escaped(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return escaped if re.fullmatch(r"[\w/.:=+-]+", escaped) else f'"{escaped}"'


def kubernetes(name: str, program: Path, settings: Settings, image: str) -> str:
    """A list of a ConfigMap with the program, a claim for its checkpoint, and a Deployment of one:
    a second one would be refused by the checkpoint's lock."""
    if not IMAGE.fullmatch(image):
        raise InputError(
            "that is no name of an image", where="--image", got=repr(image), hint="NAME:VERSION"
        )
    if settings.brokers is None:
        raise InputError(
            "a pod needs the address of brokers", hint='brokers = "host:9092" in riverrun.toml'
        )
    called = re.sub(r"[^a-z0-9-]+", "-", f"riverrun-{name}".lower()).strip("-")[:63].strip("-")
    labels = {"app.kubernetes.io/name": called, "app.kubernetes.io/managed-by": "riverrun"}
    about = {"name": called, "labels": labels}
    items = [
        _object("v1", "ConfigMap", about, data={program.name: program.read_text()}),
        _object("v1", "PersistentVolumeClaim", about, spec=CLAIM),
        _object("apps/v1", "Deployment", about, spec={
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": _pod(called, program.name, settings.brokers, image),
            },
        }),
    ]  # fmt: skip
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=2) + "\n"


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}


def _object(version: str, kind: str, metadata: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _pod(called: str, program: str, brokers: str, image: str) -> dict[str, Any]:
    return {
        "terminationGracePeriodSeconds": PATIENCE,
        "containers": [
            {
                "name": "riverrun",
                "image": image,
                "workingDir": HOME,
                "command": ["riverrun", "run", f"{PLACE}/{program}", "--log", "json"],
                "env": [
                    {"name": "RIVERRUN_HOME", "value": HOME},
                    {"name": "RIVERRUN_BROKERS", "value": brokers},
                ],
                "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
                "volumeMounts": [
                    {"name": "program", "mountPath": PLACE, "readOnly": True},
                    {"name": "home", "mountPath": HOME},
                ],
            }
        ],
        "volumes": [
            {"name": "program", "configMap": {"name": called}},
            {"name": "home", "persistentVolumeClaim": {"claimName": called}},
        ],
    }
