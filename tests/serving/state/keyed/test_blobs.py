"""A blob of a key is read whole, or not at all."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from serving.state.definitions.aggregate_options import AggregateOptions
from serving.state.definitions.group import FORMAT, Group
from serving.state.definitions.history_options import HistoryOptions
from serving.state.errors import DataError
from serving.state.keyed.blobs import decode, encode
from serving.state.keyed.key_states import KeyStates

COLUMNS = pa.schema({"user": pa.int64(), "name": pa.string(), "at": pa.int64()})
GROUP = Group(
    ("user",),
    (
        AggregateOptions(name="count", kind="count", by="user", time="at"),
        HistoryOptions(name="names", of="name", by="user", time="at", max_length=3),
    ),
    COLUMNS,
)


def words() -> np.ndarray:
    """The blob of a key with one event of a history, a text."""
    states = KeyStates(GROUP, 1)
    states.newest[:] = 5
    states.texts.append("näh")
    past = states.pasts[1]
    past.key, past.time, past.parts = np.zeros(1, np.int64), np.array([5]), np.array([[1, 0]])
    (blob,) = encode(states)
    return np.frombuffer(blob, np.int64).copy()


def test_key_without_a_blob_has_no_rows() -> None:
    empty = encode(KeyStates(GROUP, 3))
    assert encode(decode(GROUP, [None] * 3)) == empty
    assert encode(decode(GROUP, [empty[0], None, empty[2]])) == empty


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, FORMAT + 1, f"expected format {FORMAT}, received {FORMAT + 1}"),
        (3, 1 << 40, "fewer words than its header says"),  # logs
        (5, -1, "fewer words than its header says"),  # events
        (-3, 99, "a text is longer than the blob"),  # its bytes + 1
    ],
)
def test_damaged_word_is_an_error(place: int, value: int, message: str) -> None:
    whole, damaged = words(), words()
    decode(GROUP, [whole.tobytes()])
    damaged[place] = value
    for blobs in ([damaged], [whole, damaged], [damaged, whole]):
        with pytest.raises(DataError, match=message):
            decode(GROUP, [of.tobytes() for of in blobs])


@pytest.mark.parametrize(("size", "message"), [(3, "no multiple of 8"), (32, "shorter than")])
def test_cut_blob_is_an_error(size: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decode(GROUP, [words().tobytes()[:size], words().tobytes()])
