"""The state of a key as bytes: 64-bit little-endian words, and the texts of histories.

| words | content |
|---|---|
| 5 | format; version of the state; newest time; number of logs; of segments |
| 1 per feature | number of its events |
| 2 per log | id of the log; place in it of the last row that was added |
| 2 per segment | first and last time |
| per feature | totals, if it has them; times of its events; their parts |
| rest | texts of histories, in the order of their events, filled with zeros |

Of an event of a history of texts, the first part is the number of bytes plus 1; 0: null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from serving.state.definitions.group import FORMAT, Group
from serving.state.definitions.key_kinds import key_kind
from serving.state.errors import DataError
from serving.state.keyed.key_states import KeyStates
from serving.state.keyed.words import Section, Unpacker, pack

_HEADER = 5


def encode(states: KeyStates) -> list[bytes]:
    """The state of each key as bytes."""
    keys = len(states)
    logs = [sorted(of_key.items()) for of_key in states.offsets]
    sections = [_logs(logs), *_segments(states, keys)]
    counts, texts = [], _Texts(keys, states.texts)
    for place, past in enumerate(states.pasts):
        count = np.bincount(past.key, minlength=keys)
        parts = past.parts
        if _lists_texts(states.group, place):
            parts = texts.moved(past.key, parts)
        if past.rule.has_totals:
            sections.append(Section(np.ones(keys, np.int64), past.totals))
        sections += [Section(count, _bits(past.time)[:, None]), Section(count, parts)]
        counts.append(count)
    header = np.stack(
        [
            np.full(keys, FORMAT),
            states.versions,
            _bits(states.newest),
            sections[0].counts,
            sections[1].counts,
            *counts,
        ],
        axis=1,
    )
    sections.insert(0, Section(np.ones(keys, np.int64), header))
    words = pack(sections)
    return [of_key.tobytes() + tail for of_key, tail in zip(words, texts.of_keys(), strict=True)]


def decode(group: Group, blobs: Sequence[bytes | None]) -> KeyStates:
    """The states of some keys; None: a key without rows.

    Raises:
        DataError: A blob is damaged, or of another format.
    """
    states = KeyStates(group, len(blobs))
    present = np.array([k for k, blob in enumerate(blobs) if blob is not None], np.int64)
    stored = [blob for blob in blobs if blob is not None]
    if not stored:
        return states
    lengths = np.array([len(blob) for blob in stored])
    if (lengths % 8).any():
        raise _damaged("its length is no multiple of 8")
    data = b"".join(stored)
    unpacker = Unpacker(np.frombuffer(data, "<i8"), lengths // 8)
    try:
        _fill(states, present, unpacker, data)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise _damaged(str(error)) from None
    return states


def _fill(states: KeyStates, present: np.ndarray, unpacker: Unpacker, data: bytes) -> None:
    group = states.group
    one = np.ones(len(present), np.int64)
    header = unpacker.take(one, _HEADER + len(group.features))
    if (header[:, 0] != FORMAT).any():
        raise _damaged(f"expected format {FORMAT}, received {header[:, 0].max()}")
    states.versions[present] = header[:, 1]
    states.newest[present] = header[:, 2].view(states.newest.dtype)
    log_of = np.repeat(present, header[:, 3]).tolist()
    for key, (log, offset) in zip(log_of, unpacker.take(header[:, 3], 2).tolist(), strict=True):
        states.offsets[key][log] = offset
    spans = unpacker.take(header[:, 4], 2)
    if states.segments is not None:
        times = _times(spans, group)
        states.segments.key = np.repeat(present, header[:, 4])
        states.segments.first, states.segments.until = times[:, 0], times[:, 1]
    texts: list[tuple[np.ndarray, np.ndarray]] = []
    for place, past in enumerate(states.pasts):
        count = header[:, _HEADER + place]
        if past.rule.has_totals:
            past.totals[present] = unpacker.take(one, past.rule.width)
        past.time = _times(unpacker.take(count, 1), group)[:, 0]
        past.parts = unpacker.take(count, past.rule.width)
        past.key = np.repeat(present, count)
        if _lists_texts(group, place):
            texts.append((np.repeat(np.arange(len(present)), count), past.parts))
    _read_texts(states, texts, unpacker, data)


def _read_texts(
    states: KeyStates, texts: list[tuple[np.ndarray, np.ndarray]], unpacker: Unpacker, data: bytes
) -> None:
    """Reads the texts of each key; parts get their place in `states.texts`."""
    starts, ends = unpacker.rest()
    at = (starts * 8).tolist()
    for key_of, parts in texts:
        for row, (key, length) in enumerate(
            zip(key_of.tolist(), parts[:, 0].tolist(), strict=True)
        ):
            if length:
                stop = at[key] + length - 1
                if stop > ends[key] * 8:
                    raise ValueError("a text is longer than the blob")
                parts[row] = 1, len(states.texts)
                states.texts.append(data[at[key] : stop].decode())
                at[key] = stop


class _Texts:
    """The texts of all histories of each key, in the order in which they are added."""

    def __init__(self, keys: int, texts: list[str]) -> None:
        self._texts = texts
        self._of_key: list[bytearray] = [bytearray() for _ in range(keys)]

    def moved(self, key_of: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """The parts of the events of a history with lengths in place of places."""
        written = np.zeros_like(parts)
        rows = zip(key_of.tolist(), parts.tolist(), strict=True)
        for row, (key, (is_known, place)) in enumerate(rows):
            if is_known:
                data = self._texts[place].encode()
                self._of_key[key] += data
                written[row, 0] = len(data) + 1
        return written

    def of_keys(self) -> list[bytes]:
        """The bytes of each key, a multiple of 8."""
        return [bytes(data) + b"\0" * (-len(data) % 8) for data in self._of_key]


def _logs(logs: Sequence[Sequence[tuple[int, int]]]) -> Section:
    counts = np.array([len(of_key) for of_key in logs], np.int64)
    rows = [pair for of_key in logs for pair in of_key]
    return Section(counts, np.array(rows, np.int64).reshape(-1, 2))


def _segments(states: KeyStates, keys: int) -> list[Section]:
    if states.segments is None:
        return [Section(np.zeros(keys, np.int64), np.zeros((0, 2), np.int64))]
    spans = np.stack([_bits(states.segments.first), _bits(states.segments.until)], axis=1)
    return [Section(np.bincount(states.segments.key, minlength=keys), spans)]


def _lists_texts(group: Group, place: int) -> bool:
    feature = group.features[place]
    return (
        group.rules[place].kind == "history"
        and key_kind(group.columns.field(feature.of).type) == "string"
    )


def _bits(times: np.ndarray) -> np.ndarray:
    return times.view(np.int64) if times.dtype == np.float64 else times.astype(np.int64)


def _times(words: np.ndarray, group: Group) -> np.ndarray:
    return words.view(np.float64) if group.has_float_times else words


def _damaged(reason: str) -> DataError:
    return DataError(
        f"The state of a key cannot be read: {reason}. Load it anew with `recsys-attn state load`."
    )
