"""The hidden columns: what rows carry beside what the program declares. All start with `__`.

Rows travel in one of three forms, told by the edge they are on, never by looking at them:

    facts       PLACE                       rows of a stream
    changes     OP, REVISION                rows of a table that come and go
    versions    PLACE, GONE                 what a table is told, one row per record

On its way into a step a row gets SLOT and HASH, and what the step adds in its entry. What kernels
use only within one visit is named where it is used.
"""

from __future__ import annotations

from typing import Literal

RowForm = Literal["facts", "changes", "versions"]

AT = "__at"
"""When the event happened (TIMESTAMP)."""
POS = "__pos"
"""The record that a row came from: source, partition and offset in one number. Negative for rows
that came from none: timers, and changes as facts."""
SUB = "__sub"
"""Which row of the record it is."""
PLACE = (AT, POS, SUB)
"""The canonical order of facts."""

OP = "__op"
"""1: the row is there now; -1: it is no more."""
REVISION = "__revision"
"""How often the row of this key was corrected."""
CHANGE = (OP, REVISION)

GONE = "__gone"
"""Of a version: whether it says that the row is deleted."""
TRUNCATED = "__truncated"
"""Of a change in a captured table: whether it deletes all rows. Null of a record without a value,
which has no time but that of the record."""
BEFORE = "__before"
"""Of an update in a captured table: the row before it, if its source says it."""
VERSION = (*PLACE, GONE)

HIDDEN: dict[RowForm, tuple[str, ...]] = {"facts": PLACE, "changes": CHANGE, "versions": VERSION}

SLOT = "__slot"
"""The piece of time that a row of state is kept under: state is sorted by it, then by hash. Each
operator says what it is: the pane of a window, a bucket of time, or 0 where time plays no part."""
HASH = "__hash"
"""The xxhash of the key's text: tells the page, and finds rows in state."""
TIME = "__time"
"""When the event happened, in microseconds: what rows without a window are judged by."""
ROW = "__row"
"""The row as it entered, packed, where it may turn out to be late."""
ROWS = "__rows"
"""How many rows a part stands for; it is counted, and does not travel."""

UNTIL = "__until"
"""Of a row of state: when it ends, if that is not told by its slot."""
DEAD = "__dead"
"""Of a row of state: it marks that the one it replaces is gone."""

CAUSE, AHEAD = "__cause", "__ahead"
"""Why a record cannot be read, and by how much its time is beyond belief; null where all is well.
Such records leave as dead letters before any row is made of them."""
PRODUCER = "__producer"
"""Who made the record, where time is kept per producer."""
HEADERS = "__headers"
"""The headers of the record to be written."""

EVENT = "event"
"""The one visible column that riverrun adds itself: it tells one row of a stream from all others,
where a table is made of them."""
