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

import struct
from collections.abc import Sequence

import numpy as np

from serving.state.definitions.group import FORMAT, Group
from serving.state.errors import DataError
from serving.state.keyed.key_states import KeyStates, no_time
from serving.state.keyed.words import pack, unpack

_HEADER = 5


def encode(states: KeyStates) -> list[bytes]:
    """The state of each key as bytes."""
    keys, one = len(states), np.ones(len(states), np.int64)
    logs = [sorted(states.offsets[key].items()) for key in range(keys)]
    offsets = np.array([pair for of_key in logs for pair in of_key], np.int64).reshape(-1, 2)
    counts, sections = [np.array([len(of_key) for of_key in logs], np.int64)], [offsets]
    spans, of_key = _spans(states)
    counts.append(np.bincount(of_key, minlength=keys))
    sections.append(spans)
    texts, events = _Texts(keys, states.texts), []
    for place, past in enumerate(states.pasts):
        events.append(np.bincount(past.key, minlength=keys))
        parts = past.parts
        if states.group.lists_texts(place):
            parts = texts.moved(past.key, parts)
        if past.rule.has_totals:
            counts.append(one)
            sections.append(past.totals)
        counts += [events[-1], events[-1]]
        sections += [_bits(past.time)[:, None], parts]
    first = [one * FORMAT, states.versions, _bits(states.newest), counts[0], counts[1]]
    header = np.stack([*first, *events], axis=1)
    words = pack(np.stack([one, *counts]), [header, *sections])
    return [of_key.tobytes() + tail for of_key, tail in zip(words, texts.of_keys(), strict=True)]


def decode(group: Group, blobs: Sequence[bytes | None]) -> KeyStates:
    """The states of some keys; None: a key without rows.

    Raises:
        DataError: A blob is damaged, or of another format.
    """
    states = KeyStates(group, len(blobs))
    if not blobs:
        return states
    empty = _empty(group) if None in blobs else b""
    stored = [empty if blob is None else blob for blob in blobs]
    lengths = np.array([len(blob) for blob in stored])
    if (lengths % 8).any():
        raise _damaged("its length is no multiple of 8")
    data = b"".join(stored)
    try:
        _fill(states, lengths // 8, data)
    except (ValueError, IndexError, UnicodeDecodeError) as error:
        raise _damaged(str(error)) from None
    return states


def _empty(group: Group) -> bytes:
    """The blob of a key without rows."""
    totals = sum(rule.width for rule in group.rules if rule.has_totals)
    words = [0] * (_HEADER + len(group.features) + totals)
    words[0] = FORMAT
    words[2] = int(_bits(np.array(no_time(group))))
    return struct.pack(f"<{len(words)}q", *words)


def _fill(states: KeyStates, lengths: np.ndarray, data: bytes) -> None:
    words = np.frombuffer(data, "<i8")
    stops = lengths.cumsum()
    start = stops - lengths
    size = _HEADER + len(states.group.features)
    if lengths.min() < size:
        raise ValueError("it is shorter than its header")
    written, states.versions, newest, logs, segments, *events = words[
        np.arange(size)[:, None] + start
    ]
    if (written != FORMAT).any():
        raise ValueError(f"expected format {FORMAT}, received {written.max()}")
    states.newest = _times(newest, states.group)
    counts, widths = _layout(states.group, logs, segments, events)
    sections, ends = unpack(words, start + size, stops, counts, widths)
    rows, keys = iter(sections), np.arange(len(states))
    for key, (log, offset) in zip(keys.repeat(logs).tolist(), next(rows).tolist(), strict=True):
        states.offsets[key][log] = offset
    spans = _times(next(rows), states.group)
    if states.segments is not None:
        states.segments.key = keys.repeat(segments)
        states.segments.first, states.segments.until = spans[:, 0], spans[:, 1]
    texts: list[tuple[np.ndarray, np.ndarray]] = []
    for place, (past, count) in enumerate(zip(states.pasts, events, strict=True)):
        if past.rule.has_totals:
            past.totals = next(rows)
        past.key = keys.repeat(count)
        past.time, past.parts = _times(next(rows), states.group)[:, 0], next(rows)
        if states.group.lists_texts(place):
            texts.append((past.key, past.parts))
    _read_texts(states, texts, (ends * 8, stops * 8), data)


def _layout(
    group: Group, logs: np.ndarray, segments: np.ndarray, events: list[np.ndarray]
) -> tuple[np.ndarray, list[int]]:
    """The rows of each key in each section, and the words of a row."""
    counts, widths = [logs, segments], [2, 2]
    one = np.ones_like(logs)
    for rule, count in zip(group.rules, events, strict=True):
        if rule.has_totals:
            counts.append(one)
            widths.append(rule.width)
        counts += [count, count]
        widths += [1, rule.width]
    return np.array(counts), widths


def _read_texts(
    states: KeyStates,
    texts: list[tuple[np.ndarray, np.ndarray]],
    bounds: tuple[np.ndarray, np.ndarray],
    data: bytes,
) -> None:
    """Reads the texts of each key; parts get their place in `states.texts`."""
    at, stops = bounds[0].tolist(), bounds[1].tolist()
    for key_of, parts in texts:
        lengths = parts[:, 0].tolist()
        for row, (key, length) in enumerate(zip(key_of.tolist(), lengths, strict=True)):
            if length:
                stop = at[key] + length - 1
                if stop > stops[key]:
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


def _spans(states: KeyStates) -> tuple[np.ndarray, np.ndarray]:
    """The segments, and the key of each."""
    if states.segments is None:
        return np.zeros((0, 2), np.int64), np.zeros(0, np.int64)
    spans = [_bits(states.segments.first), _bits(states.segments.until)]
    return np.stack(spans, axis=1), states.segments.key


def _bits(times: np.ndarray) -> np.ndarray:
    return times.view(np.int64) if times.dtype == np.float64 else times.astype(np.int64)


def _times(words: np.ndarray, group: Group) -> np.ndarray:
    return words.view(np.float64) if group.has_float_times else words


def _damaged(reason: str) -> DataError:
    return DataError(
        f"The state of a key cannot be read: {reason}. Load it anew with `recsys-attn state load`."
    )
