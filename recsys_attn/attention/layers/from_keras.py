"""Attention of Keras as attention of this package."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.mechanisms.dense import Dense

# With another value of these, Keras' layer is another computation.
_SAME: dict[str, tuple[Any, ...]] = {
    "use_gate": (None, False),
    "sliding_window": (None,),
    "attention_axes": (None, (1,), [1]),
    "output_shape": (None,),
}


def from_keras(
    layer: keras.layers.MultiHeadAttention | keras.layers.GroupQueryAttention, **options: Any
) -> MultiHeadAttention:
    """Returns a `MultiHeadAttention` with the weights of Keras' own layer, and the same outputs.

    The heads of Keras' kernels are an axis, `(E, N, H)`; here they stand side by side, `(E, N H)`.

    Args:
        layer: The layer, built.
        options: More arguments of `MultiHeadAttention`, such as `mechanism`, to go on with another
            attention from these weights. Defaults to dense attention with the dropout of `layer`.

    Returns:
        The layer, built for inputs of the same widths.

    Raises:
        TypeError: It is another layer.
        ValueError: It is not built, or has an option that this package has not under this name.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.attention import from_keras
    >>> events = keras.random.normal((2, 7, 16))
    >>> theirs = keras.layers.MultiHeadAttention(2, 8)
    >>> expected = theirs(events, events)
    >>> bool(np.allclose(from_keras(theirs)(events), expected, atol=1e-5))
    True
    """
    if not isinstance(layer, keras.layers.MultiHeadAttention | keras.layers.GroupQueryAttention):
        raise TypeError(
            "`layer` must be a keras.layers.MultiHeadAttention or GroupQueryAttention. "
            f"Received: {layer!r}"
        )
    config = layer.get_config()
    if not layer.built:
        raise ValueError(f"`layer` must be built: call it once. Received: {layer!r}")
    other = {name: config[name] for name, usual in _SAME.items() if config.get(name) not in usual}
    if other:
        raise ValueError(
            "`layer` must be attention over one axis whose output is as wide as the query, without "
            "a gate or a window; give these as `gate` and `mechanism` of a MultiHeadAttention. "
            f"Received: {other}"
        )
    # The names of the last two folders of a path: `query/kernel`, ..., `attention_output/bias`.
    weights = {tuple(weight.path.split("/")[-2:]): weight for weight in layer.weights}
    kernels = {name: weights[name, "kernel"].shape for name in ("query", "key", "value")}
    _, heads, size = kernels["query"]
    shapes = [(None, None, kernels[name][0]) for name in ("query", "value", "key")]
    options = {"mechanism": Dense(dropout=config["dropout"]), **options}
    ours = MultiHeadAttention(
        [heads, kernels["key"][1]],
        [size, kernels["value"][2]],
        use_bias=config["use_bias"],
        dtype=layer.dtype_policy,
        **options,
    )
    ours.build(*shapes)
    for name in ("query", "key", "value", "output"):
        for kind in ("kernel", "bias") if config["use_bias"] else ("kernel",):
            value = keras.ops.convert_to_numpy(
                weights["attention_output" if name == "output" else name, kind]
            )
            for weight in ours.weights:
                if weight.name == f"{name}_{kind}":
                    weight.assign(value.reshape(weight.shape))
    return ours
