"""Interactions of fields side by side, and terms of the logits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import keras
from keras import ops

from recsys_attn.checks import require_not_negative, require_positive
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.field_factors import recorded_factors
from recsys_attn.interactions.bilinear import BilinearFusion
from recsys_attn.layer import Layer
from recsys_attn.models.building_blocks import TaskHeads, flatten
from recsys_attn.models.histories import pooled
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Feature, Numeric, Schema
from recsys_attn.serialization import layer_of, takes
from recsys_attn.tensors import Shape, Tensor


@keras.saving.register_keras_serializable(package="recsys_attn")
class Stream(Layer):
    """From fields to a vector: layers over the fields, then layers over the vector.

    Args:
        fields: A layer over fields of one width (..., F, E), such as `PairProducts`, or several,
            one after the other; fields that the last one returns are flattened. Defaults to none:
            the embeddings, side by side.
        layers: Layers over the vector, one after the other, such as a `CrossNetwork` or an `Mlp`.

    Call arguments:
        blocks: List of fields `(B, T, F, E)`, one per width.
        present: List of `(B, T, F)`, False where a value is missing.
        row_mask: `(B, T)`, False at padded candidates.

    Returns:
        `(B, T, D)`.

    Raises:
        ValueError: There is a layer over the fields, and they have several widths.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.interactions import PairProducts
    >>> from recsys_attn.models.streams import Stream
    >>> blocks, present = [keras.random.normal((2, 3, 5, 4))], [np.ones((2, 3, 5), bool)]
    >>> tuple(Stream(PairProducts())(blocks, present).shape)
    (2, 3, 10)
    """

    def __init__(
        self,
        fields: keras.layers.Layer | Sequence[keras.layers.Layer] = (),
        layers: Sequence[keras.layers.Layer] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        several = fields if isinstance(fields, list | tuple) else [fields]
        self.fields = [layer_of("fields", layer, such_as="PairProducts") for layer in several]
        self.layers = [layer_of("layers", layer, such_as="Mlp") for layer in layers]

    @property
    def scales_fields(self) -> bool:
        """Whether the first layer multiplies the fields by factors."""
        return bool(self.fields) and getattr(self.fields[0], "scales_fields", False)

    def build(self, *shapes: Shape) -> None:
        self.built = True

    def call(
        self, blocks: list[Tensor], present: list[Tensor], row_mask: Tensor | None = None
    ) -> Tensor:
        if self.fields:
            x = self._of_fields(blocks, present, row_mask)
        else:
            x = ops.concatenate([flatten(block) for block in blocks], axis=-1)
        return _through(self.layers, x, where=row_mask)

    def _of_fields(
        self, blocks: list[Tensor], present: list[Tensor], row_mask: Tensor | None
    ) -> Tensor:
        if len(blocks) > 1:
            raise ValueError(
                f"{type(self.fields[0]).__name__} needs fields of one width. Received: widths "
                f"{[block.shape[-1] for block in blocks]}. Give all features the same `width`"
            )
        masks = {"present": present[0], "field_mask": present[0], "where": row_mask}
        x = _through(self.fields[:1], blocks[0], **masks)
        with recorded_factors():  # later factors are not those of the fields
            x = _through(self.fields[1:], x, **masks)
        for _ in range(len(x.shape) - len(blocks[0].shape) + 1):
            x = flatten(x)
        return x


@keras.saving.register_keras_serializable(package="recsys_attn")
class Streams(Layer):
    """Several streams over the same fields, and linear terms: `[vectors, terms of the logits]`.

    With `linear`, the first numbers of each field's vector, one for each task, are the weights of
    its linear term, and the others its vector; so one look-up gives both. The terms of a task are
    `sum_f w_f + sum_s a_s y_s`, for the outputs y of `terms`, with a weight a_s of the task where
    there are several, which starts at 1.

    Args:
        streams: Layers such as `Stream`, whose vectors are concatenated.
        terms: Layers such as `Stream` with one output, for `linear` only.
        linear: Number of tasks with linear terms. Defaults to none.
        layers: Layers over the vectors of all streams side by side, one after the other, such as
            an `Mlp`.

    Call arguments:
        blocks: List of fields `(B, T, F, linear + E)`, one per width.
        present: List of `(B, T, F)`, False where a value is missing.
        row_mask: `(B, T)`, False at padded candidates.

    Returns:
        `(B, T, D + linear)`: the vectors of all streams, then the terms of each task.

    Raises:
        ValueError: There is no stream and no linear term, terms are given without `linear`, or
            `layers` without a stream.

    Example:

    >>> import keras
    >>> import numpy as np
    >>> from recsys_attn.interactions import FactorizationMachine
    >>> from recsys_attn.models.streams import Stream, Streams
    >>> blocks, present = [keras.random.normal((2, 3, 5, 9))], [np.ones((2, 3, 5), bool)]
    >>> fm = Streams(terms=[Stream(FactorizationMachine())], linear=1)
    >>> tuple(fm(blocks, present).shape)
    (2, 3, 1)
    """

    def __init__(
        self,
        streams: Sequence[keras.layers.Layer] = (),
        terms: Sequence[keras.layers.Layer] = (),
        linear: int = 0,
        layers: Sequence[keras.layers.Layer] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require_not_negative("linear", linear)
        if not (streams or linear) or (terms and not linear) or (layers and not streams):
            raise ValueError(
                "Expected at least one stream or `linear`, `terms` with `linear` only, and "
                f"`layers` with streams only. Received: {len(streams)} streams, {len(terms)} "
                f"terms, {len(layers)} layers, linear={linear}"
            )
        self.streams = [layer_of("streams", s, "row_mask", such_as="Stream") for s in streams]
        self.terms = [layer_of("terms", t, "row_mask", such_as="Stream") for t in terms]
        self.linear = linear
        self.layers = [layer_of("layers", layer, such_as="Mlp") for layer in layers]

    @property
    def scales_fields(self) -> bool:
        """Whether a stream multiplies the fields by factors."""
        return any(getattr(part, "scales_fields", False) for part in (*self.streams, *self.terms))

    def build(self, *shapes: Shape) -> None:
        self.term_weights = None
        if self.terms and self.linear > 1:
            self.term_weights = self.add_weight(
                shape=(len(self.terms), self.linear), initializer="ones", name="term_weights"
            )
        self.built = True

    @property
    def shared_variables(self) -> list[keras.Variable]:
        """The weights that all tasks share, without those of each task's terms and fusion."""
        of_all = [layer for layer in self.layers if not isinstance(layer, BilinearFusion)]
        parts = (*self.streams, *self.terms, *of_all)
        return [variable for part in parts for variable in part.trainable_variables]

    def call(
        self, blocks: list[Tensor], present: list[Tensor], row_mask: Tensor | None = None
    ) -> Tensor:
        outputs = []
        if self.linear:
            # One split instead of slices: the gradient of each slice is a tensor of the full size,
            # that of a split is one concatenation.
            parts = [ops.split(block, [self.linear], axis=-1) for block in blocks]
            total = sum(ops.sum(weights, axis=-2) for weights, _ in parts)
            blocks = [vectors for _, vectors in parts]
            for index, term in enumerate(self.terms):
                value = term(blocks, present, row_mask=row_mask)
                weight = 1.0 if self.term_weights is None else self.term_weights[index]
                total = total + value * weight
            outputs = [total]
        vectors = [stream(blocks, present, row_mask=row_mask) for stream in self.streams]
        if self.layers:
            vectors = [_through(self.layers, ops.concatenate(vectors, axis=-1), where=row_mask)]
        outputs = vectors + outputs
        return ops.concatenate(outputs, axis=-1) if len(outputs) > 1 else outputs[0]


