"""The encoding of numbers that multiplies a vector."""

from __future__ import annotations

from recsys_attn.number_encodings.base import AddWeight, Draw, NumberEncoding
from recsys_attn.tensors import Tensor


class Linear(NumberEncoding):
    """The value times a vector (AutoInt, Song et al., 2019, arXiv 1810.11921, section 4.2)."""

    name = "linear"

    def build(self, prefix: str, width: int, draw: Draw, add_weight: AddWeight) -> None:
        shape = (len(self.names), width)
        self.weights["vectors"] = add_weight(shape, draw, name=f"{prefix}_vectors_{width}")

    def __call__(self, values: Tensor, present: Tensor) -> Tensor:
        return values[..., None] * self.weights["vectors"]
