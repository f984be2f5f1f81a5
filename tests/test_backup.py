"""Backup and restore: what is in the archive, what is refused, and a real job across a restore."""

from __future__ import annotations

import hashlib
import json
import tarfile
from io import BytesIO

import pytest

from riverrun.kafka import admin
from riverrun.runtime import checkpoint
from running import produce, table

FILES = {
    "id": "0" * 32,
    "program.json": "{}",
    "query/metadata": "{}",
    "query/state/0/1-1.pages": "state",
    "lock": "17",
}


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of the application `shop`."""
    found = tmp_path / "home" / "checkpoints" / "shop"
    for name, text in FILES.items():
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(text)
    return found


def contents(folder):
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text() for path in paths}


@pytest.mark.parametrize("name", ["shop.tar.zst", "shop.tar.gz"])
def test_what_is_restored_is_what_was_backed_up_under_a_new_id(name, folder, tmp_path, riverrun):
    made = riverrun("backup", "shop", name)
    assert (made.code, made.out[:10]) == (0, "wrote shop"), made.err
    outcome = riverrun("restore", name, "--as", "copy")
    assert outcome.code == 0, outcome.err
    assert "written again" in outcome.out
    found, before = contents(folder.parent / "copy"), contents(folder)
    assert found.pop("id") != before.pop("id")
    del before["lock"]
    assert found == before
    left = [path.name for path in tmp_path.rglob(".*") if path.name.startswith((".r", ".s"))]
    assert left == []


def test_a_checkpoint_that_is_there_is_replaced_only_when_forced(folder, riverrun):
    riverrun("backup", "shop", "shop.tar.gz")
    (folder / "query" / "metadata").write_text("newer")
    (folder / "query" / "more").write_text("newer")
    refused = riverrun("restore", "shop.tar.gz")
    assert refused.code == 2
    assert "the application 'shop' has a checkpoint [RR402]" in refused.err
    assert (folder / "query" / "metadata").read_text() == "newer"
    told = json.loads(riverrun("restore", "shop.tar.gz", "--force", "--json").out)
    assert told["application"] == "shop"
    assert (folder / "query" / "metadata").read_text() == "{}"
    assert not (folder / "query" / "more").exists()


def test_a_running_application_is_neither_backed_up_nor_restored(folder, riverrun):
    riverrun("backup", "shop", "shop.tar.gz")
    with checkpoint.held(folder, "shop"):
        for command in (("backup", "shop", "b.tar.gz"), ("restore", "shop.tar.gz", "--force")):
            outcome = riverrun(*command)
            assert outcome.code == 2
            assert "is running already" in outcome.err


def test_a_damaged_archive_changes_nothing(folder, tmp_path, riverrun):
    riverrun("backup", "shop", "shop.tar.gz")
    whole = (tmp_path / "shop.tar.gz").read_bytes()
    before = contents(folder)
    for damaged in (whole[: len(whole) // 2], whole[:-20], whole[:60] + b"xx" + whole[62:], b""):
        (tmp_path / "shop.tar.gz").write_bytes(damaged)
        outcome = riverrun("restore", "shop.tar.gz", "--force")
        assert outcome.code == 2
        assert "the backup is damaged" in outcome.err
        assert contents(folder) == before


def test_what_cannot_be_backed_up_is_one_clear_error(folder, riverrun):
    assert "has no checkpoint" in riverrun("backup", "shops", "x.tar.gz").err
    assert "hint: there are: shop" in riverrun("backup", "shops", "x.tar.gz").err
    assert "a .tar.zst or .tar.gz file" in riverrun("backup", "shop", "shop.zip").err
    assert "cannot be written" in riverrun("backup", "shop", "missing/shop.tar.gz").err
    assert "there is no such file" in riverrun("restore", "absent.tar.gz").err


def archive(manifest, files=(("checkpoint/query/metadata", b"{}"),), file="odd.tar.gz"):
    """An archive that no `backup` wrote."""
    with tarfile.open(file, "w:gz") as made:
        for name, data in (*files, ("manifest.json", manifest)):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, BytesIO(data))


def manifest_of(**changes):
    digest = hashlib.sha256(b"{}").hexdigest()
    found = {"application": "shop", "riverrun": "0.1.0", "made_at": "now", "format": 1,
             "files": {"query/metadata": digest}}  # fmt: skip
    return json.dumps({**found, **changes}).encode()


NO_NAMES = ("../../precious", ".", "..", "", "/precious", "a/b", "a b", "2", ".hidden", "a" * 300)


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_restore_goes_nowhere_but_to_a_checkpoint_of_a_proper_name(
    name, folder, tmp_path, riverrun
):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "photo").write_text("mine")
    given = str(precious) if name == "/precious" else name
    before = contents(tmp_path / "home")
    archive(manifest_of())
    for options in (("--as", given), ("--as", given, "--force")):
        outcome = riverrun("restore", "odd.tar.gz", *options)
        assert (outcome.code, "[RR103]" in outcome.err) == (2, True), outcome.err
    archive(manifest_of(application=given))
    outcome = riverrun("restore", "odd.tar.gz", "--force")
    assert (outcome.code, "[RR103]" in outcome.err) == (2, True), outcome.err
    assert contents(precious) == {"photo": "mine"}
    assert contents(tmp_path / "home") == before


@pytest.mark.parametrize("command", ["stop", "backup", "control", "pause", "lag", "clocks"])
@pytest.mark.parametrize("name", ["../../precious", "."])
def test_no_command_takes_a_path_for_a_name(command, name, tmp_path, riverrun, monkeypatch):
    monkeypatch.setenv("RIVERRUN_BROKERS", "127.0.0.1:1")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "lock").touch()
    outcome = riverrun(command, name, *(["x.tar.gz"] if command == "backup" else []))
    assert (outcome.code, "[RR103]" in outcome.err) == (2, True), outcome.err
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["lock"]


def test_a_folder_that_is_no_checkpoint_is_not_replaced_unless_forced(folder, tmp_path, riverrun):
    (folder.parent / "photos").mkdir()
    (folder.parent / "photos" / "photo").write_text("mine")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "photo").write_text("mine")
    (folder.parent / "linked").symlink_to(elsewhere)
    archive(manifest_of())
    for name in ("photos", "linked"):
        outcome = riverrun("restore", "odd.tar.gz", "--as", name)
        assert (outcome.code, "[RR402]" in outcome.err) == (2, True), outcome.err
        assert (folder.parent / name / "photo").read_text() == "mine"
    assert riverrun("restore", "odd.tar.gz", "--as", "linked", "--force").code == 0
    assert (elsewhere / "photo").read_text() == "mine"


@pytest.mark.parametrize(
    "manifest",
    [
        b"", b"{", b"[]", b"7", b"null", b"\xff", b"{}", b'{"format": 1}',
        manifest_of(application=7), manifest_of(files=[]), manifest_of(files={"query/metadata": 1}),
        manifest_of(surplus=1), manifest_of(made_at=None), manifest_of(format=2),
    ],
)  # fmt: skip
def test_a_broken_manifest_is_one_clear_error(manifest, folder, riverrun):
    before = contents(folder)
    archive(manifest)
    outcome = riverrun("restore", "odd.tar.gz", "--force")
    assert (outcome.code, "[RR103]" in outcome.err) == (2, True), outcome.err
    assert contents(folder) == before


@pytest.mark.parametrize(
    "names", [[""], ["/checkpoint/x"], ["checkpoint/../x"], ["checkpoint"], ["x"], []]
)
def test_an_archive_with_anything_but_a_checkpoint_is_refused(names, folder, tmp_path, riverrun):
    archive(manifest_of(files={}), [(name, b"{}") for name in names])
    outcome = riverrun("restore", "odd.tar.gz", "--force")
    assert (outcome.code, "[RR103]" in outcome.err) == (2, True), outcome.err
    assert [path.name for path in folder.parent.iterdir()] == ["shop"]


PROGRAM = """
import riverrun as rr
app = rr.App("saved")
views = app.stream("saved-views", schema="page string")
views.group_by("page").agg(n=rr.count()).to("saved-out")
"""


@pytest.mark.broker
@pytest.mark.spark
def test_a_job_goes_on_from_a_restored_checkpoint_and_ends_with_the_right_table(
    broker, tmp_path, riverrun, once
):
    admin.create_topic(broker, "saved-views", partitions=1)
    file = tmp_path / "saved.py"
    file.write_text(PROGRAM)
    for number in range(3):
        produce(broker, "saved-views", [{"page": f"/{n % 5}"} for n in range(100)])
        assert once(file).statuses()[-1]["events"] == (200 if number == 2 else 100)
        if number == 0:
            assert riverrun("backup", "saved", "saved.tar.zst").code == 0
        if number == 1:
            assert riverrun("restore", "saved.tar.zst", "--force").code == 0
    assert {key: row["n"] for key, row in table(broker, "saved-out").items()} == {
        f"/{n}": 60 for n in range(5)
    }
