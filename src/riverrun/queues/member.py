"""A worker's side of a share group: a thread that fetches what is asked for, keeps the locks of
what is in hand, and tells the broker what has become of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Condition, Thread

from confluent_kafka import KafkaError

from riverrun.errors import BrokerError, RiverrunError
from riverrun.kafka.cluster import Cluster, Led
from riverrun.kafka.connection import ConnectionGone
from riverrun.kafka.nodes import Node
from riverrun.kafka.requests import RELEASE, RENEW
from riverrun.queues.deliveries import Delivery, Settlement
from riverrun.queues.membership import Membership
from riverrun.queues.session import Acknowledged, Answer, Session

OUTAGE = 120.0
"""Seconds that brokers may be away."""
REST = 0.1
WAITING, BUSY = 0.5, 0.05
"""Seconds that a fetch waits for records: what is done meanwhile is told late."""
PER_LOCK = 3
"""How often a lock is renewed before it runs out."""
LAST_LOOK, GOODBYE = 0.01, 10.0
"""Seconds to tell the broker what is done, when all is over."""


class Member:
    """Fetches records for whoever asks, in any thread, and settles them."""

    def __init__(
        self, client: Mapping[str, str], group: str, topic: str, *, longest: float, ahead: int = 0
    ) -> None:
        """`longest` are the seconds that a lock is renewed for; `ahead` how many records are locked
        before they are asked for."""
        self.longest, self.ahead = longest, ahead
        self.failure: RiverrunError | None = None
        self.renewed = 0
        self.joined_at: float | None = None
        """When we first had a partition to read."""
        self._cluster = Cluster(client)
        self._membership = Membership(self._cluster, group, topic)
        self._sessions: dict[Node, Session] = {}
        self._led: Led | None = None
        self._moved = False
        """Who leads what has to be asked again."""
        self._away_since: float | None = None
        self._changed = Condition()
        self._closing = False
        self._asking: deque[Future[Delivery]] = deque()
        self._ready: deque[Delivery] = deque()
        self._held: set[Delivery] = set()
        self._settling: list[Settlement] = []
        self._thread = Thread(target=self._run, name=f"queue {topic}", daemon=True)
        self._thread.start()

    def request(self) -> Future[Delivery]:
        """The next record; who no longer wants it cancels."""
        future: Future[Delivery] = Future()
        with self._changed:
            self._check()
            self._asking.append(future)
            self._hand_out([])
            self._changed.notify()
        return future

    def settle(self, delivery: Delivery, kind: int, *, after: float = 0.0) -> Future[bool]:
        """Says what has become of a record, after so many seconds; it stays locked until then."""
        made = Settlement(delivery, kind, time.monotonic() + after if after else 0.0)
        with self._changed:
            if self.failure is not None or self._closing:
                made.answered(False)
            else:
                self._settling.append(made)
                self._changed.notify()
        return made.answer

    def close(self) -> None:
        """What was settled is told, the rest is released."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._closing:
            raise BrokerError("the queue is closed")

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
            self._say_goodbye()
        except RiverrunError as error:
            self.failure = error
        except Exception as error:  # a thread of its own: whoever waits has to hear of it
            self.failure = BrokerError(
                "the queue has failed", got=f"{type(error).__name__}: {error}"
            )
        finally:
            self._cluster.close()
            self._end()

    def _turn(self, *, fetching: bool = True) -> None:
        busy = False
        self._expire()
        try:
            self._membership.beat()
            if self._membership.partitions:
                self.joined_at = self.joined_at or time.monotonic()
            for session, partitions in self._led_by():
                busy = self._exchange(session, partitions, fetching) or busy
            self._away_since = None
        except ConnectionGone as error:
            self._moved = True
            self._away(error)
        if not busy:
            with self._changed:
                if not self._closing:
                    self._changed.wait(REST)

    def _led_by(self) -> Iterator[tuple[Session, frozenset[int]]]:
        """Sessions with the leaders of all partitions, once one is assigned to us. The others are
        those of workers that may be dead: the group notices that after 45 seconds only."""
        assigned = self._membership.partitions
        if not assigned:
            return
        if self._led is None or self._moved or not assigned <= self._led.leaders.keys():
            self._led, self._moved = self._cluster.led(self._membership.topic), False
        leaders = self._led.leaders
        for node in set(leaders.values()):
            if node not in self._sessions:
                self._sessions[node] = Session(self._cluster, node, self._membership)
            own = frozenset(number for number, leader in leaders.items() if leader == node)
            yield self._sessions[node], own

    def _exchange(self, session: Session, partitions: frozenset[int], fetching: bool) -> bool:
        """Whether there was something to ask this broker."""
        due = self._due(session.node)
        wanted = self._wanted() if fetching and partitions else 0
        if session.open:
            self._renew(session, {each.delivery for each in due})
        elif due and partitions:
            wanted = max(wanted, 1)  # a session is opened by fetching
        if wanted:
            wait = BUSY if self._held else WAITING / len(self._sessions)
            was_open = session.open
            answer = session.fetch(partitions, wanted, wait, [_told(each) for each in due])
            self._hand_out(answer.deliveries)
            self._moved = self._moved or answer.moved
            if was_open:
                self._answered(session, due, answer)
            return not answer.moved
        if due and session.open:
            self._answered(session, due, session.acknowledge([_told(each) for each in due]))
            return True
        return False

    def _due(self, node: Node) -> list[Settlement]:
        assert self._led is not None
        leaders, now = self._led.leaders, time.monotonic()
        with self._changed:
            return [
                each
                for each in self._settling
                if (each.due_at <= now or self._closing)
                and leaders.get(each.delivery.partition.number) == node
            ]

    def _wanted(self) -> int:
        with self._changed:
            self._asking = deque(each for each in self._asking if not each.cancelled())
            return max(len(self._asking) + self.ahead - len(self._ready), 0)

    def _answered(self, session: Session, due: list[Settlement], answer: Answer) -> None:
        """A partition refuses all that it was told if one lock had run out: then each is told
        alone."""
        by_partition: dict[int, list[Settlement]] = {}
        for each in due:
            by_partition.setdefault(each.delivery.partition.number, []).append(each)
        for number, settled in by_partition.items():
            code = answer.refused.get(number, 0)
            if code == KafkaError.INVALID_RECORD_STATE and len(settled) > 1:
                for each in settled:
                    self._answered(session, [each], session.acknowledge([_told(each)]))
            elif code in (0, KafkaError.INVALID_RECORD_STATE):
                for each in settled:
                    self._settled(each, taken=not code)
            else:
                self._moved = True  # another broker leads it: told again

    def _settled(self, settlement: Settlement, *, taken: bool) -> None:
        """What the broker says of a lock that has run out is no proof: of a record that another has
        settled meanwhile, and all before it, it takes everything."""
        delivery = settlement.delivery
        delivery.lost = delivery.lost or not taken or not delivery.left
        with self._changed:
            self._settling.remove(settlement)
            self._held.discard(settlement.delivery)
        settlement.answered(not delivery.lost)

    def _renew(self, session: Session, settled: set[Delivery]) -> None:
        assert self._led is not None
        leaders, now = self._led.leaders, time.monotonic()
        due = [
            each
            for each in [*self._held]
            if now - each.renewed_at > each.lock / PER_LOCK
            and now - each.taken_at < self.longest
            and leaders.get(each.partition.number) == session.node
            and not each.lost
            and each not in settled
        ]
        refused = session.acknowledge([_renewed(each) for each in due]).refused if due else {}
        for each in due:
            code = refused.get(each.partition.number, 0)
            if code == KafkaError.INVALID_RECORD_STATE:  # of one of them: each is asked for alone
                code = session.acknowledge([_renewed(each)]).refused.get(each.partition.number, 0)
                each.lost = code == KafkaError.INVALID_RECORD_STATE
            if not each.left:  # of a record that others have settled the broker renews anything
                each.lost = True
            elif not code:
                each.renewed_at, self.renewed = now, self.renewed + 1

    def _hand_out(self, deliveries: list[Delivery]) -> None:
        """To those who ask, in their order. What was locked too long ago, since we were frozen, is
        nobody's."""
        with self._changed:
            self._held.update(deliveries)
            self._ready.extend(deliveries)
            while self._ready and self._asking:
                delivery = self._ready.popleft()
                if delivery.lost or not delivery.left:
                    self._held.discard(delivery)
                elif not self._given(delivery):
                    self._ready.appendleft(delivery)

    def _given(self, delivery: Delivery) -> bool:
        while self._asking:
            future = self._asking.popleft()
            if future.set_running_or_notify_cancel():
                future.set_result(delivery)
                return True
        return False

    def _expire(self) -> None:
        """What nobody has asked for is given back; what was locked too long ago is lost."""
        with self._changed:
            stale = [
                each
                for each in self._ready
                if time.monotonic() - each.taken_at > each.lock / 2 and not self._asking
            ]
            for each in stale:
                self._ready.remove(each)
                self._settling.append(Settlement(each, RELEASE))
            late = [each for each in self._settling if not each.delivery.left]
        for settlement in late:  # the broker is not told: the record may be ours again
            self._settled(settlement, taken=False)
        for each in [*self._held]:
            each.lost = each.lost or not each.left

    def _away(self, error: ConnectionGone) -> None:
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > OUTAGE:
            raise error

    def _say_goodbye(self) -> None:
        give_up_at = time.monotonic() + GOODBYE
        while self._settling and time.monotonic() < give_up_at:
            self._turn(fetching=False)
            time.sleep(LAST_LOOK)
        with suppress(RiverrunError):
            for session in self._sessions.values():
                session.close()
            self._membership.leave()

    def _end(self) -> None:
        with self._changed:
            self._closing = True
            asking, settling = self._asking, self._settling
            self._asking, self._settling = deque(), []
            failure = self.failure or BrokerError("the queue is closed")
        for future in asking:
            if future.set_running_or_notify_cancel():
                future.set_exception(failure)
        for settlement in settling:
            settlement.delivery.lost = True
            settlement.answered(False)


def _renewed(delivery: Delivery) -> Acknowledged:
    return Acknowledged(delivery.partition.number, delivery.record.offset, RENEW)


def _told(settlement: Settlement) -> Acknowledged:
    delivery = settlement.delivery
    return Acknowledged(delivery.partition.number, delivery.record.offset, settlement.kind)
