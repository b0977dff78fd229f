"""Summaries of keys or values, one event at a time, in float64."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def low_rank(x: Array, kernel: Array, present: Array) -> Array:
    """`summary[c] = sum_s kernel[c, s] x[s]` over the events that are present."""
    batch, length, heads, size = x.shape
    summaries = np.zeros((batch, kernel.shape[1], heads, size))
    for b, c, n, s in np.ndindex(*summaries.shape[:3], length):
        if present[b, s]:
            summaries[b, c, n] += kernel[n, c, s] * x[b, s, n].astype("float64")
    return summaries


def blocks(length: int, width: int, stride: int) -> list[list[int]]:
    """The positions of each block, until one has the last of them."""
    found: list[list[int]] = []
    while not found or found[-1][-1] < length - 1:
        start = stride * len(found)
        found.append([s for s in range(start, start + width) if s < length])
    return found


def convolution(x: Array, kernel: Array, present: Array, stride: int) -> Array:
    """`summary[c] = sum_w x[c * stride + w] kernel[w]`, without the events that are absent."""
    batch, length, heads, size = x.shape
    positions = blocks(length, kernel.shape[1], stride)
    summaries = np.zeros((batch, len(positions), heads, size))
    for b, c, n in np.ndindex(summaries.shape[:3]):
        for w, s in enumerate(positions[c]):
            if present[b, s]:
                summaries[b, c, n] += x[b, s, n].astype("float64") @ kernel[n, w]
    return summaries


def pool(x: Array, kind: str, present: Array, size: int) -> Array:
    """Mean or maximum of the events of each block that are present, zeros where none is."""
    batch, length, heads, channels = x.shape
    positions = blocks(length, size, size)
    summaries = np.zeros((batch, len(positions), heads, channels))
    for b, c, n in np.ndindex(summaries.shape[:3]):
        events = [x[b, s, n].astype("float64") for s in positions[c] if present[b, s]]
        if events:
            summaries[b, c, n] = np.mean(events, 0) if kind == "mean" else np.max(events, 0)
    return summaries


def segments(x: Array, kind: str, present: Array, count: int) -> Array:
    """Mean or maximum of each of `count` runs of the events that are present."""
    summaries = np.zeros((len(x), count, *x.shape[2:]))
    for b, row in enumerate(present):
        for c, run in enumerate(np.array_split(np.flatnonzero(row), count)):
            events = x[b, run].astype("float64")
            if len(run):
                summaries[b, c] = events.mean(0) if kind == "mean" else events.max(0)
    return summaries


def segment_mask(present: Array, count: int) -> Array:
    """(B, S) -> (B, C): whether a run has any event."""
    return np.array(
        [[len(run) > 0 for run in np.array_split(np.flatnonzero(row), count)] for row in present]
    )


def stood_for(blocks: list[tuple[int, int]], summary: int) -> set[int]:
    """Positions behind a summary of blocks of blocks, each of a (width, stride), first to last."""
    found = {summary}
    for width, stride in reversed(blocks):
        found = {s for c in found for s in range(c * stride, c * stride + width)}
    return found


def summary_mask(present: Array, width: int, stride: int) -> Array:
    """(B, S) -> (B, C): whether any event is present that no earlier block has."""
    positions = blocks(present.shape[1], width, stride)
    mask = np.zeros((len(present), len(positions)), bool)
    for b, c in np.ndindex(mask.shape):
        earlier = {s for block in positions[:c] for s in block}
        mask[b, c] = any(present[b, s] for s in positions[c] if s not in earlier)
    return mask
