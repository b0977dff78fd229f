"""Mutations of the bytes of a message."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.serving.fuzz.messages import pick

_VARINTS = (b"\xff" * 9 + b"\x01", b"\xff" * 11, b"\x80" * 12, b"\xff\xff\xff\xff\x07", b"\x00")


def mutate_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Returns the bytes with one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        content = pick(rng, _MUTATIONS)(rng, content)
    return content


def _flip(rng: np.random.Generator, content: bytes) -> bytes:
    changed = bytearray(content or b"\x00")
    for _ in range(int(rng.integers(1, 9))):
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def _cut(rng: np.random.Generator, content: bytes) -> bytes:
    return content[: int(rng.integers(len(content) + 1))]


def _repeat(rng: np.random.Generator, content: bytes) -> bytes:
    start, stop = sorted(rng.integers(len(content) + 1, size=2))
    return content[:stop] + content[start:stop] * int(rng.integers(1, 20)) + content[stop:]


def _number(rng: np.random.Generator, content: bytes) -> bytes:
    place = int(rng.integers(len(content) + 1))
    return content[:place] + pick(rng, _VARINTS) + content[place + 1 :]


def _text(rng: np.random.Generator, content: bytes) -> bytes:
    """Letters become invalid UTF-8; all lengths stay right."""
    changed = bytearray(content)
    letters = [i for i, byte in enumerate(content) if 97 <= byte <= 122]
    for place in rng.permutation(letters)[: int(rng.integers(1, 4))].astype(int):
        changed[place] = pick(rng, (0xFF, 0xC0, 0x80, 0xED, 0xF8))
    return bytes(changed)


def _nest(rng: np.random.Generator, content: bytes) -> bytes:
    """Groups within each other, deeper than any parser goes."""
    depth = pick(rng, (90, 101, 1000, 20_000))
    return content + b"\x0b" * depth + b"\x0c" * (depth if rng.random() < 0.5 else 0)


_MUTATIONS: tuple[Callable[[np.random.Generator, bytes], bytes], ...] = (
    _flip, _cut, _repeat, _number, _text, _nest,
)  # fmt: skip
