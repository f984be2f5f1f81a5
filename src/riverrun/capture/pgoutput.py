"""What PostgreSQL's log says, as its plug-in `pgoutput` writes it: bytes to messages.

Values stay text, as the database writes them; `values.py` knows what they mean.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000, where PostgreSQL's time begins."""

Cell = str | bytes | None
"""A value as text; None for null; UNCHANGED for a large value that the log does not carry."""
UNCHANGED = b"unchanged"
Cells = tuple[Cell, ...]


class Begin(NamedTuple):
    commit_lsn: int
    at: int
    """When it was committed, in microseconds since 1970."""
    xid: int


class Commit(NamedTuple):
    end_lsn: int


class RelationColumn(NamedTuple):
    name: str
    type: int
    """The object id of its type."""
    key: bool = False
    """Whether it tells rows apart; with the identity `f`, all do."""


class Relation(NamedTuple):
    """How a table looks from here on in the log."""

    oid: int
    schema: str
    table: str
    identity: str
    """`f` if changes carry the whole row as it was before."""
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    oid: int
    new: Cells


class Update(NamedTuple):
    oid: int
    new: Cells
    old: Cells | None
    """The row before the change, or its key with nulls beside it; None if the key stayed."""


class Delete(NamedTuple):
    oid: int
    old: Cells


class Truncate(NamedTuple):
    oids: tuple[int, ...]


class Note(NamedTuple):
    """What somebody wrote into the log with `pg_logical_emit_message`."""

    prefix: str
    content: bytes


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate | Note

_BEGIN = struct.Struct("!qqI")
_COMMIT = struct.Struct("!Bqqq")
_INT = struct.Struct("!I")
_SHORT = struct.Struct("!H")
_NOTE = struct.Struct("!Bq")


def decoded(data: bytes) -> Message | None:
    """The message; None for one that says nothing of rows."""
    match data[:1]:
        case b"I":
            return Insert(_INT.unpack_from(data, 1)[0], _cells(data, 6)[0])
        case b"U":
            return _update(data)
        case b"D":
            return Delete(_INT.unpack_from(data, 1)[0], _cells(data, 6)[0])
        case b"B":
            lsn, at, xid = _BEGIN.unpack_from(data, 1)
            return Begin(lsn, at + EPOCH, xid)
        case b"C":
            return Commit(_COMMIT.unpack_from(data, 1)[2])
        case b"R":
            return _relation(data)
        case b"T":
            count = _INT.unpack_from(data, 1)[0]
            return Truncate(struct.unpack_from(f"!{count}I", data, 6))
        case b"M":
            return _note(data)
        case b"Y" | b"O":  # names of types, and origins
            return None
        case _:
            raise ValueError(f"pgoutput has no message {data[:1]!r}")


def _update(data: bytes) -> Update:
    oid = _INT.unpack_from(data, 1)[0]
    old: Cells | None = None
    place = 6
    if data[5:6] in (b"K", b"O"):
        old, place = _cells(data, place)
        place += 1  # the N before the new row
    return Update(oid, _cells(data, place)[0], old)


def _cells(data: bytes, place: int) -> tuple[Cells, int]:
    count = _SHORT.unpack_from(data, place)[0]
    place += 2
    found: list[Cell] = []
    for _ in range(count):
        kind = data[place]
        place += 1
        if kind == 0x74:  # t: text
            end = place + 4 + _INT.unpack_from(data, place)[0]
            found.append(data[place + 4 : end].decode())
            place = end
        elif kind == 0x6E:  # n: null
            found.append(None)
        elif kind == 0x75:  # u: unchanged
            found.append(UNCHANGED)
        else:
            raise ValueError(f"pgoutput has no kind of value {chr(kind)!r}")
    return tuple(found), place


def _relation(data: bytes) -> Relation:
    oid = _INT.unpack_from(data, 1)[0]
    schema, place = _text(data, 5)
    table, place = _text(data, place)
    identity, count = chr(data[place]), _SHORT.unpack_from(data, place + 1)[0]
    place += 3
    columns = []
    for _ in range(count):
        key = data[place] == 1
        name, place = _text(data, place + 1)
        columns.append(RelationColumn(name, _INT.unpack_from(data, place)[0], key))
        place += 8
    return Relation(oid, schema, table, identity, tuple(columns))


def _note(data: bytes) -> Note:
    prefix, place = _text(data, 1 + _NOTE.size)
    size = _INT.unpack_from(data, place)[0]
    return Note(prefix, data[place + 4 : place + 4 + size])


def _text(data: bytes, place: int) -> tuple[str, int]:
    end = data.index(b"\0", place)
    return data[place:end].decode(), end + 1


def lsn_text(lsn: int) -> str:
    """`0/16B3748`, as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
