"""Options of a numeric feature: its transform, its encoding, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal, get_args

from recsys_attn.checks import require_positive, unknown_name

NumericTransform = Literal["log1p", "standardise"]
EncodingName = Literal["linear", "buckets", "piecewise_linear", "periodic", "autodis"]

DEFAULT_ENCODING: EncodingName = "linear"


def check_transform(steps: Any) -> None:
    """Raises unless the steps are a tuple of known names."""
    if isinstance(steps, str):
        raise ValueError(
            f"`transform` must be a tuple of steps. Received: transform={steps!r}. "
            f"Write ({steps!r},)"
        )
    for step in steps:
        if step not in get_args(NumericTransform):
            raise ValueError(
                "unknown step in `transform`. " + unknown_name(step, get_args(NumericTransform))
            )


def check_encoding(name: Any, bins: Any, boundaries: Sequence[float] | None) -> None:
    """Raises unless the encoding is known and its boundaries increase."""
    if name not in get_args(EncodingName):
        raise ValueError("unknown `encoding`. " + unknown_name(name, get_args(EncodingName)))
    require_positive("bins", bins)
    if any(right <= left for left, right in pairwise(boundaries or ())):
        raise ValueError(f"`boundaries` must increase. Received: boundaries={boundaries}")
