"""What a capture makes of PostgreSQL's log, without a server: messages, values, envelopes, columns
that change, and pieces of snapshots between changes."""

from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from riverrun.capture.address import name_of, shown, slot_of, without_secrets
from riverrun.capture.catalog import Column, duck_type
from riverrun.capture.chunks import Piece
from riverrun.capture.envelopes import CapturedTable, Envelopes, Out, RowWriter, Transaction
from riverrun.capture.evolution import Changed, evolved, key_after
from riverrun.capture.pgoutput import (
    UNCHANGED,
    Begin,
    Commit,
    Delete,
    Insert,
    Note,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    decoded,
    lsn_of,
    lsn_text,
)
from riverrun.capture.seen import Seen
from riverrun.capture.server import SlotFacts
from riverrun.capture.values import Kind, writer


def tuple_of(*cells: str | bytes | None) -> bytes:
    found = struct.pack("!H", len(cells))
    for cell in cells:
        if isinstance(cell, str):
            found += b"t" + struct.pack("!I", len(cell.encode())) + cell.encode()
        else:
            found += b"n" if cell is None else b"u"
    return found


def test_each_message_of_the_log_is_read():
    oid = struct.pack("!I", 7)
    columns = b"\1id\0" + struct.pack("!Ii", 20, -1) + b"\0name\0" + struct.pack("!Ii", 25, -1)
    messages = {
        b"B" + struct.pack("!qqI", 99, 5, 3): Begin(99, 946_684_800_000_005, 3),
        b"C\0" + struct.pack("!qqq", 99, 120, 5): Commit(120),
        b"R" + oid + b"public\0users\0d" + struct.pack("!H", 2) + columns: Relation(
            7, "public", "users", "d", (RelationColumn("id", 20, True), RelationColumn("name", 25))
        ),
        b"I" + oid + b"N" + tuple_of("1", "Zoë"): Insert(7, ("1", "Zoë")),
        b"U" + oid + b"N" + tuple_of("1", b""): Update(7, ("1", UNCHANGED), None),
        b"U" + oid + b"K" + tuple_of("1", None) + b"N" + tuple_of("2", "b"): Update(
            7, ("2", "b"), ("1", None)
        ),
        b"U" + oid + b"O" + tuple_of("1", "a") + b"N" + tuple_of("1", "b"): Update(
            7, ("1", "b"), ("1", "a")
        ),
        b"D" + oid + b"K" + tuple_of("1", None): Delete(7, ("1", None)),
        b"T" + struct.pack("!IBII", 2, 0, 7, 8): Truncate((7, 8)),
        b"M\1" + struct.pack("!q", 9) + b"riverrun\0" + struct.pack("!I", 2) + b"ab": Note(
            "riverrun", b"ab"
        ),
        b"Y" + oid: None,
    }
    for data, wanted in messages.items():
        assert decoded(data) == wanted
    with pytest.raises(ValueError, match="no message"):
        decoded(b"?")
    assert lsn_of(lsn_text(0x16_0000_B374)) == 0x16_0000_B374


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (Kind("boolean"), "t", True),
        (Kind("number"), "-9223372036854775808", -(2**63)),
        (Kind("float"), "1e+300", 1e300),
        (Kind("float"), "NaN", "NaN"),
        (Kind("float"), "-Infinity", "-Infinity"),
        (Kind("text"), "12.340", "12.340"),
        (Kind("text"), 'a "quoted"\n\\ Zoë', 'a "quoted"\n\\ Zoë'),
        (Kind("timestamp"), "2026-01-01 12:00:00.000005", "2026-01-01T12:00:00.000005Z"),
        (Kind("timestamp"), "2026-01-01 12:00:00+00", "2026-01-01T12:00:00Z"),
        (Kind("timestamp"), "infinity", "infinity"),
        (Kind("timestamp"), "0044-03-15 00:00:00 BC", "0044-03-15 00:00:00 BC"),
        (Kind("bytes"), "\\x0102", "AQI="),
        (Kind("number", array=True), "{1,NULL,3}", [1, None, 3]),
        (Kind("number", array=True), "[0:1]={1,2}", [1, 2]),
        (Kind("number", array=True), "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (Kind("text", array=True), "{}", []),
        (Kind("text", array=True), '{"a,\\"b\\\\","NULL",NULL,c d}',
         ['a,"b\\', "NULL", None, "c d"]),
        (Kind("bytes", array=True), '{"\\\\x01"}', ["AQ=="]),
        (Kind("text", array=True, delimiter=";"), "{(1,1),(0,0);(2,2),(1,1)}",
         ["(1,1),(0,0)", "(2,2),(1,1)"]),
    ],
)  # fmt: skip
def test_values_are_written_as_the_format_reads_them(kind, value, written):
    assert json.loads(writer(kind)(value)) == written


