"""Normalisation, dropout and residual around attention and feed-forward networks."""

from __future__ import annotations

from typing import Any

import keras

from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks.norms import (
    NORMS,
    build_norm,
    has_norm,
    is_conditional,
    normalise,
    reusable,
)
from recsys_attn.blocks.residuals import RESIDUALS
from recsys_attn.checks import require_share, unknown_name
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor

PLACEMENTS = ("pre", "post", "sandwich")


@keras.saving.register_keras_serializable(package="recsys_attn")
class Sublayer(Layer):
    """Normalisation, dropout and residual around a function F.

    `"pre"`: `x + F(norm(x))`; `"post"`: `norm(x + F(x))`; `"sandwich"`: `x + norm(F(norm(x)))`,
    with another residual in place of the sum. `entry(x)` is the input of F, the call joins its
    output with x.

    Args:
        norm, placement, residual, dropout: As in `TransformerBlock`.

    Call arguments:
        inputs: (B, S, E), the x.
        update: (B, S, E), the output of F.
        present: (B, S), for a normalisation with statistics over events.
        condition: (B, C), for the normalisation `"conditional"`.

    Returns:
        (B, S, E).

    Raises:
        ValueError: The normalisation, its placement and the residual do not go together.

    Example:

    >>> import keras
    >>> from recsys_attn.blocks.sublayer import Sublayer
    >>> events, double = keras.random.normal((2, 5, 8)), keras.layers.Dense(8)
    >>> sublayer = Sublayer(norm="rms", residual="rezero")
    >>> sublayer.build((2, 5, 8))
    >>> tuple(sublayer(events, double(sublayer.entry(events))).shape)
    (2, 5, 8)
    """

    def __init__(
        self,
        norm: Any = "layer",
        placement: str = "pre",
        residual: Any = "plain",
        dropout: float = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        if placement not in PLACEMENTS:
            raise ValueError(
                "`placement` is that of the normalisation. " + unknown_name(placement, PLACEMENTS)
            )
        require_share("dropout", dropout)
        self.norm = reusable(NORMS, norm)
        self.placement = placement
        self.residual_config = reusable(RESIDUALS, residual)
        self.dropout = Dropout(dropout, dtype=self.dtype_policy)
        self.residual = RESIDUALS.get(self.residual_config, dtype=self.dtype_policy)
        self.entry_norm, self.exit_norm = (
            None if placement == other else NORMS.get(self.norm, dtype=self.dtype_policy)
            for other in ("post", "pre")
        )
        normed = has_norm(self.entry_norm or self.exit_norm)
        self.residual.require_fit(placement, normed)
        if placement != "pre" and not normed:
            raise ValueError(
                "`placement` has no effect without a normalisation; leave it out. "
                f"Received: norm={norm!r}, placement={placement!r}"
            )

    @property
    def norms(self) -> list[Any]:
        return [norm for norm in (self.entry_norm, self.exit_norm) if norm is not None]

    @property
    def is_conditional(self) -> bool:
        return any(is_conditional(norm) for norm in self.norms)

    def build(
        self, inputs_shape: Shape, update_shape: Shape | None = None, condition_shape: Any = None
    ) -> None:
        for norm in self.norms:
            build_norm(norm, inputs_shape, condition_shape)
        self.residual.build(inputs_shape, update_shape or inputs_shape)

    def entry(
        self, x: Tensor, present: Tensor | None = None, condition: Tensor | None = None
    ) -> Tensor:
        """Returns the input of F."""
        return x if self.entry_norm is None else normalise(self.entry_norm, x, present, condition)

    def call(
        self,
        inputs: Tensor,
        update: Tensor,
        present: Tensor | None = None,
        condition: Tensor | None = None,
    ) -> Tensor:
        if self.placement == "post":
            joined = self.residual(inputs, self.dropout(update))
            return normalise(self.exit_norm, joined, present, condition)
        return self.residual(inputs, self.leaving(update, present, condition))

    def leaving(
        self, update: Tensor, present: Tensor | None = None, condition: Tensor | None = None
    ) -> Tensor:
        """Returns the term that is added to x, normalised unless the norm follows the sum."""
        update = self.dropout(update)
        if self.exit_norm is None:
            return update
        return normalise(self.exit_norm, update, present, condition)

    def compute_mask(self, *args: Any, **kwargs: Any) -> None:
        """Returns no Keras mask: the block gives its own to each part."""

    def get_config(self) -> Config:
        return {**super().get_config(), "residual": self.residual_config}
