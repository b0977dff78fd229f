"""The encodings by name, and the fields of all numbers of one side and width."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from keras import ops

from recsys_attn.number_encodings.base import AddWeight, Draw, NumberEncoding
from recsys_attn.number_encodings.learned import AutoDis, Periodic
from recsys_attn.number_encodings.linear import Linear
from recsys_attn.number_encodings.quantiles import Buckets, PiecewiseLinear
from recsys_attn.schema import Numeric
from recsys_attn.tensors import Tensor

ENCODINGS: dict[str, type[NumberEncoding]] = {
    encoding.name: encoding for encoding in (Linear, Buckets, PiecewiseLinear, Periodic, AutoDis)
}


def number_groups(features: Sequence[Numeric]) -> list[list[Numeric]]:
    """Returns the features that one encoding computes together, with `"linear"` first."""
    groups: dict[tuple[str, int], list[Numeric]] = {}
    for feature in features:
        bins = feature.bins if feature.encoding != Linear.name else 0
        groups.setdefault((feature.encoding, bins), []).append(feature)
    return [groups[key] for key in sorted(groups, key=lambda key: (key[1], key[0]))]


class NumberFields:
    """The fields of all numbers of one side and width, a few operations for each encoding.

    Args:
        features: The features, in the order of `number_groups`.
    """

    def __init__(self, features: Sequence[Numeric]) -> None:
        groups = number_groups(features)
        self.encodings = [ENCODINGS[group[0].encoding](group) for group in groups]

    def build(self, prefix: str, width: int, draw: Callable[[], Draw], add: AddWeight) -> None:
        """Makes the weights, each with an initializer of its own; see `NumberEncoding.build`."""
        for encoding in self.encodings:
            encoding.build(prefix, width, draw(), add)

    def __call__(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Returns float32 vectors `(..., F, E)`, and where numbers `(..., F)` are no NaN."""
        present = ops.logical_not(ops.isnan(values))
        values = ops.where(present, values, 0.0)
        ends = list(accumulate(len(encoding.names) for encoding in self.encodings))[:-1]
        parts = (ops.split(x, ends, axis=-1) if ends else [x] for x in (values, present))
        vectors = [encoding(*part) for encoding, *part in zip(self.encodings, *parts, strict=True)]
        return ops.concatenate(vectors, axis=-2), present

    def take(self, other: NumberFields) -> None:
        """Copies the weights of the features from fields that have them too."""
        theirs = {name: encoding for encoding in other.encodings for name in encoding.names}
        for encoding in self.encodings:
            encoding.take(theirs)
