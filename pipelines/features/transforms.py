"""The protocols of feature transforms, and the transforms by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from recsys_attn.named_parts import NamedParts

GraphFunction = Callable[[Any], Any]


class Fitter(Protocol):
    """Fits a transform: `finish(merge(fit_batch(a), fit_batch(b)))`, in any order of batches.

    It is a dataclass of the transform's options.
    """

    def fit_batch(self, values: pa.Array) -> Any:
        """The state of one batch of values."""

    def merge(self, first: Any, second: Any) -> Any:
        """The state of both batches together."""

    def finish(self, state: Any) -> Transform:
        """The transform, from the state of the whole data."""

    def load(self, state: dict[str, Any]) -> Transform:
        """The transform whose `state` was saved."""


@runtime_checkable
class Growing(Fitter, Protocol):
    """A fitter whose transform can take in values of later rows."""

    def grow(self, earlier: Any, state: Any) -> Transform:
        """An earlier transform whose numbers stay, with the new values of the whole data."""


class Transform(Protocol):
    """A fitted transform; `apply` and the function of `graph` return the same numbers."""

    def apply(self, values: pa.Array) -> np.ndarray:
        """Raw values to ids (int32; missing is 0) or numbers (float32; missing is NaN)."""

    def graph(self) -> GraphFunction:
        """A function of a raw tensor for the exported graph, with its lookup tables."""

    def state(self) -> dict[str, Any]:
        """Plain data for JSON; a vocabulary has a pyarrow array `"values"`."""


TRANSFORMS: NamedParts[Callable[..., Fitter]] = NamedParts("transform")
