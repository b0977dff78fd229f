"""Gradients in which the factors of a signal are constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from keras import ops

from recsys_attn.backend.tracing import CallScope
from recsys_attn.tensors import Tensor

_CONSTANT = CallScope("factors are constant", False)
factors_are_constant = _CONSTANT.get  # whether the call is inside `constant_factors`


@contextmanager
def constant_factors() -> Iterator[None]:
    """Takes slopes of activations, statistics of norms and gates as constants in gradients.

    Outputs stay the same. A layer `f(x) = s(x) x` then has the gradient `s(x)`, so that input times
    gradient is `f(x)`: what enters a layer as relevance leaves it, but for biases. It holds for
    `Mlp`, `FeedForward`, layers that gate or weigh (`GateUnit`, `SqueezeExcitation`, `OutputGate`,
    `ContextGate`, `CrossFieldGate`, `MaskBlock`, `FactorizedDense`, `CrossNetwork`), those of
    experts and tasks (`MMoE`, `ProgressiveExperts`, `TaskEmbeddingExperts`, `AdaptiveTransfer`) and
    the norms `"layer"` and `"rms"` of Transformer blocks; ReLU and linear layers have it anyway.
    Products of fields, as in a factorization machine, have not. Weights of
    attention are not held; see `watch_heads`, with which they can be.

    It acts on calls that run in Python, and ends with the block. For a traced function, put the
    block into it: one that is traced inside the block, as that of `predict`, keeps nothing of it.

    Raises:
        RuntimeError: At the end of the block, if its last call ran in a function that was traced
            inside.

    Source: Bach et al., "On Pixel-Wise Explanations for Non-Linear Classifier Decisions by
    Layer-Wise Relevance Propagation", PLOS ONE 2015; for norms, Ali et al., "XAI for Transformers",
    ICML 2022, arXiv 2202.07304.

    Example:

    >>> from recsys_attn.blocks import Mlp
    >>> from recsys_attn.constant_factors import constant_factors
    >>> import numpy as np
    >>> network, x = Mlp((4,), activation="gelu"), np.ones((1, 3), "float32")
    >>> usual = network(x)
    >>> with constant_factors():
    ...     print(bool(np.allclose(network(x), usual)))
    True
    """
    with _CONSTANT.of(True) as block:
        yield
    if block.missed:
        raise RuntimeError(
            "`constant_factors` must be around calls that run in Python. Received: a call of a "
            "function that was traced inside it, as `predict`, `fit`, `tf.function` and `jax.jit` "
            "make one, whose factors are not constant. Put `constant_factors` into the function, "
            "or call the model itself, `model(inputs)`"
        )


def held(factor: Tensor) -> Tensor:
    """Returns a factor, as a constant inside `constant_factors`."""
    return ops.stop_gradient(factor) if factors_are_constant() else factor


def times_constant(x: Tensor, output: Tensor) -> Tensor:
    """Returns the output with the gradient `output / x`, 0 where x is.

    `output` is an elementwise function of `x`.
    """
    zero = ops.equal(x, 0)
    slope = ops.where(zero, 0.0, output / ops.where(zero, ops.ones_like(x), x))
    # The first summand is 0, and has the gradient; the second is the output to the bit.
    scaled = x * ops.stop_gradient(slope)
    return scaled - ops.stop_gradient(scaled) + ops.stop_gradient(output)
