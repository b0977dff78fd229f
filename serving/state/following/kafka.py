"""A topic of Kafka as a log: events as JSON objects; each partition has places of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from serving.state.definitions.definition import TICKS, StateDefinition
from serving.state.definitions.group import Group
from serving.state.errors import DataError
from serving.state.following.log import BATCH_ROWS, JsonEvents, LogRows, log_id
from serving.state.keyed.key_states import no_time
from serving.state.online.group_batch import Places
from serving.state.online.notes import Notes
from serving.state.stores.store import Store

_END = "_PARTITION_EOF"
_WAIT = 10.0  # seconds for an answer of the brokers
_POLL = 0.5  # seconds to wait for events


class KafkaLog:
    """The events of a topic.

    A state that has read nothing of the topic starts at the events whose time in Kafka is that of
    its newest row, or later; give `data.event_id`, so that an event that `ingest` has read too
    counts once.

    Args:
        url: `kafka://BROKER:PORT[,BROKER:PORT...]/TOPIC`. What follows `?` are settings of
            librdkafka, such as `security.protocol=SASL_SSL`.
        definition: The features.
        store: The store, which keeps how far each partition was read.
        reached: Gives the last place that the state has of a log; -1 if none.
        report: Prints a sentence about events that are left out.

    Raises:
        DataError: The brokers do not answer, or there is no such topic.
    """

    def __init__(
        self,
        url: str,
        definition: StateDefinition,
        store: Store,
        reached: Callable[[int], int],
        report: Callable[[str], object],
    ) -> None:
        parts = urlsplit(url)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic:
            raise DataError(f"--from: expected kafka://BROKER:PORT/TOPIC. Received: {url!r}.")
        self._brokers = parts.netloc
        self._definition, self._store, self._reached = definition, store, reached
        self._report = report
        settings: dict[str, Any] = {
            "bootstrap.servers": self._brokers,
            "group.id": "recsys-attn",  # needed, and of no use: the store has the places
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            **dict(parse_qsl(parts.query)),
        }
        try:
            self._consumer = Consumer(settings, logger=None)
        except KafkaException as error:
            raise DataError(f"--from: {_text(error)}. Received: {url!r}.") from None
        self._partitions: tuple[int, ...] = ()
        self._ended: set[int] = set()
        self._assign()

    def unread(self) -> Iterator[LogRows]:
        """As `Log`."""
        self._assign()
        while True:
            messages = self._consumer.consume(BATCH_ROWS, _POLL)
            events = [message for message in messages if self._is_event(message)]
            if not messages and self._ended >= set(self._partitions):
                return
            events.sort(key=lambda event: event.partition() or 0)
            for partition, of in itertools.groupby(events, lambda event: event.partition()):
                yield self._rows(int(partition or 0), list(of))

    def close(self) -> None:
        """As `Log`."""
        self._consumer.close()

    def _is_event(self, message: Message) -> bool:
        error, partition = message.error(), message.partition()
        if error is None:
            self._ended.discard(partition or 0)
            return True
        if error.name() == _END:
            self._ended.add(partition or 0)
        elif error.fatal() or not error.retriable():
            raise DataError(f"Kafka {self._brokers}: {error.str()}.")
        return False

    def _rows(self, partition: int, messages: Sequence[Message]) -> LogRows:
        offsets = np.array([message.offset() for message in messages], np.int64)
        places = Places(self._log(partition), offsets, int(offsets[-1]))
        texts = [message.value() or b"" for message in messages]
        return LogRows(f"{self._topic}/{partition}", offsets, places, JsonEvents(texts))

    def _log(self, partition: int) -> int:
        return log_id(f"kafka:{self._topic}/{partition}")

    def _assign(self) -> None:
        """Reads from all partitions, each from the first event that a group has not."""
        try:
            topic = self._consumer.list_topics(self._topic, _WAIT).topics[self._topic]
            if topic.error is not None:
                raise DataError(
                    f"--from: the topic {self._topic!r} of {self._brokers}: {topic.error.str()}."
                )
            partitions = tuple(sorted(topic.partitions))
            if partitions != self._partitions:
                self._partitions, self._ended = partitions, set()
                self._note_starts()
                self._consumer.assign([self._start(partition) for partition in partitions])
        except KafkaException as error:
            raise DataError(f"--from: Kafka {self._brokers}: {_text(error)}.") from None

    def _start(self, partition: int) -> TopicPartition:
        start = self._reached(self._log(partition)) + 1
        at = TopicPartition(self._topic, partition, start)
        first, _ = self._consumer.get_watermark_offsets(at, _WAIT)
        if start < first:
            self._report(
                f"{self._topic}/{partition}: Kafka has deleted the events from {start} to "
                f"{first - 1}; they are not counted."
            )
        return TopicPartition(self._topic, partition, max(start, first))

    def _note_starts(self) -> None:
        """Sets the start of each group without a position in the topic."""
        noted: dict[bytes, bytes] = {}
        for group in self._definition.groups:
            notes = Notes.read(self._store, group)
            logs = {partition: self._log(partition) for partition in self._partitions}
            new = [p for p, log in logs.items() if notes.place(log) is None]
            # A partition that is new to a topic that was read before starts at its beginning.
            is_first = len(new) == len(logs)
            starts = self._at_time(group, notes.newest) if is_first else dict.fromkeys(new, 0)
            for partition in new:
                noted |= notes.at_place(logs[partition], starts[partition] - 1)
        if noted:
            self._store.write([], noted)

    def _at_time(self, group: Group, newest: int | float) -> dict[int, int]:
        """The offset of each partition from which events are as new as a time."""
        if newest == no_time(group):
            return dict.fromkeys(self._partitions, 0)
        unit = self._definition.time_unit
        ticks = group.ticks or (None if unit is None else TICKS[unit])
        if ticks is None:
            raise DataError(
                "--from kafka: the times of the log are numbers of an unknown unit, so that the "
                "first event to read is unknown. Set `data.time_unit` and make the state again."
            )
        milliseconds = int(newest * 1000 // ticks)
        asked = [TopicPartition(self._topic, p, milliseconds) for p in self._partitions]
        starts = {}
        for at in self._consumer.offsets_for_times(asked, _WAIT):
            end = self._consumer.get_watermark_offsets(at, _WAIT)[1]
            starts[at.partition] = at.offset if at.offset >= 0 else end
        return starts


def _text(error: KafkaException) -> str:
    return str(error.args[0].str())
