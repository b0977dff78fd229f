"""The base class of weightings."""

from __future__ import annotations

from keras import ops

from recsys_attn.layer import Layer, build_part
from recsys_attn.registry import Registry
from recsys_attn.tensors import Shape, Tensor


class Weighting(Layer):
    """Turns logits into weights.

    Attributes:
        contract: The promise of each weighting, for errors.
        needs_query: Whether `call` takes `query` (B, T, N, H) too, and `build` its shape.

    Call arguments:
        logits: (B, N, T, S).
        allowed: Booleans that broadcast to the logits, False for pairs that do not count.

    Returns:
        Weights of the shape of the logits; 0 for pairs that are not allowed.

    Example:

    >>> import keras
    >>> from recsys_attn.attention.weightings import Weighting
    >>> class Hard(Weighting):
    ...     def call(self, logits, allowed=None):
    ...         if allowed is not None:
    ...             logits = keras.ops.where(allowed, logits, -1e9)
    ...         best = keras.ops.one_hot(keras.ops.argmax(logits, -1), logits.shape[-1])
    ...         return best if allowed is None else best * keras.ops.cast(allowed, best.dtype)
    >>> tuple(Hard()(keras.random.normal((2, 1, 3, 5))).shape)
    (2, 1, 3, 5)
    """

    contract = (
        "0 where `allowed` is False, zeros for a query that may attend nothing, and no use of a "
        "logit that is not allowed"
    )
    needs_query = False

    def build(self, logits_shape: Shape) -> None:
        """Creates the weights; the default has none."""

    def call(self, logits: Tensor, allowed: Tensor | None = None) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} must implement `call`")

    def compute_output_shape(self, logits_shape: Shape) -> Shape:
        return logits_shape


WEIGHTINGS = Registry("a weighting", "weightings", Weighting)


def heads_of(logits_shape: Shape) -> int:
    """Returns N of logits (B, N, T, S), for a weighting with weights of each head."""
    heads = logits_shape[1] if len(logits_shape) == 4 else None
    if heads is None:
        raise ValueError(
            "`logits` must have shape (B, N, T, S) with N known when the layer is built. "
            f"Received: logits.shape={tuple(logits_shape)}"
        )
    return heads


def build_weighting(
    owner: Layer, weighting: Weighting, logits_shape: Shape, query_shape: Shape | None
) -> None:
    """Builds a weighting of a layer."""
    shapes = (logits_shape, query_shape) if weighting.needs_query else (logits_shape,)
    build_part(owner, "weighting", weighting, *shapes)


def weights_of(
    weighting: Weighting, logits: Tensor, allowed: Tensor | None, query: Tensor
) -> Tensor:
    """Calls a weighting, with the query if it needs it."""
    if weighting.needs_query:
        return weighting(logits, allowed=allowed, query=query)
    return weighting(logits, allowed=allowed)


def everywhere(allowed: Tensor | None, logits: Tensor) -> Tensor:
    """Broadcasts `allowed` to the shape of the logits."""
    allowed = True if allowed is None else allowed
    return ops.broadcast_to(allowed, ops.shape(logits))
