"""Mutations of a message's bytes, and bytes that are no message at all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.serving.fuzz.messages import pick

_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80" * 12, b"\xff\xff\xff\xff\x07", b"\x00")


def mutate_bytes(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    """One to three changes of the bytes; `other` is a message that pieces come from."""
    for _ in range(int(rng.integers(1, 4))):
        content = pick(rng, _MUTATIONS)(rng, content, other)
    return content


def invalid_text(rng: np.random.Generator, content: bytes) -> bytes:
    """Bytes that are no UTF-8 where letters were: lengths stay right, strings do not."""
    letters = [i for i, byte in enumerate(content) if 97 <= byte <= 122]
    changed = bytearray(content)
    for place in rng.permutation(letters)[: int(rng.integers(1, 4))].astype(int):
        changed[place] = pick(rng, (0xFF, 0xC0, 0x80, 0xED, 0xF8))
    return bytes(changed)


def nested(rng: np.random.Generator) -> bytes:
    """Groups or messages within each other, deeper than any parser goes."""
    depth = pick(rng, (90, 101, 1000, 20_000))
    if rng.random() < 0.5:
        return b"\x0b" * depth + b"\x0c" * (depth if rng.random() < 0.5 else 0)
    content = b""
    for _ in range(min(depth, 1000)):
        content = pick(rng, (b"\x0a", b"\x12")) + varint(len(content)) + content
    return content


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def _place(rng: np.random.Generator, content: bytes) -> int:
    return int(rng.integers(len(content) + 1))


def _flip(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    changed = bytearray(content or b"\x00")
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _cut(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    return content[: _place(rng, content)]


def _insert(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + rng.bytes(int(rng.integers(1, 17))) + content[place:]


def _remove(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + content[place + int(rng.integers(1, 17)) :]


def _repeat(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    start, stop = sorted((_place(rng, content), _place(rng, content)))
    return content[:stop] + content[start:stop] * int(rng.integers(1, 20)) + content[stop:]


def _splice(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    return content[: _place(rng, content)] + other[_place(rng, other) :]


def _number(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    place = _place(rng, content)
    return content[:place] + pick(rng, _VARINTS) + content[place + 1 :]


def _unknown(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    """A field that no message has, of any wire type."""
    tag = varint(int(rng.integers(0, 2**29)) << 3 | int(rng.integers(8)))
    return content + tag + rng.bytes(int(rng.integers(12)))


def _merge(rng: np.random.Generator, content: bytes, other: bytes) -> bytes:
    return content + other


_MUTATIONS: tuple[Callable[[np.random.Generator, bytes, bytes], bytes], ...] = (
    _flip, _cut, _insert, _remove, _repeat, _splice, _number, _unknown, _merge,
)  # fmt: skip
