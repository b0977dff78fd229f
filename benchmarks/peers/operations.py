"""Arithmetic of the models of `benchmarks/training.py`: operations of their matrix products."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.peers.settings import (
    ATTENTION_UNITS,
    CROSS_LAYERS,
    DEEP_UNITS,
    EXPERT_LAYERS,
    EXPERT_UNITS,
    EXPERTS,
    FIELDS,
    HEAD_DIMS,
    HEADS,
    HISTORY,
    HISTORY_WIDTH,
    LAYERS,
    MLP_UNITS,
    SHARED_EXPERTS,
    TASK_EXPERTS,
    TASKS,
    TOWER_UNITS,
    WIDTH,
)

_FLAT = FIELDS * WIDTH  # all fields side by side


def flops(model: str) -> float:
    """Operations of the matrix products of one row, forward and backward.

    Backward are twice those of forward. DIN's activation unit is counted as factorised, the
    least that is known; to build `[q, k, q - k, q * k]` takes four times as many in its first
    layer. DIEN's attention is the bilinear one, with the candidate projected.
    """
    if model in HEAD_DIMS:
        return 3 * _autoint(HEADS * HEAD_DIMS[model])
    forward = {
        "dcnv2": _dcnv2,
        "deepfm": _deepfm,
        "din": _din,
        "dien": _dien,
        "mmoe": _mmoe,
        "ple": _ple,
    }
    return 3 * forward[model]()


def _autoint(width: int) -> float:
    count = _chain(FIELDS * width, 1)
    for before in (WIDTH, *[width] * (LAYERS - 1)):
        count += 4 * _chain(before, width) * FIELDS + 2 * 2 * FIELDS**2 * width
    return count


def _dcnv2() -> float:
    cross = CROSS_LAYERS * _chain(_FLAT, _FLAT)
    return cross + _chain(_FLAT, *DEEP_UNITS) + _chain(_FLAT + DEEP_UNITS[-1], 1)


def _deepfm() -> float:
    return _chain(_FLAT, *DEEP_UNITS, 1)  # the products of pairs are sums, not matrix products


def _din() -> float:
    event = _chain(HISTORY_WIDTH, *ATTENTION_UNITS, 1) + 2 * HISTORY_WIDTH
    return HISTORY * event + _last_network()


def _dien() -> float:
    gates = _chain(HISTORY_WIDTH, 3 * HISTORY_WIDTH)
    event = 2 * (gates + gates) + _chain(HISTORY_WIDTH, 1)  # two GRUs: of inputs, of states; scores
    return HISTORY * event + _chain(HISTORY_WIDTH, HISTORY_WIDTH) + _last_network()


def _last_network() -> float:
    """Over the user, the item and the history."""
    return _chain(3 * HISTORY_WIDTH, *MLP_UNITS, 1)


def _mmoe() -> float:
    experts = EXPERTS * _chain(_FLAT, *EXPERT_UNITS)
    return experts + len(TASKS) * (_mixture(_FLAT, EXPERTS) + _tower())


def _ple() -> float:
    total = len(TASKS) * TASK_EXPERTS + SHARED_EXPERTS
    count = len(TASKS) * _tower()
    for layer in range(EXPERT_LAYERS):
        before = EXPERT_UNITS[-1] if layer else _FLAT
        count += total * _chain(before, *EXPERT_UNITS)
        count += len(TASKS) * _mixture(before, TASK_EXPERTS + SHARED_EXPERTS)
        if layer < EXPERT_LAYERS - 1:
            count += _mixture(before, total)
    return count


def _mixture(before: int, experts: int) -> float:
    """A gate over experts, and their weighted sum."""
    return _chain(before, experts) + _chain(experts, EXPERT_UNITS[-1])


def _tower() -> float:
    return _chain(EXPERT_UNITS[-1], *TOWER_UNITS, 1)


def _chain(*widths: int) -> float:
    """Of the layers of a network."""
    return 2.0 * sum(a * b for a, b in pairwise(widths))
