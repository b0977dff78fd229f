"""Which pairs a pattern allows, told pair by pair: t attends s in a sequence of n positions."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Rule = Callable[[int, int, int], bool]


def matrix(rule: Rule, n: int) -> Array:
    allowed = np.zeros((n, n), bool)
    for t in range(n):
        for s in range(n):
            allowed[t, s] = rule(t, s, n)
    return allowed


def full() -> Rule:
    return lambda t, s, n: True


def causal() -> Rule:
    return lambda t, s, n: s <= t


def local(before: int, after: int) -> Rule:
    return lambda t, s, n: s in range(t - before, t + after + 1)


def dilated(window: int, dilation: int) -> Rule:
    return lambda t, s, n: s in [t + dilation * k for k in range(-window, window + 1)]


def strided(stride: int) -> Rule:
    return lambda t, s, n: abs(t - s) in range(0, n, stride)


def fixed(stride: int, summary: int) -> Rule:
    return lambda t, s, n: s % stride in range(stride - summary, stride)


def block(size: int, before: int = 0, after: int = 0) -> Rule:
    return lambda t, s, n: -before <= math.floor(s / size) - math.floor(t / size) <= after


def edge_blocks(size: int, count: int) -> Rule:
    def at_an_end(position: int, n: int) -> bool:
        blocks = [list(range(n))[start : start + size] for start in range(0, n, size)]
        return any(position in block for block in blocks[:count] + blocks[-count:])

    return lambda t, s, n: at_an_end(t, n) or at_an_end(s, n)


def at_positions(positions: Sequence[int]) -> Rule:
    def chosen(position: int, n: int) -> bool:
        return position in positions or position - n in positions

    return lambda t, s, n: chosen(t, n) or chosen(s, n)


def prepended(count: int, rule: Rule) -> Rule:
    return lambda t, s, n: t < count or s < count or rule(t - count, s - count, n - count)


def prefix(length: int) -> Rule:
    return lambda t, s, n: s < length or s <= t


def random_blocks(size: int, count: int, seed: int) -> Rule:
    return lambda t, s, n: s // size in random_plan(t // size, math.ceil(n / size), count, seed)


def random_plan(row: int, blocks: int, count: int, seed: int) -> list[int]:
    """Eight rounds of cubing modulo a prime make a key for the row, and eight more each draw.

    The blocks from the key on, in a circle, are cut into `count` runs; one is drawn from each.
    """
    digest = hashlib.sha256(str(seed).encode()).digest()
    constants = [256 * digest[i] + digest[i + 1] for i in range(0, 32, 2)]

    def permuted(x: int, constants: list[int], key: int = 0) -> int:
        for constant in constants:
            x = (x + key + constant) ** 3 % 46_337
        return x

    key = permuted(row, constants[:8])
    plan = []
    for number in range(count):
        run = range(number * blocks // count, (number + 1) * blocks // count)
        if run:
            draw = permuted(number, constants[8:], key)
            plan.append((key + run[draw % len(run)]) % blocks)
    return plan
