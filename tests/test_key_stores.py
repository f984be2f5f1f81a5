"""Stores of keys: made once, whoever comes first; destroyed, and nowhere in their files."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from riverrun import config
from riverrun.errors import ConfigError, DatabaseError, InputError
from riverrun.forgetting import KeyPlace, Keys, cipher
from riverrun.forgetting.places import place_of
from riverrun.forgetting.postgresql import PostgresStore
from riverrun.forgetting.sqlite import SqliteStore
from riverrun.forgetting.store import MemoryStore
from riverrun.runtime.forgetting.stores import note_store, require_same

ANN, BOB = bytes(range(16)), bytes(range(16, 32))


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def stores(request, tmp_path):
    """Makes a store: each call another connection to the same one."""
    one, made = MemoryStore(), []
    postgresql = request.param == "postgresql"
    address = request.getfixturevalue("postgres") if postgresql else ""

    def another():
        file = tmp_path / "keys" / "shop.db"
        made.append(PostgresStore(address, "shop") if postgresql else SqliteStore(file))
        return made[-1]

    yield another if request.param != "memory" else lambda: one
    for each in made:
        each.close()


def test_a_key_is_made_once_and_destroyed_for_good(stores):
    store, other = stores(), stores()
    assert store.secret() == other.secret()
    assert store.find([ANN]) == {}
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda each: each.make([ANN, BOB]), [stores() for _ in range(4)]))
    assert all(each == found[0] for each in found)
    assert store.find([ANN, BOB]) == found[0]
    assert store.destroyed() == 0
    other.destroy(ANN)
    other.destroy(ANN)
    assert store.destroyed() == 1
    assert store.make([ANN, BOB]) == {ANN: None, BOB: found[0][BOB]}
    store.destroy(bytes(16))  # somebody who was never seen
    assert other.find([bytes(16)]) == {bytes(16): None}


def test_what_is_remembered_of_a_key_ends_with_it(stores):
    mine, theirs = Keys(stores()), Keys(stores())
    [sealed] = mine.seal("customer", [("1", "ann@x.org")])
    assert theirs.read([sealed, "plain", None]) == [
        ("ann@x.org", False),
        ("plain", False),
        (None, False),
    ]
    assert mine.seal_alike([("loud", sealed)]) == theirs.seal_alike([("loud", sealed)])
    theirs.forget(theirs.subject("customer", "1"))
    assert mine.read([sealed]) == [(None, True)]
    [after] = mine.seal("customer", [("1", "new@x.org")])
    assert mine.seal_alike([("loud", sealed), (None, sealed)]) == [after, after]
    assert mine.read([after]) == [(None, True)]
    assert len(after) < len(sealed)


def test_no_file_of_the_store_holds_a_key_that_was_destroyed(tmp_path):
    file = tmp_path / "shop.db"
    store, reader = SqliteStore(file), SqliteStore(file)
    made = store.make([bytes([number]) * 16 for number in range(200)])
    assert reader.destroyed() == 0  # somebody has the file open all the time
    gone = {subject: key for subject, key in made.items() if subject[0] % 2}
    assert all(_holds(tmp_path, key) for key in gone.values())
    for subject in gone:
        store.destroy(subject)
    assert not any(_holds(tmp_path, key) for key in gone.values())
    assert Path(f"{file}-wal").stat().st_size == 0
    assert file.stat().st_mode & 0o077 == 0
    assert _holds(tmp_path, made[bytes(16)])


def _holds(folder: Path, key: bytes) -> bool:
    return any(key in path.read_bytes() for path in folder.iterdir())


PROCESS = """
import sys
from pathlib import Path
from riverrun.forgetting.sqlite import SqliteStore
store = SqliteStore(Path(sys.argv[1]))
print(store.make([bytes([number]) * 16 for number in range(250)])[bytes([7]) * 16].hex())
"""


def test_processes_that_begin_together_make_the_same_keys(tmp_path):
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "keys" / "shop.db")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert len({process.communicate()[0] for process in running}) == 1
    assert [process.returncode for process in running] == [0, 0, 0]


@pytest.mark.parametrize("text", ["", "a", "Änne \N{SNOWMAN}", "\ud800", "x" * 5000, "rrp1:", "\0"])
def test_any_text_is_sealed_and_read(text):
    key = bytes(range(64))
    sealed = cipher.sealed(ANN, key, text)
    assert sealed.isascii()
    assert cipher.opened(sealed, key) == text
    assert cipher.subject_in(sealed) == ANN
    assert cipher.opened(sealed, bytes(64)) is None
    for wrong in (sealed[:-1], sealed + "A", sealed.replace("rrp1", "rrp2"), "rrp1:\N{SNOWMAN}"):
        assert cipher.subject_in(wrong) is None or cipher.opened(wrong, key) is None


def test_what_only_looks_sealed_is_sealed():
    keys = Keys(MemoryStore())
    [theirs] = keys.seal("customer", [("2", "bob")])
    given = ["rrp1:AAAA", theirs, "rrp1:" + "A" * 40]
    sealed = keys.seal("customer", [("1", each) for each in given])
    assert not set(sealed) & set(given)
    assert keys.read(sealed) == [(each, False) for each in given]  # as they came, bob's too
    own = keys.seal("customer", [("1", sealed[0])])
    assert keys.read(own) == [(sealed[0], False)]
    where_it_writes = keys.seal("customer", [("1", sealed[0]), ("1", theirs)], again=True)
    assert where_it_writes[0] == sealed[0]
    assert keys.read(where_it_writes)[1] == (theirs, False)
    with pytest.raises(ValueError, match="two subjects"):
        keys.seal_alike([("x", f"{theirs} {sealed[0]}")])


def test_texts_inside_of_texts_are_revealed():
    keys = Keys(MemoryStore())
    ann, bob = keys.seal("customer", [("1", 'Ann "A"'), ("2", "Bob")])
    row = {"data": json.dumps({"email": ann, "n": 1}), "reason": f"{ann} and {bob} meet", "x": bob}
    assert keys.reveal(row).value == {
        "data": json.dumps({"email": 'Ann "A"', "n": 1}), "reason": 'Ann "A" and Bob meet',
        "x": "Bob",
    }  # fmt: skip
    keys.forget(keys.subject("customer", "1"))
    found = keys.reveal(row)
    assert found.forgotten == ["data.email", "reason"]
    assert json.loads(found.value["data"]) == {"email": None, "n": 1}
    assert found.value["reason"] == "(forgotten) and Bob meet"


def test_a_damaged_text_is_not_told_to_be_forgotten():
    keys = Keys(MemoryStore())
    [sealed] = keys.seal("customer", [("1", "ann@x.org")])
    damaged = sealed[:-2] + ("AA" if sealed[-2:] != "AA" else "BB")
    assert keys.read([damaged]) == [(damaged, False)]


@pytest.mark.parametrize("wrong", ["customer/1", b"customer/1", None, 5])
def test_only_what_stands_for_a_subject_can_be_forgotten(wrong):
    with pytest.raises(InputError, match="that stands for no subject"):
        Keys(MemoryStore()).forget(wrong)


@pytest.mark.parametrize("wrong", [(None, "x"), ("1", None), (1, "x")])
def test_only_texts_of_somebody_can_be_sealed(wrong):
    with pytest.raises(InputError, match="that cannot be sealed"):
        Keys(MemoryStore()).seal("customer", [wrong])


def test_a_store_that_cannot_be_opened_is_told_as_such(tmp_path):
    broken, folder = tmp_path / "broken.db", tmp_path / "folder.db"
    broken.write_bytes(bytes(range(256)) * 40)
    folder.mkdir()
    for file in (broken, folder):
        with pytest.raises(DatabaseError, match="the store of keys cannot be opened") as told:
            SqliteStore(file).secret()
        assert str(file) in str(told.value.where)


def test_an_application_runs_with_the_keys_that_it_had(tmp_path):
    mine, other = (KeyPlace("shop", str(tmp_path / name)) for name in ("mine.db", "other.db"))
    folder, told = tmp_path / "checkpoint", []
    note_store(folder, mine, told.append, fresh=False)
    require_same(folder, mine)
    with pytest.raises(ConfigError, match="not those that it had") as missing:
        require_same(folder, other)
    assert missing.value.got == "no store"
    assert not Path(other.address).exists()  # who is refused has made none
    other.store().secret()
    with pytest.raises(ConfigError, match="not those that it had"):
        note_store(folder, other, told.append, fresh=False)
    note_store(folder, mine, told.append, fresh=True)
    assert told == []
    note_store(folder, other, told.append, fresh=True)
    assert len(told) == 1
    require_same(folder, other)


def test_a_store_of_ones_own_is_named_by_its_module(tmp_path, monkeypatch):
    text = "from riverrun.forgetting.store import MemoryStore\n"
    (tmp_path / "company_keys.py").write_text(
        f"{text}def store(app): return MemoryStore()\nx = 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    place = KeyPlace("shop", "python:company_keys:store")
    assert place.there
    assert isinstance(place.store(), MemoryStore)
    for wrong in ("python:company_keys:x", "python:company_keys:y", "python:nowhere:x", "python:"):
        with pytest.raises(ConfigError, match="the store of keys cannot be made"):
            KeyPlace("shop", wrong).store()
    with pytest.raises(ConfigError, match="the store of keys is none"):
        KeyPlace("shop", "python:builtins:list").store()


def test_where_keys_are_is_a_setting(tmp_path):
    settings = config.load(environ={"RIVERRUN_HOME": str(tmp_path)})
    assert place_of(settings, "shop") == KeyPlace("shop", str(tmp_path / "keys" / "shop.db"))
    assert not place_of(settings, "shop").there
    address = "postgresql://user:secret@host/db"
    settings = config.load(environ={"RIVERRUN_HOME": str(tmp_path), "RIVERRUN_KEYS": address})
    place = place_of(settings, "shop")
    assert "secret" not in f"{place} {place.text} {settings}"
    with pytest.raises(ConfigError, match="keys cannot be kept there"):
        config.load(environ={"RIVERRUN_HOME": str(tmp_path), "RIVERRUN_KEYS": "mysql://x"})
    with pytest.raises(InputError):
        place_of(settings, "../x")