@given(
    st.lists(st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", codec="utf-8"))))
)
def test_arrays_of_any_text_come_back(items):
    """As PostgreSQL writes them: quoted where needed."""
    shown = [
        "NULL" if each is None else '"' + each.replace("\\", "\\\\").replace('"', '\\"') + '"'
        for each in items
    ]
    assert json.loads(writer(Kind("text", array=True))(f"{{{','.join(shown)}}}")) == items


def table(*, whole: bool = False, loaded: bool = True) -> CapturedTable:
    columns = [("id", Kind("number")), ("name", Kind("text")), ("raw", Kind("bytes"))]
    rows = RowWriter(columns, ["id"])
    return CapturedTable("public", "users", "pg.public.users", 2, rows, whole, loaded)


def told(message, captured: CapturedTable) -> list[tuple[str | None, str | None, object, object]]:
    envelopes = Envelopes("pg", "shop", lambda _, cells, xid: (*cells[:2], "\\x07"))
    within = Transaction(9, 100, 5)
    found = []
    for out in envelopes.change(message, captured, within, 50):
        value = json.loads(out.value) if out.value else {}
        found.append((out.key, value.get("op"), value.get("before"), value.get("after")))
    return found


def test_changes_become_envelopes_and_tombstones():
    one, two = {"id": 1, "name": "a", "raw": "AQ=="}, {"id": 2, "name": "b", "raw": None}
    gone = {"id": 1, "name": None, "raw": None}
    new = ("1", "a", "\\x01")
    plain, whole = table(), table(whole=True)
    assert told(Insert(7, new), plain) == [('{"id":1}', "c", None, one)]
    assert told(Update(7, new, None), plain) == [('{"id":1}', "u", None, one)]
    assert told(Delete(7, ("1", None, None)), plain) == [
        ('{"id":1}', "d", gone, None), ('{"id":1}', None, None, None)
    ]  # fmt: skip
    assert told(Update(7, ("2", "b", None), ("1", None, None)), plain) == [
        ('{"id":1}', "d", gone, None), ('{"id":1}', None, None, None), ('{"id":2}', "c", None, two)
    ]  # fmt: skip
    assert told(Update(7, ("1", "b", UNCHANGED), new), whole) == [
        ('{"id":1}', "u", one, {**one, "name": "b"})
    ]


def test_large_values_that_stayed_are_left_out_where_the_row_is_known_and_fetched_where_not():
    update = Update(7, ("1", "b", UNCHANGED), None)
    placeholder = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    [(_, _, _, after)] = told(update, table())
    assert after == {"id": 1, "name": "b", "raw": placeholder}
    [(_, _, _, after)] = told(update, table(loaded=False))
    assert after == {"id": 1, "name": "b", "raw": "Bw=="}
    moved = told(Update(7, ("2", "b", UNCHANGED), ("1", None, None)), table())
    assert moved[-1][3] == {"id": 2, "name": "b", "raw": "Bw=="}


def test_a_large_key_that_stayed_is_taken_from_the_row_before():
    rows = RowWriter([("k", Kind("text")), ("v", Kind("number"))], ["k"])
    captured = CapturedTable("public", "users", "pg.public.users", 2, rows, False, True)
    update = Update(7, (UNCHANGED, "2"), ("long", None))
    assert told(update, captured) == [('{"k":"long"}', "u", None, {"k": "long", "v": 2})]


def test_a_transaction_counts_its_envelopes():
    envelopes, within = (
        Envelopes("pg", "shop", lambda _, cells, xid: cells),
        Transaction(9, 100, 5000),
    )
    list(envelopes.change(Insert(7, ("1", "a", None)), table(), within, 50))
    moved = list(
        envelopes.change(Update(7, ("2", "a", None), ("1", None, None)), table(), within, 51)
    )
    orders = [json.loads(out.value)["transaction"] for out in moved if out.value]
    assert [each["total_order"] for each in orders] == [2, 3]
    assert {each["id"] for each in orders} == {"9-100"}
    truncated = list(envelopes.truncated(table(), within, 52))
    assert [(out.key, out.partition) for out in truncated] == [("{}", 0), ("{}", 1)]
    assert json.loads(envelopes.ended(within).value or "") == {
        "status": "END", "id": "9-100", "event_count": 5, "ts_ms": 5,
        "data_collections": [{"data_collection": "public.users", "event_count": 5}],
    }  # fmt: skip


def test_a_piece_that_has_seen_a_later_transaction_but_not_an_earlier_one_is_read_again():
    """Topics have their transactions in the order of the log."""
    piece = Piece("public.users", (), (), Seen.of("5:8:6"), [])
    for xid in (5, 7):
        piece.hold(xid, [])
    assert piece.cuts()
    piece.hold(6, [])  # the last, and not seen
    assert piece.cuts()
    piece.hold(7, [])
    assert not piece.cuts()


ID, NAME, BIO = Column(1, "id", 20), Column(2, "name", 25), Column(3, "bio", 25)
KNOWN = (ID, NAME, BIO)


def relation(*columns: str, types: dict[str, int] | None = None) -> Relation:
    types = {"id": 20, **(types or {})}
    made = tuple(RelationColumn(name, types.get(name, 25), name == "id") for name in columns)
    return Relation(7, "public", "users", "d", made)


def now(*columns: Column) -> dict[int, Column]:
    return {column.number: column for column in columns}


def test_columns_that_come_and_go_flow_on():
    mail = Column(4, "mail", 25)
    assert evolved(KNOWN, relation("id", "name", "bio", "mail"), now(*KNOWN, mail)) == (
        *KNOWN,
        mail,
    )
    assert evolved(KNOWN, relation("id", "bio"), now(ID, BIO)) == (ID, BIO)
    assert evolved(KNOWN, relation("id", "name", "mail"), now(ID, NAME, mail)) == (ID, NAME, mail)
    # the log is behind: what it tells of was dropped since
    assert evolved(KNOWN, relation("id", "name", "bio", "mail"), now(*KNOWN)) == (*KNOWN, mail)
    # dropped and made again with another type: another column
    again = Column(4, "bio", 20)
    other = relation("id", "name", "bio", types={"bio": 20})
    assert evolved(KNOWN, other, now(ID, NAME, again)) == (ID, NAME, again)


@pytest.mark.parametrize("place", [1, 2])
def test_a_renamed_column_is_refused_and_goes_on_when_it_has_its_name_back(place):
    columns = [each.name for each in KNOWN]
    columns[place] = "other"
    renamed = [*KNOWN]
    renamed[place] = Column(KNOWN[place].number, "other", 25)
    with pytest.raises(Changed, match="was renamed") as found:
        evolved(KNOWN, relation(*columns), now(*renamed))
    assert "RENAME other TO" in str(found.value)
    assert evolved(KNOWN, relation(*columns), now(*KNOWN)) == KNOWN
    assert evolved(KNOWN, relation(*columns), now(*renamed), accepted=True) == tuple(renamed)


def test_two_columns_that_swap_their_names_are_refused():
    swapped = now(ID, Column(2, "bio", 25), Column(3, "name", 25))
    with pytest.raises(Changed, match="was renamed"):
        evolved(KNOWN, relation("id", "bio", "name"), swapped)
    assert evolved(KNOWN, relation("id", "bio", "name"), now(*KNOWN)) == KNOWN


def test_a_column_that_was_renamed_and_then_dropped_is_not_taken_for_its_neighbour():
    with pytest.raises(Changed, match="was renamed"):
        evolved(KNOWN, relation("id", "other", "bio"), now(ID, BIO))


def test_another_type_is_refused_and_so_is_another_key():
    with pytest.raises(Changed, match="another type"):
        evolved(
            KNOWN,
            relation("id", "name", "bio", types={"name": 20}),
            now(ID, Column(2, "name", 20), BIO),
        )
    assert key_after(["id"], KNOWN, KNOWN, relation("id", "name", "bio")) == ("id",)
    other = Relation(
        7, "public", "users", "d", (RelationColumn("id", 20), RelationColumn("name", 25, True))
    )
    with pytest.raises(Changed, match="another key"):
        key_after(["id"], (ID, NAME), (ID, NAME), other)


def test_a_snapshot_knows_which_transactions_it_has_seen():
    seen = Seen.of("100:110:100,105")
    assert [xid for xid in range(98, 113) if seen.has(xid)] == [
        98,
        99,
        *range(101, 105),
        *range(106, 110),
    ]
    assert Seen.of("100:110:").has(109)
    wrapped = Seen.of(f"{2**32 - 5}:{2**32 + 5}:")
    assert wrapped.has(2**32 - 1)
    assert wrapped.has(4)
    assert not wrapped.has(5)


def test_a_piece_stands_between_what_it_has_seen_and_what_it_has_not():
    piece = Piece("public.users", KNOWN, KNOWN, Seen.of("10:12:10"), [])
    for xid in (9, 11, 10, 12):
        piece.hold(xid, [Out("t", str(xid), None)])
    found = [out.key for out in piece.in_order(iter([Out("t", "piece", None)]))]
    assert found == ["9", "11", "piece", "10", "12"]
    assert piece.cuts()


def test_addresses_are_shown_without_secrets():
    url = "postgresql://ann:s3cret@db.example:5433/Shop-1?sslmode=require"
    assert shown(url) == "postgresql://ann@db.example:5433/Shop-1"
    assert (name_of(url), slot_of("Shop-1")) == ("shop_1", "riverrun_shop_1")
    assert "s3cret" not in without_secrets("no s3cret here", url)


def test_a_slot_warns_before_the_disk_is_full():
    keeps = SlotFacts(True, "reserved", 0, 1 << 20, None)
    assert keeps.warning is None
    assert "disk may fill" in str(SlotFacts(True, "extended", 0, 3 << 30, None).warning)
    assert "gives the slot up" in str(SlotFacts(True, "extended", 0, 2 << 30, 1 << 20).warning)
    assert "lost" in str(SlotFacts(False, "lost", 0, 0, None).warning)


def test_types_of_the_database_are_those_of_records():
    found = {
        "bigint": "BIGINT", "text": "VARCHAR", "numeric(9,2)": "DECIMAL(9,2)", "bytea": "VARCHAR",
        "timestamp with time zone": "TIMESTAMP", "uuid": "VARCHAR", "integer[]": "INTEGER[]",
        "jsonb": "JSON", "jsonb[]": "VARCHAR[]", "numeric": "VARCHAR", "interval": "VARCHAR",
        "character varying(20)": "VARCHAR", "date": "DATE", "bytea[]": "VARCHAR[]",
    }  # fmt: skip
    assert {type: duck_type(type) for type in found} == found
