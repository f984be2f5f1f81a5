"""Taking records without a Python object for each: librdkafka's own functions, called by ctypes.

librdkafka hands out arrays of pointers to messages. numpy reads the fields of all of them through
one view of the address space; Arrow's binary_view, which may point anywhere, copies keys and
values. The library is the one inside confluent_kafka's wheel: it keeps doing TLS, SASL, leaders,
retries, decompression and transactions.

Three things are not in its public header: where a message has its timestamp, where it has its
headers, and the list that `rd_kafka_messages_destroy` takes. All are compared with what public
functions say; where they differ, those are called once per record instead.
"""

from __future__ import annotations

import ctypes as c
from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import repeat
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError

from riverrun.errors import BrokerError
from riverrun.kafka.consuming import AT_MOST, SETTINGS, Consuming, Taken, runs
from riverrun.kafka.copying import Numbers, copied, slices
from riverrun.kafka.direct_headers import Headers
from riverrun.kafka.librdkafka import Library, Pointer
from riverrun.partitions import Partition

WORDS, WITH_HEADERS = 13, 17
"""Of a message that are looked at, of 8 bytes each, and if its headers are wanted."""
ERROR, TOPIC, PARTITION, VALUE, VALUE_SIZE, KEY, KEY_SIZE, OFFSET = range(8)
TIMESTAMP, HEADERS_SIZE, HEADERS = 12, 15, 16
"""The place of each field among them. These last ones are not public."""

BETWEEN = 16
"""Bytes at most between a record's key and its value: the size of the value."""
TOGETHER = 1 << 30
"""Bytes that are copied at once: offsets of Arrow's columns have 31 bits."""


class _Functions(Library):
    def __init__(self) -> None:
        super().__init__()
        self.conf_new = self.function("conf_new", Pointer)
        texts = (c.c_char_p, c.c_char_p, c.c_char_p, c.c_size_t)
        self.conf_set = self.function("conf_set", c.c_int, Pointer, *texts)
        self.conf_set_log = self.function("conf_set_log_cb", None, Pointer, Pointer)
        self.new = self.function("new", Pointer, c.c_int, Pointer, c.c_char_p, c.c_size_t)
        self.poll_set_consumer = self.function("poll_set_consumer", c.c_int, Pointer)
        self.queue = self.function("queue_get_consumer", Pointer, Pointer)
        self.list_new = self.function("topic_partition_list_new", Pointer, c.c_int)
        place = (Pointer, c.c_char_p, c.c_int32)
        self.list_add = self.function("topic_partition_list_add", Pointer, *place)
        offset = "topic_partition_list_set_offset"
        self.list_set_offset = self.function(offset, c.c_int, *place, c.c_int64)
        self.list_destroy = self.function("topic_partition_list_destroy", None, Pointer)
        self.assign = self.function("assign", c.c_int, Pointer, Pointer)
        self.unassign = self.function("incremental_unassign", Pointer, Pointer, Pointer)
        self.error_destroy = self.function("error_destroy", None, Pointer)
        consume = (Pointer, c.c_int, Pointer, c.c_size_t)
        self.consume = self.function("consume_batch_queue", c.c_ssize_t, *consume)
        self.malloc = self.function("mem_malloc", Pointer, Pointer, c.c_size_t)
        self.free = self.function("mem_free", None, Pointer, Pointer)
        at = (Pointer, Pointer)
        self.timestamp = self.function("message_timestamp", c.c_int64, *at, quick=True)
        self.destroy = self.function("message_destroy", None, Pointer, quick=True)
        self.destroy_all = self._destroy_all()

    def _destroy_all(self) -> Callable[[int], None] | None:
        """What gives back a list of messages, if that is their number and then their pointers."""
        try:
            count = self.function("messages_count", c.c_size_t, Pointer)
            get = self.function("messages_get", Pointer, Pointer, c.c_size_t)
            destroy = self.function("messages_destroy", None, Pointer)
        except AttributeError:
            return None
        made = (c.c_size_t * 3)(2, 111, 222)
        as_expected = (count(made), get(made, 0), get(made, 1)) == (2, 111, 222)
        return destroy if as_expected else None


class _Memory:
    """The address space: at each eighth byte, the words of a message that begins there."""

    def __init__(self, words: int) -> None:
        self.__array_interface__: Mapping[str, Any] = {
            "version": 3,
            "data": (8, True),  # read only
            "shape": ((1 << 45) - words,),
            "strides": (8,),
            "typestr": f"|V{8 * words}",
        }


