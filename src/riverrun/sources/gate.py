"""What a planner does for a promotion: it says where it stands, names X, and goes up to X."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from riverrun import private
from riverrun.kafka.promotions import PromotionLog
from riverrun.kafka.topics import OUTAGE
from riverrun.promotion import FROM, PARKED, Noted, Promotion, Turn, ahead_of
from riverrun.sources.admission import Ends
from riverrun.versions import Version

LOOK_AGAIN = 5.0
"""Seconds between looks at whether there is a log."""
SWITCH = "switch.json"
"""The file of a job's status folder that says that it is to change its places: all up to X is
committed."""


@dataclass(frozen=True)
class Limit:
    """How far batches may go while a promotion is open."""

    turn: Turn
    promotion: Promotion

    def holds(self, standing: Ends) -> bool:
        """Whether nothing is to be planned. At X not even time may pass: what it makes would be
        public of one version and not of the other, or of both."""
        return self.turn == "wait" or self.promotion.reached(standing)

    def limited(self, begin: Ends, ends: Ends) -> Ends:
        """A batch does not cross X."""
        limit = self.promotion.limit
        return {p: max(min(end, limit(p)), begin[p]) for p, end in ends.items()}


class Gate:
    def __init__(self, log: PromotionLog, version: Version, note: Path) -> None:
        self.log, self.version, self.note = log, version, note
        self.looked_at = 0.0

    @staticmethod
    def of(client: Mapping[str, str], version: Version, folder: Path) -> Gate:
        log = PromotionLog(client, version.of, patience=OUTAGE)
        return Gate(log, version, folder / SWITCH)

    def limit(self, standing: Ends) -> Limit | None:
        """`standing` is where all that is planned ends, and it is committed. None: there is no
        promotion that the version has a part in."""
        if not self._there():
            return None
        known = self.log.look()
        while (turn := known.turn(self.version.name)) in ("park", "point"):
            assert known.open is not None
            number, parked = known.open.number, known.open.parked
            if turn == "park":
                known = self.log.note(Noted(0, PARKED, number, at=ahead_of(standing, {})))
            else:
                at = ahead_of(standing, parked or {})
                known = self.log.note(Noted(0, FROM, number, at=at))
        if turn is None or known.open is None:
            return None
        if turn == "switch" and known.open.reached(standing):
            private.replace(self.note, json.dumps({"number": known.open.number}))
        return Limit(turn, known.open)

    def _there(self) -> bool:
        if not self.log.there and time.monotonic() > self.looked_at + LOOK_AGAIN:
            self.looked_at = time.monotonic()
            self.log.exists()
        return self.log.there
