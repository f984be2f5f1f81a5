"""The JVM that Spark's driver runs in."""

from __future__ import annotations

from riverrun import private
from riverrun.spark.jvm import temporary_option


def test_what_a_killed_jvm_has_left_is_gone_with_the_next_start(tmp_path):
    left = private.folder(tmp_path / "work" / "blockmgr")
    option = temporary_option(tmp_path)
    assert not left.exists()
    assert option == f"-Djava.io.tmpdir={tmp_path / 'work' / 'tmp'}"
    assert (tmp_path / "work" / "tmp").is_dir()