class DirectConsuming(Consuming):
    """A consumer of its own. It lives as long as its process."""

    def __init__(self, client: Mapping[str, str], *, headers: bool = False) -> None:
        self.words = WITH_HEADERS if headers else WORDS
        self.library, self.memory = _Functions(), np.asarray(_Memory(self.words))
        self.headers = Headers(self.library) if headers else None
        self.topic = ""
        self.handle = self._made({**client, **SETTINGS})
        self.library.poll_set_consumer(self.handle)
        self.messages = self.library.queue(self.handle)

    def _made(self, settings: Mapping[str, str]) -> int:
        library, text = self.library, c.create_string_buffer(512)
        conf = library.conf_new()
        library.conf_set_log(conf, None)
        for name, value in settings.items():
            if library.conf_set(conf, name.encode(), str(value).encode(), text, 512):
                raise BrokerError("a setting of Kafka is wrong", got=text.value.decode())
        consumer = 1
        handle: int | None = library.new(consumer, conf, text, 512)
        if not handle:
            raise BrokerError("Kafka's client cannot be made", got=text.value.decode())
        return handle

    def assign(self, places: Mapping[Partition, int]) -> None:
        self.topic = next((each.topic for each in places), self.topic)
        self._with_list(self.library.assign, places)

    def drop(self, partitions: Collection[Partition]) -> None:
        error = self._with_list(self.library.unassign, dict.fromkeys(partitions, 0))
        self.library.error_destroy(error)

    def _with_list(self, call: Callable[..., Any], places: Mapping[Partition, int]) -> Any:
        if not places:
            return call(self.handle, None)
        made = self.library.list_new(len(places))
        for (topic, number), offset in places.items():
            self.library.list_add(made, topic.encode(), number)
            self.library.list_set_offset(made, topic.encode(), number, offset)
        try:
            return call(self.handle, made)
        finally:
            self.library.list_destroy(made)

    def take(self, most: int) -> Taken:
        with _Messages(self.library, self.messages, most) as pointers:
            # one row of words for each message
            words = self.memory[(pointers - 8) >> 3].view(np.int64).reshape(-1, self.words)
            good = words[:, ERROR].astype(np.int32) == 0
            taken = Taken([], [], [])
            if not good.all():
                self._notes(words[~good], taken)
                words = words[good]
            if len(words):
                rows = self._columns(pointers[good], words)
                numbers = words[:, PARTITION].astype(np.int32)
                taken.runs.extend(runs(self.topic, numbers, rows))
            return taken

    def _notes(self, words: Numbers, taken: Taken) -> None:
        """Messages that are no records."""
        for row in words:
            code, number = int(row[ERROR].astype(np.int32)), int(row[PARTITION].astype(np.int32))
            if not row[TOPIC]:
                continue  # of brokers, not of a partition
            if code == KafkaError._PARTITION_EOF:
                taken.ended.append((Partition(self.topic, number), int(row[OFFSET])))
            else:
                taken.errors.append((Partition(self.topic, number), KafkaError(code)))

    def _columns(self, pointers: Numbers, words: Numbers) -> pa.Table:
        fields = np.ascontiguousarray(words.T)
        size = fields[VALUE_SIZE].sum() + fields[KEY_SIZE].sum()
        if self.headers is not None:
            size += fields[HEADERS_SIZE].astype(np.int32).astype(np.int64).clip(0).sum()
        if size > TOGETHER and len(pointers) > 1:
            half = len(pointers) // 2
            parts = (slice(None, half), slice(half, None))
            return pa.concat_tables([self._columns(pointers[p], words[p]) for p in parts])
        keys, values = _contents(*fields[[KEY, KEY_SIZE, VALUE, VALUE_SIZE]])
        columns = {
            "__value": values,
            "__key": keys,
            "__timestamp": self._timestamps(pointers, fields[TIMESTAMP]),
            "__offset": fields[OFFSET],
        }
        if self.headers is not None:
            behind = fields[[VALUE, VALUE_SIZE, HEADERS_SIZE, HEADERS]]
            columns["__headers"] = self.headers.read(pointers, *behind)
        return pa.table(columns)

    def _timestamps(self, pointers: Numbers, found: Numbers) -> Numbers:
        """What is there, if it is what the public function says of some of them."""
        kind = c.c_int()
        at, told = c.addressof(kind), self.library.timestamp
        sample = range(0, len(pointers), max(1, len(pointers) // 4))
        if all(told(int(pointers[each]), at) == found[each] for each in sample):
            return found
        return np.fromiter(map(told, pointers.tolist(), repeat(at)), np.int64, len(pointers))


class _Messages:
    """Messages taken from a queue; in the end they go back to librdkafka."""

    def __init__(self, library: _Functions, queue: int, most: int) -> None:
        self.library = library
        self.box: int = library.malloc(None, 8 * (1 + most))
        count = max(0, library.consume(queue, AT_MOST, self.box + 8, most))
        words = np.frombuffer((c.c_int64 * (1 + count)).from_address(self.box), np.int64)
        words[0] = count  # as the list that is given back in the end
        self.pointers = words[1:]

    def __enter__(self) -> Numbers:
        return self.pointers

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.library.destroy_all:
            self.library.destroy_all(self.box)
        else:
            deque(map(self.library.destroy, self.pointers.tolist()), 0)
            self.library.free(None, self.box)


def _contents(
    key: Numbers, key_size: Numbers, value: Numbers, value_size: Numbers
) -> tuple[pa.Array, pa.Array]:
    """Keys and values. In a record the value is behind the key, with its size between them: both
    are copied at once. What is empty may point anywhere."""
    has_key, has_value = key_size > 0, value_size > 0
    between = np.where(has_key & has_value, value - key - key_size, 0)
    if between.min() < 0 or between.max() > BETWEEN:  # as old brokers send it
        each = ((key, key_size), (value, value_size))
        one, other = (slices(*copied(at, size), size, at == 0) for at, size in each)
        return one, other
    begin = np.where(has_key, key, value)
    end = np.where(has_value, value + value_size, key + key_size)
    size = np.where(has_key | has_value, end - begin, 0)
    data, starts = copied(begin, size)
    at_value = np.where(has_value, starts + (value - begin), starts)
    keys = slices(data, starts, key_size, key == 0)
    return keys, slices(data, at_value, value_size, value == 0)
