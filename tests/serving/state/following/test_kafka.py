"""The events of a topic count once; the broker is the mock cluster of confluent-kafka."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from serving.state.errors import DataError
from serving.state.saved import SavedState
from tests.serving.state.following.conftest import PAST, Following
from tests.serving.state.following.test_folder import in_one_batch, letters, values
from tests.serving.state.logs import ingested

Make = Callable[..., Following]
Send = Callable[..., None]


@pytest.fixture(scope="session")
def in_seconds(tmp_path_factory: pytest.TempPathFactory, rows: pa.Table) -> SavedState:
    """What `ingest` knows, with times in seconds."""
    folder = tmp_path_factory.mktemp("past") / "past"
    return ingested(folder, rows.slice(0, PAST), time_unit="s")[1]


@pytest.fixture(scope="module")
def producer() -> Producer:
    """A producer with a cluster of its own."""
    return Producer({"test.mock.num.brokers": 1, "linger.ms": 1, "log_level": 0})


@pytest.fixture
def topic(producer: Producer, request: pytest.FixtureRequest) -> str:
    """The address of a topic."""
    (broker,) = producer.list_topics(request.node.name, timeout=10).brokers.values()
    return f"kafka://{broker.host}:{broker.port}/{request.node.name}?log_level=0"


@pytest.fixture
def send(producer: Producer, request: pytest.FixtureRequest) -> Send:
    """Sends events, as objects or as texts, to a partition."""

    def of_topic(events: list[Any], partition: int = 0) -> None:
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event)
            producer.produce(request.node.name, text, partition=partition)
        assert producer.flush(10) == 0

    return of_topic


@pytest.fixture
def make(following: Make, in_seconds: SavedState, topic: str) -> Make:
    """Makes stores that are loaded, and follow the topic."""
    return functools.partial(following, log=topic, saved=in_seconds)


class TimedConsumer(Consumer):
    """A consumer of the mock cluster, which knows no times: that of an event is its offset."""

    def offsets_for_times(
        self, partitions: list[TopicPartition], timeout: float
    ) -> list[TopicPartition]:
        at = [(of.topic, of.partition, of.offset // 1000) for of in partitions]
        ends = [self.get_watermark_offsets(TopicPartition(*of), timeout)[1] for of in at]
        return [
            TopicPartition(topic, partition, offset if offset < end else -1)
            for (topic, partition, offset), end in zip(at, ends, strict=True)
        ]


def test_topic_equals_one_batch(
    send: Send, make: Make, rows: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.state.following.kafka.Consumer", TimedConsumer)
    followed = make()
    newest = int(followed.saved.newest or 0)
    events = rows.slice(PAST).to_pylist()
    send(["of the past"] * newest)  # `ingest` has read what is older than its newest row
    send(events[:17])
    assert followed.catch_up().followed.events == 17
    running = followed.follower()
    send([*events[17:30], "no json", *events[30:]])
    running.catch_up()
    running.catch_up()
    assert running.followed.events == len(events) - 16
    assert followed.catch_up().followed.events == 0
    assert values(followed) == in_one_batch(make("other"), rows)
    (letter,) = letters(followed)
    assert (letter["kind"], letter["event"]) == ("invalid", "no json")
    assert letter["source"].endswith("/0")


def test_label_counts_with_the_time_of_its_row(send: Send, make: Make, rows: pa.Table) -> None:
    labels_at_once, labels_later = make(), make("other")
    both = [labels_at_once, labels_later]
    for followed in both:  # from the end of the topic
        followed.catch_up()
    newest = int(labels_later.saved.newest or 0)
    row = {**rows.slice(PAST, 1).to_pylist()[0], "user": "3", "id": "new", "time": newest + 1}
    send([{**row, "click": None}])
    labels_later.catch_up()
    send([{**row, "click": 1}] * 2, partition=1)
    events = [followed.catch_up().followed for followed in both]
    assert [of.events for of in events] == [3, 2]
    assert [of.repeated for of in events] == [1, 1]
    assert values(labels_at_once) == values(labels_later)


def test_no_broker_and_no_time_unit_are_sentences(
    following: Make, topic: str, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(["{}"])
    with pytest.raises(DataError, match="time_unit"):
        following(log=topic).follower()
    monkeypatch.setattr("serving.state.following.kafka._WAIT", 0.2)
    with pytest.raises(DataError, match=r"127\.0\.0\.1:9"):
        following("other", log="kafka://127.0.0.1:9/topic?log_level=0").follower()
    with pytest.raises(DataError, match="kafka://BROKER"):
        following("third", log="kafka://127.0.0.1:9").follower()
