"""Notifications that wait to be sent by one channel, while its receiver is there or away."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from riverrun import exact
from riverrun.alerts.sending import Note, Sender
from riverrun.sinks.webhooks import Refusal

LONGEST_WAIT = 30.0
"""Seconds between two tries."""
DOUBLED = 5
"""So often the wait is doubled, from a second on."""


@dataclass(frozen=True)
class Waiting:
    """A notification, and its place in the outbox."""

    partition: int
    offset: int
    note: Note


@dataclass
class Queue:
    """Sends one after the other. When a try has failed, only the newest of each group waits."""

    sender: Sender
    keys: tuple[str, ...]
    """The columns of groups."""
    tell: Callable[[str], None]
    aside: Callable[[Note, Refusal], None]
    """Takes what nobody will ever take."""

    def __post_init__(self) -> None:
        self.waiting: list[Waiting] = []
        self.failed = 0
        """Tries since somebody has answered."""
        self.next_try = 0.0

    def add(self, *several: Waiting) -> None:
        self.waiting += several
        if self.failed:
            self.waiting = newest(self.waiting, self.keys)

    def send(self, clock: Callable[[], float], taken: Callable[[], None]) -> None:
        """As much as is taken by now; `taken` is called after each."""
        while self.waiting and clock() >= self.next_try:
            refusal = self._sent(self.waiting[0].note)
            if refusal is not None and refusal.again:
                self._away(refusal, clock())
                return
            if refusal is not None:
                self.aside(self.waiting[0].note, refusal)
            if self.failed:
                self.failed, self.next_try = 0, 0.0
                self.tell("over: alerts arrive again")
            self.waiting.pop(0)
            taken()

    def _sent(self, note: Note) -> Refusal | None:
        try:
            return self.sender.send(note)
        except Exception as error:
            # whatever is wrong with one of them, the others are to arrive
            return Refusal(f"{type(error).__name__}: {error}"[:200], again=False)

    def _away(self, refusal: Refusal, now: float) -> None:
        if self.failed == 0:
            self.tell(f"warning: alerts wait: {refusal.cause}")
        self.next_try = now + min(2.0 ** min(self.failed, DOUBLED), LONGEST_WAIT)
        self.failed += 1
        self.waiting = newest(self.waiting, self.keys)


def newest(waiting: Sequence[Waiting], keys: Sequence[str]) -> list[Waiting]:
    """Of each group the last notification, in the order of these."""
    found: dict[str, Waiting] = {}
    for each in waiting:
        group = exact.dumps([each.note.get(name) for name in keys])
        found.pop(group, None)
        found[group] = each
    return list(found.values())