def _through(layers: Sequence[keras.layers.Layer], x: Tensor, **masks: Tensor | None) -> Tensor:
    """Calls layers one after the other, each with those of the masks that it takes."""
    for layer in layers:
        x = layer(x, **{name: mask for name, mask in masks.items() if takes(layer, name)})
    return x


def ranker(
    name: str,
    schema: Schema,
    width: int | None,
    streams: Sequence[keras.layers.Layer],
    *,
    history_pooling: str,
    terms: Sequence[keras.layers.Layer] = (),
    linear: bool = False,
    layers: Sequence[keras.layers.Layer] = (),
    head: keras.layers.Layer | None = None,
) -> RankingModel:
    """Returns a model of streams, whose vectors each task's logit is linear in.

    Args:
        name: Name of the model.
        schema: A fitted schema.
        width: Embedding width, without the linear terms; None for these alone.
        streams: See `Streams`.
        history_pooling: `"mean"` or `"max"`.
        terms: See `Streams`.
        linear: Whether each task has linear terms.
        layers: See `Streams`.
        head: The head in the place of the linear one.
    """
    tasks = [task.name for task in schema.tasks]
    count = len(tasks) if linear else 0
    if width is not None:
        require_positive("width", width)
    schema = _with_linear(schema, count, width is not None)
    return RankingModel(
        FeatureEmbedding(schema, (width or 0) + count),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=Streams(streams, terms, count, layers),
            head=TaskHeads(tasks, added=linear) if head is None else head,
        ),
        name=name,
    )


def _with_linear(schema: Schema, count: int, vectors: bool) -> Schema:
    """Returns the schema with room for linear terms beside the vectors of features."""
    features: list[Feature] = []
    for feature in schema.features:
        if vectors:
            width = None if feature.width is None else feature.width + count
            features.append(replace(feature, width=width))
        elif isinstance(feature, Numeric):
            features.append(replace(feature, width=None))
        else:
            features.append(replace(feature, width=None, table_width=None))
    return replace(schema, features=tuple(features))
