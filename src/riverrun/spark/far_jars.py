"""The classes that Spark needs for far file systems, where it does not bring them itself."""

from __future__ import annotations

from pathlib import Path

import pyspark

from riverrun.config import Settings
from riverrun.embedded import jars
from riverrun.errors import ConfigError
from riverrun.far import FarPath

S3A = "s3a"
JARS = "spark.jars"
# files of the state are else sent by an asynchronous client, on Netty: it was seen to take the
# `100 Continue` of a server for its answer, and to send the same file again until it failed
DIRECTLY = "spark.hadoop.fs.s3a.optimized.copy.from.local.enabled"


def far_jars(settings: Settings) -> dict[str, str]:
    """The settings that have Spark load and use them. None if checkpoints need
    no more, or `[spark]` names them; HDFS is in Spark itself."""
    root, given = settings.checkpoint_root, settings.spark.get(JARS, "")
    named = f"{given} {settings.spark.get('spark.jars.packages', '')}"
    if not isinstance(root, FarPath) or not root.url.startswith(f"{S3A}:") or "hadoop-aws" in named:
        return {}
    _require_fitting()
    found = [str(path) for path in jars.fetch(S3A, settings)]
    directly = settings.spark.get(DIRECTLY, "false")
    every = [*(each for each in given.split(",") if each), *found]
    return {JARS: ",".join(every), DIRECTLY: directly}


def _require_fitting() -> None:
    """They go with one version of Hadoop."""
    [ours] = [each.version for each in jars.locked(S3A) if each.artifact == "hadoop-aws"]
    folder = Path(pyspark.__file__).parent / "jars"
    found = [path.stem.rpartition("-")[2] for path in folder.glob("hadoop-client-api-*.jar")]
    if found != [ours]:
        raise ConfigError(
            "the classes for s3a:// do not fit this Spark",
            got=f"Hadoop {', '.join(found) or 'unknown'}, they are for {ours}",
            hint="name those that do: [spark] spark.jars.packages = "
            '"org.apache.hadoop:hadoop-aws:VERSION"',
        )
