"""The same weights in two implementations, and the largest difference between their outputs."""

from __future__ import annotations

import warnings
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import MultiHeadAttention

Array = np.ndarray


def oracle(module: str) -> Any:
    """A module of another implementation, or a skip that says what is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what it warns of when it is imported is its own affair
        return pytest.importorskip(module)


def numpy(x: Any) -> Array:
    """A tensor of Keras or of PyTorch, as an array."""
    return x.detach().numpy() if hasattr(x, "detach") else keras.ops.convert_to_numpy(x)


def agree(name: str, ours: Any, theirs: Any, tolerance: float = 1e-4) -> None:
    """Prints the largest difference, for `pytest -s` and `-rA`, and fails if it is too large."""
    ours, theirs = numpy(ours), numpy(theirs)
    assert ours.shape == theirs.shape
    difference = np.max(np.abs(ours - theirs))
    largest = np.max(np.abs(theirs))
    print(f"{name}: largest difference {difference:.0e}, largest value {largest:.2g}")
    assert difference < tolerance
    assert largest > 1e-2  # or anything would agree


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def assign(layer: Any, **weights: Any) -> None:
    """Sets weights of a layer of Keras, not of its parts, by their names."""
    own = {weight.name: weight for weight in layer.weights if owner(weight) == layer.name}
    for name, value in weights.items():
        own[name].assign(value)


def owner(weight: Any) -> str:
    """The name of the layer that a weight is directly in."""
    return weight.path.split("/")[-2]


def tensor(x: Array) -> Any:
    """An array as a tensor of PyTorch."""
    return oracle("torch").from_numpy(np.ascontiguousarray(x))


def heads_first(x: Array) -> Any:
    """(B, T, N, H) as a tensor of PyTorch (B, N, T, H)."""
    return tensor(x.transpose(0, 2, 1, 3))


def heads_last(x: Any) -> Array:
    """(B, N, T, H) -> (B, T, N, H)."""
    return numpy(x).transpose(0, 2, 1, 3)


def multi_head(
    mechanism: Any, heads: int, size: int, inputs: tuple[Array, ...], **linear: Any
) -> MultiHeadAttention:
    """Our layer with the projections of another.

    Args:
        mechanism: Of our layer.
        heads, size: N and H.
        inputs: Query and value, or the query alone.
        linear: `torch.nn.Linear` for `query`, `key` and `value`, without `key` where queries and
            keys share theirs; and for `output`, where None stands for the identity.
    """
    layer = MultiHeadAttention(heads, size, mechanism)
    layer.build(*(x.shape for x in inputs))
    for name, module in linear.items():
        kernel = np.eye(heads * size) if module is None else numpy(module.weight).T
        bias = None if module is None else module.bias
        bias = np.zeros(kernel.shape[1]) if bias is None else numpy(bias)
        assign(layer, **{f"{name}_kernel": kernel, f"{name}_bias": bias})
    return layer
