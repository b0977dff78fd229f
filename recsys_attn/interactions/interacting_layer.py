"""The interacting layer: self-attention over feature fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from recsys_attn.attention.layers.head_counts import head_sizes_of, size_pair
from recsys_attn.attention.layers.head_pruning import slice_heads, take_heads
from recsys_attn.attention.layers.heads import Heads
from recsys_attn.blocks.norms import NORMS, build_norm, normalise
from recsys_attn.checks import require_mask_of, require_not_negative, require_positive
from recsys_attn.initializers import blockwise
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.layer import Layer
from recsys_attn.tensors import Config, Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class InteractingLayer(Layer):
    """AutoInt's multi-head self-attention over feature fields.

    `output[m] = relu(concat_h(sum_k softmax_k(W_Q^h e_m . W_K^h e_k) W_V^h e_k) + W_Res e_m)`

    No scale, no bias and no projection after the heads; the residual is inside the ReLU.
    `mechanism` can replace the softmax over dot products, and `update` the step after the heads.

    Source: Song et al., "AutoInt: Automatic Feature Interaction Learning via Self-Attentive
    Neural Networks", CIKM 2019, arXiv 1810.11921. The authors' code differs from the paper: it
    has biases, ReLU after each projection, a scale, and a layer normalisation at the end; these are
    `update={"relu": "projections", "norm": "layer"}` with the mechanism `"transformer"`.

    Args:
        num_heads: Number of heads N.
        head_dim: Size of a head H; or a pair `[H, V]`, the size of queries and keys and that of
            values, so that more of H does not widen the output.
        mechanism: An instance, a name or a config of `recsys_attn.attention.mechanisms` or
            `recsys_attn.attention.presets`.
        update: Residual, normalisation and ReLU: a `FieldUpdate` or a table of some of its
            arguments, such as `{"norm": "layer"}`. Defaults to the paper's.
        gate: Weights or switches off heads: of `recsys_attn.attention.gates`. Defaults to none.
        disagreement: A `Disagreement`, a penalty on similar heads, or its factors, such as
            `{"outputs": 0.1}`. Defaults to none.
        kept_heads: The computed heads, those of `mechanism` and `gate`; the columns of other heads
            have the residual only. Defaults to all; `prune_heads` sets it.

    Call arguments:
        inputs: (..., F, E).
        field_mask: (..., F), False for missing fields, which no field attends and whose output is
            zero.
        mask: Keras' own mask of the inputs; replaced by `field_mask`.

    Returns:
        (..., F, N * V).

    Example:

    >>> import keras
    >>> from recsys_attn.interactions import InteractingLayer
    >>> fields = keras.random.normal((2, 3, 5, 16))
    >>> tuple(InteractingLayer(num_heads=2, head_dim=8)(fields).shape)
    (2, 3, 5, 16)
    """

    def __init__(
        self,
        num_heads: int = 2,
        head_dim: int | Sequence[int] = 32,
        mechanism: Any = "autoint",
        update: Any = None,
        gate: Any = None,
        disagreement: Any = None,
        kept_heads: Sequence[int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        require_positive("num_heads", num_heads)
        self.num_heads = num_heads
        self.kept_heads = _checked_heads(kept_heads, num_heads)
        self.head_dim, self.value_dim = head_sizes_of("head_dim", head_dim)
        self.update = FieldUpdate.of(update)
        self.norm = NORMS.get(self.update.norm, dtype=self.dtype_policy)
        self.heads = Heads(mechanism, gate, disagreement, dtype=self.dtype_policy)
        self.heads.mechanism.require_one_projection("InteractingLayer")

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 3 or input_shape[-1] is None:
            raise ValueError(
                "`inputs` must have shape (..., F, E) with at least one axis before the fields "
                f"and a known width E. Received: inputs.shape={tuple(input_shape)}"
            )
        units = self.num_heads * self.value_dim
        self._projects_residual = self.update.projects(input_shape[-1], units)
        # W_Q, W_K, W_V and W_Res side by side; without W_K if queries and keys have one projection.
        sizes = list(self._part_sizes.values())
        self.kernel = self.add_weight(
            shape=(input_shape[-1], sum(sizes)),
            initializer=blockwise(sizes, axis=1),
            name="kernel",
        )
        self.bias = None
        if self.update.use_bias:
            self.bias = self.add_weight(shape=(sum(sizes),), initializer="zeros", name="bias")
        build_norm(self.norm, (None, units), None)
        per_head = (None, input_shape[-2], self.computed_heads)
        queries, values = (*per_head, self.head_dim), (*per_head, self.value_dim)
        keys = (*per_head, self.head_dim + self.heads.mechanism.unary_size)
        self.heads.build(queries, keys, values, (None, *input_shape[-2:]))

    def call(
        self, inputs: Tensor, field_mask: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        field_mask = mask if field_mask is None else field_mask
        shape = ops.shape(inputs)
        fields, size = shape[-2], self.num_heads * self.value_dim
        present = None
        require_mask_of("field_mask", field_mask, inputs)
        if field_mask is not None:
            present = ops.reshape(field_mask, (-1, fields))
        flat = ops.reshape(inputs, (-1, inputs.shape[-1]))
        parts = self._projected(flat)
        heads = {
            name: ops.reshape(parts[name], (-1, fields, self.computed_heads, head_size))
            for name, head_size in self._head_sizes.items()
        }
        query, value = heads["query"], heads["value"]
        key = heads.get("key", query)
        if "unary" in heads:
            key = ops.concatenate([key, heads["unary"]], axis=-1)
        masks = self.heads.mechanism.masks_of(
            query.shape,
            key.shape,
            value.shape,
            # The output of missing fields is set to zero below; the mask is for the penalty only.
            query_mask=present if self.heads.disagreement is not None else None,
            key_mask=present,
        )
        flat_inputs = ops.reshape(inputs, (-1, fields, inputs.shape[-1]))
        output, _ = self.heads(query, key, value, flat_inputs, masks=masks)
        output = ops.reshape(self._in_place(output), (-1, size))
        if self.update.residual != "none":
            output = output + parts.get("residual", flat)
        output = normalise(self.norm, output, None, None)
        if self.update.relu == "sum":
            output = ops.relu(output)
        output = ops.reshape(output, (*shape[:-1], size))
        if field_mask is not None:
            output = output * ops.cast(field_mask, output.dtype)[..., None]
        return output

    def _projected(self, flat: Tensor) -> dict[str, Tensor]:
        """Returns queries, keys, values and the residual of fields (..., E), by name."""
        ends = np.cumsum(list(self._part_sizes.values()))[:-1].tolist()
        # Several products: splitting one product costs more, since it copies the result.
        parts = [ops.matmul(flat, kernel) for kernel in ops.split(self.kernel, ends, axis=1)]
        if self.bias is not None:
            biases = ops.split(self.bias, ends)
            parts = [part + bias for part, bias in zip(parts, biases, strict=True)]
        named = dict(zip(self._part_sizes, parts, strict=True))
        if self.update.relu != "projections":
            return named
        # A unary logit is a number on both sides of zero.
        return {n: part if n == "unary" else ops.relu(part) for n, part in named.items()}

    @property
    def _part_sizes(self) -> dict[str, int]:
        """Numbers of columns of the projections by name, in their order in the kernel."""
        sizes = {name: self.computed_heads * size for name, size in self._head_sizes.items()}
        if self._projects_residual:
            sizes["residual"] = self.num_heads * self.value_dim
        return sizes

    @property
    def _head_sizes(self) -> dict[str, int]:
        """Sizes of a head in the projections, without the residual."""
        mechanism = self.heads.mechanism
        sizes = {
            "query": self.head_dim,
            "key": 0 if mechanism.shares_query_and_key else self.head_dim,
            "unary": mechanism.unary_size,
            "value": self.value_dim,
        }
        return {name: size for name, size in sizes.items() if size}

    @property
    def computed_heads(self) -> int:
        """Number of computed heads, for `prune_heads`."""
        return self.num_heads if self.kept_heads is None else len(self.kept_heads)

    def _in_place(self, output: Tensor) -> Tensor:
        """(B, F, computed heads, H) -> (B, F, N, H), with zeros for the other heads."""
        if self.kept_heads is None:
            return output
        place = dict(zip(self.kept_heads, range(self.computed_heads), strict=True))
        index = [place.get(head, self.computed_heads) for head in range(self.num_heads)]
        return ops.take(ops.pad(output, ((0, 0), (0, 0), (0, 1), (0, 0))), np.array(index), axis=2)

    def without_heads(self, keep: Sequence[int]) -> InteractingLayer:
        """Returns an unbuilt copy with some of the heads; `prune_heads` sets its weights."""
        computed = range(self.num_heads) if self.kept_heads is None else self.kept_heads
        config = {**self.get_config(), "kept_heads": [computed[head] for head in keep]}
        smaller = type(self).from_config(config)
        take_heads(smaller.heads.mechanism, keep)
        return smaller

    def slice_heads(
        self, weight: Any, value: np.ndarray, shape: Shape, keep: Sequence[int]
    ) -> np.ndarray:
        """Returns the part of a weight that belongs to some of the computed heads."""
        if weight is not self.kernel and weight is not self.bias:
            return slice_heads(value, shape, self.computed_heads, keep)
        parts = np.split(value, np.cumsum(list(self._part_sizes.values()))[:-1], axis=-1)
        sizes = self._head_sizes.values()
        sliced = [
            slice_heads(part, (*part.shape[:-1], len(keep) * size), self.computed_heads, keep)
            for part, size in zip(parts, sizes, strict=False)
        ]
        return np.concatenate([*sliced, *parts[len(sizes) :]], axis=-1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_heads * self.value_dim)

    def compute_output_spec(
        self, inputs: Tensor, field_mask: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        require_mask_of("field_mask", field_mask, inputs)
        return keras.KerasTensor(self.compute_output_shape(inputs.shape), dtype=self.compute_dtype)

    def get_config(self) -> Config:
        heads = self.heads.get_config()
        return {
            **super().get_config(),
            "head_dim": size_pair(self.head_dim, self.value_dim),
            **{name: heads[name] for name in ("mechanism", "gate", "disagreement")},
        }


def _checked_heads(kept_heads: Any, num_heads: int) -> tuple[int, ...] | None:
    if kept_heads is None:
        return None
    if isinstance(kept_heads, str) or not isinstance(kept_heads, Sequence):
        raise ValueError(
            f"`kept_heads` must be a list of heads. Received: kept_heads={kept_heads!r}"
        )
    for index, head in enumerate(kept_heads):
        require_not_negative(f"kept_heads[{index}]", head)
    if not kept_heads or sorted(set(kept_heads) & set(range(num_heads))) != list(kept_heads):
        raise ValueError(
            f"`kept_heads` must be some of the heads 0 ... {num_heads - 1} in their order. "
            f"Received: kept_heads={kept_heads!r}"
        )
    return tuple(kept_heads)
