"""Stores of both kinds keep what was written, and change what has not changed meanwhile."""

from __future__ import annotations

import numpy as np

from serving.state.keyed.keys import Key, key_bytes
from serving.state.past.repeats import event_keys, first_bucket
from serving.state.stores.store import Cell, Change, SeenId, Store

ONE, OTHER = b"\x7b:*?[\\}1", b"{}^-]..2"  # fingerprints with signs of hash tags and patterns


def keys(*values: int | str) -> list[Key]:
    """The empty key, keys of one column, and of three that have an owner in common."""
    made = [key_bytes(value, "int64" if isinstance(value, int) else "string") for value in values]
    return [(), *[(key,) for key in made], *[(made[0], key, made[-1]) for key in made]]


KEYS = keys(0x7D, "{", "}x{y}", "*", "", "-")  # 0x7D is a closing brace


def blob(number: int) -> bytes:
    return number.to_bytes(3, "big") + b"\r\n\0" * number


def put(store: Store, group: bytes, number: int = 0, ids: dict[bytes, int] | None = None) -> None:
    changes = [Change(Cell(group, key), None, blob(number + k), {}) for k, key in enumerate(KEYS)]
    changes[2] = changes[2]._replace(ids=ids or {})
    assert all(store.write(changes, {}))


def test_cells_hold_what_was_written(store: Store) -> None:
    put(store, ONE)
    put(store, OTHER, 100)
    assert dict(store.cells(ONE)) == {key: blob(k) for k, key in enumerate(KEYS)}
    assert dict(store.cells(OTHER)) == {key: blob(100 + k) for k, key in enumerate(KEYS)}
    order = np.random.default_rng(0).permutation(len(KEYS)).tolist()
    cells = [Cell(group, KEYS[k]) for k in order for group in (OTHER, ONE)]
    expected = [blob(number) for k in order for number in (100 + k, k)]
    assert store.read(cells) == expected
    absent = [Cell(b"absent..", KEYS[1]), Cell(ONE, (KEYS[1][0], b"i" + bytes(8)))]
    assert store.read([absent[0], cells[0], absent[1]]) == [None, expected[0], None]
    assert store.read([]) == []


def test_only_an_unchanged_cell_is_written(store: Store) -> None:
    put(store, ONE)
    cells = [Cell(ONE, key) for key in KEYS]
    event = bytes(32)
    changes = [
        Change(cells[1], blob(1), b"new", {}),
        Change(cells[2], blob(1), b"new", {event: 1}),  # of another one
        Change(cells[-1], None, b"new", {}),  # there is one
        Change(Cell(OTHER, KEYS[1]), blob(1), b"new", {}),  # there is none
        Change(cells[-2], blob(len(KEYS) - 2), None, {}),
    ]
    assert store.write(changes, {b"note": b"1"}) == [True, False, False, False, True]
    assert store.read([change.cell for change in changes]) == [
        b"new", blob(2), blob(len(KEYS) - 1), None, None,
    ]  # fmt: skip
    assert store.read_ids([SeenId(cells[2], event)]) == [0]
    assert store.notes(b"") == {}
    assert store.write([changes[0]._replace(before=b"new", after=None)], {b"note": b"1"}) == [True]
    assert store.read([cells[1]]) == [None]
    assert store.notes(b"no") == {b"note": b"1"}
    assert store.notes(b"x") == {}


def test_ids_are_of_a_cell_until_they_are_old(store: Store) -> None:
    time = np.array([-7, 0, 11, 12])
    events = event_keys(time, np.arange(8).reshape(-1, 2), 5)
    put(store, ONE, ids={event: 2**k for k, event in enumerate(events)})
    cell, other = Cell(ONE, KEYS[2]), Cell(ONE, KEYS[8])
    store.load_ids([SeenId(other, events[0]), SeenId(other, events[3])], [2**62, 7])
    seen = [SeenId(of, event) for of in (cell, other) for event in events]
    assert store.read_ids(seen) == [1, 2, 4, 8, 2**62, 0, 0, 7]
    assert store.read_ids([SeenId(Cell(OTHER, KEYS[2]), events[0])]) == [0]
    store.forget_ids(OTHER, first_bucket(999, 5))
    store.forget_ids(ONE, first_bucket(12, 5))  # ids from 7 on are needed
    assert store.read_ids(seen) == [0, 0, 4, 8, 0, 0, 0, 7]


def test_many_cells_are_loaded_over_others(store: Store) -> None:
    number = 2503
    many = [(key_bytes(k // 3, "int64"), *[key_bytes(k, "int64")] * (k % 3)) for k in range(number)]
    cells = [Cell(ONE, key) for key in many]
    assert store.write([Change(cells[0], None, b"old", {})], {}) == [True]
    store.load(cells, [blob(k % 7) for k in range(number)], {})
    assert dict(store.cells(ONE)) == {key: blob(k % 7) for k, key in enumerate(many)}
    assert store.size() > 10 * number


def test_notes_are_found_by_the_start_of_their_names(store: Store) -> None:
    notes = {group + b"%d" % k: bytes(k) for group in (ONE, OTHER) for k in range(211)}
    store.load([], [], notes)
    for group in (ONE, OTHER):
        assert store.notes(group) == {n: v for n, v in notes.items() if n.startswith(group)}
    assert store.notes(ONE + b"21") == {ONE + b"21": bytes(21), ONE + b"210": bytes(210)}
    assert store.notes(ONE[:2] + b"x") == store.notes(ONE[:3] + ONE) == {}
