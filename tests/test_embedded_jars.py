"""The jars are the locked ones, or there is an error; what is cached is not fetched again."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from riverrun import config
from riverrun.config import Settings
from riverrun.embedded import ivy, jars
from riverrun.errors import JarError

RIGHT = b"the right bytes"
JAR = jars.Jar("org.example", "part", "1.0", sha256(RIGHT).hexdigest())


class Source:
    """Stands for Ivy: writes what it is told to, and counts how often it is asked."""

    def __init__(self, content: bytes) -> None:
        self.content, self.asked = content, 0

    def retrieve(self, wanted: Sequence[jars.Jar], work: Path, **_: object) -> Path:
        self.asked += 1
        for jar in wanted:
            (work / jar.name).write_bytes(self.content)
        return work


@pytest.fixture
def own_cache(tmp_path: Path) -> Settings:
    return config.load().override(cache=tmp_path / "cache")


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch) -> Source:
    source = Source(RIGHT)
    monkeypatch.setattr(ivy, "retrieve", source.retrieve)
    monkeypatch.setattr(jars, "locked", lambda group: (JAR,))
    return source


def test_a_jar_is_fetched_once(own_cache, source):
    first, second = jars.fetch("broker", own_cache), jars.fetch("broker", own_cache)
    assert first == second == [own_cache.cache / "jars" / "part-1.0.jar"]
    assert source.asked == 1


def test_a_corrupt_cached_jar_is_fetched_again(own_cache, source):
    [path] = jars.fetch("broker", own_cache)
    path.write_bytes(b"damaged")
    jars.fetch("broker", own_cache)
    assert (path.read_bytes(), source.asked) == (RIGHT, 2)


def test_a_jar_that_was_only_touched_is_hashed_and_kept(own_cache, source):
    [path] = jars.fetch("broker", own_cache)
    os.utime(path, (1, 1))
    jars.fetch("broker", own_cache)
    assert source.asked == 1


def test_a_jar_that_stays_wrong_is_an_error_and_is_not_kept(own_cache, source):
    source.content = b"something else"
    with pytest.raises(JarError) as caught:
        jars.fetch("broker", own_cache)
    assert caught.value.fact == "the jar part-1.0.jar is not the locked one"
    found = sha256(b"something else").hexdigest()
    assert caught.value.got == f"sha256 {found}, expected {JAR.sha256}"
    assert [f.name for f in (own_cache.cache / "jars").iterdir()] == [".lock"]


def test_up_with_a_jar_that_stays_wrong_is_one_clear_error(
    own_cache, source, riverrun, monkeypatch
):
    monkeypatch.setenv("RIVERRUN_CACHE", str(own_cache.cache))
    source.content = b"something else"
    outcome = riverrun("up")
    assert outcome.code == 2
    assert outcome.err.startswith("error: the jar part-1.0.jar is not the locked one [RR302]")


def test_an_unreachable_repository_is_one_clear_error(own_cache, tmp_path, monkeypatch):
    nowhere = tmp_path / "ivysettings.xml"
    nowhere.write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers>'
        '<ibiblio name="none" m2compatible="true" root="http://127.0.0.1:1/"/>'
        "</resolvers></ivysettings>"
    )
    monkeypatch.setenv("RIVERRUN_IVYSETTINGS", str(nowhere))
    with pytest.raises(JarError, match="the spark-kafka jars cannot be fetched") as caught:
        jars.fetch("spark-kafka", own_cache)
    assert "RIVERRUN_IVYSETTINGS" in (caught.value.hint or "")


def test_a_mirror_that_is_a_folder_is_read_through_the_users_own_ivysettings(
    own_cache, tmp_path, monkeypatch
):
    jar = tmp_path / "mirror" / "org.example" / "part" / "1.0" / "part-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(RIGHT)
    own = tmp_path / "ivysettings.xml"
    own.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers><filesystem name="folder">'
        f'<artifact pattern="{tmp_path}/mirror/[organisation]/[module]/[revision]/'
        '[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("RIVERRUN_IVYSETTINGS", str(own))
    monkeypatch.setattr(jars, "locked", lambda group: (JAR,))
    [path] = jars.fetch("broker", own_cache)
    assert path.read_bytes() == RIGHT


def test_an_unknown_group_names_those_there_are():
    with pytest.raises(JarError, match="known: broker, connect, debezium, debezium-mariadb, "):
        jars.fetch("brocker", config.load())
