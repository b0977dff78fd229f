"""The fitted transforms as a TensorFlow graph, from raw tensors to a model's inputs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import tensorflow as tf

from pipelines.features.fitted import FittedFeatures
from pipelines.features.graph_transform import is_missing_tensor
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.items import ItemTable
from recsys_attn.schema import (
    PADDING_ID,
    RESERVED_IDS,
    UNKNOWN_ID,
    Feature,
    Numeric,
    Sequence,
    is_age,
    is_listed,
)


class FeatureGraph(tf.Module):
    """Applies fitted transforms to raw tensors, exactly as `FittedFeatures.apply` does to columns.

    Missing values are the empty string, NaN (or infinity) and the smallest int64. Lists are
    padded on the right with the missing value, to any length. Features of the item table are
    looked up by the item's id; raw tensors of them are not read. Features that the raw tensors
    lack are left out.
    """

    def __init__(self, fitted: FittedFeatures) -> None:
        super().__init__()
        self.schema = fitted.schema
        self.items = _ItemLookup.of(fitted)
        from_items = fitted.item_features
        used = {
            fitted.schema.table_owner(f.name)
            for f in fitted.schema.features
            if f.name not in from_items
        }
        self.functions = {name: fitted.transforms[name].graph() for name in sorted(used)}

    def __call__(self, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Raw tensors by column: `(B,)`, `(B, T)`, lists with one more axis."""
        return self.inputs(raw, self.events(raw))

    def events(self, raw: Mapping[str, tf.Tensor]) -> dict[str, list[tf.Tensor]]:
        """The ids of each history's aligned sequences, before missing events are dropped."""
        return {
            name: [self._transform(sequence, raw) for sequence in sequences]
            for name, sequences in self.schema.histories.items()
            if all(sequence.column_name in raw for sequence in sequences)
        }

    def inputs(
        self, raw: Mapping[str, tf.Tensor], events: Mapping[str, list[tf.Tensor]]
    ) -> dict[str, tf.Tensor]:
        """The model's inputs, from raw tensors and their `events`."""
        inputs = {} if self.items is None or self.items.key not in raw else self.items(raw)
        for feature in self.schema.features:
            absent = feature.column_name not in raw
            if isinstance(feature, Sequence) or feature.name in inputs or absent:
                continue
            values = self._transform(feature, raw)
            if is_listed(feature):
                (values,) = keep_last([values], feature.max_length)
            inputs[feature.name] = values
        for name, ids in events.items():
            sequences = self.schema.histories[name]
            last = keep_last(ids, sequences[0].max_length)
            inputs.update({s.name: part for s, part in zip(sequences, last, strict=True)})
        return inputs

    def as_sent(
        self, explanation: Mapping[str, tf.Tensor], events: Mapping[str, list[tf.Tensor]]
    ) -> dict[str, tf.Tensor]:
        """Puts the weights of events into the order of the raw input, and marks known events.

        Args:
            explanation: The outputs of `RankingModel.explain`.
            events: The result of `events`.

        Returns:
            The explanation with the weights of a history as `(B, T, R)`, where R is the length of
            the raw history's longest sequence; 0 for dropped events.
            `known/<history>`, of the same shape, is 1 for an event that the model sees and of which
            it knows a value, and 0 for one that is unknown to the vocabulary, missing or too old.
        """
        outputs = dict(explanation)
        for name, ids in events.items():
            keys = [f"attention/{name}{kind}" for kind in ("", ".sessions")]
            keys = [key for key in keys if key in explanation]
            if not keys:
                continue
            for key in keys:
                weights = explanation[key]
                place, seen = _places(ids, tf.shape(weights)[-1])
                gathered = tf.gather(weights, tf.maximum(place, 0), axis=2, batch_dims=1)
                outputs[key] = tf.where(seen[:, None], gathered, 0.0)
            flat, _ = _aligned(ids)
            values = [
                part
                for sequence, part in zip(self.schema.histories[name], flat, strict=True)
                if not is_age(sequence)
            ]
            knows = reduce(tf.logical_or, [part > UNKNOWN_ID for part in values])
            known = tf.cast(tf.logical_and(seen, knows), weights.dtype)
            outputs[f"known/{name}"] = known[:, None] * tf.ones_like(gathered)
        return outputs

    def _transform(self, feature: Feature, raw: Mapping[str, tf.Tensor]) -> tf.Tensor:
        values = raw[feature.column_name]
        if values.dtype != raw_dtype(feature):
            values = _rounded(values)
        return self.functions[self.schema.table_owner(feature.name)](values)


class _ItemLookup(tf.Module):
    """Encoded features of all items, by the raw id; missing for an unknown one."""

    def __init__(self, items: ItemTable, encoded: Mapping[str, np.ndarray]) -> None:
        super().__init__()
        self.key = items.key
        self.row = VocabularyTransform(items.keys).graph()
        self.encoded = {
            # Variables, since a graph with large constants exceeds the limit of its file.
            name: tf.Variable(np.concatenate([_missing(values), values]), trainable=False)
            for name, values in encoded.items()
        }

    @classmethod
    def of(cls, fitted: FittedFeatures) -> _ItemLookup | None:
        if fitted.items is None or not fitted.item_features:
            return None
        encoded = fitted.encoded_items()
        return cls(fitted.items, {name: encoded[name] for name in fitted.item_features})

    def __call__(self, raw: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        rows = self.row(raw[self.key])
        return {name: tf.gather(values, rows) for name, values in self.encoded.items()}


def _rounded(integers: tf.Tensor) -> tf.Tensor:
    """Integers as float32, as the training rounds them."""
    numbers = tf.cast(tf.cast(integers, tf.float64), tf.float32)
    return tf.where(is_missing_tensor(integers), np.float32(np.nan), numbers)


def _missing(values: np.ndarray) -> np.ndarray:
    """The rows of missing and unknown ids."""
    missing = PADDING_ID if values.dtype == "int32" else np.nan
    return np.full((RESERVED_IDS, *values.shape[1:]), missing, values.dtype)


def keep_last(ids: list[tf.Tensor], length: int) -> list[tf.Tensor]:
    """Drops missing events, keeps the last `length`, pads on the right."""
    leading = tf.shape(ids[0])[:-1]
    flat, is_event = _aligned(ids)
    padded = []
    for part in flat:
        ragged = tf.ragged.boolean_mask(part, is_event)[:, -length:]
        dense = ragged.to_tensor(PADDING_ID, shape=[None, length])
        dense = tf.reshape(dense, tf.concat([leading, [length]], 0))
        padded.append(tf.ensure_shape(dense, [*ids[0].shape[:-1], length]))
    return padded


def _aligned(ids: list[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Aligned sequences as rows of one length, and the mask of their events."""
    rows = tf.reduce_prod(tf.shape(ids[0])[:-1])
    longest = reduce(tf.maximum, [tf.shape(part)[-1] for part in ids])
    flat = []
    for part in ids:  # a client may send an aligned sequence shorter, or empty
        padding = [[0, 0], [0, longest - tf.shape(part)[-1]]]
        part = tf.reshape(part, tf.stack([rows, tf.shape(part)[-1]]))
        flat.append(tf.pad(part, padding, constant_values=PADDING_ID))
    return flat, reduce(tf.logical_or, [tf.not_equal(part, PADDING_ID) for part in flat])


def _places(ids: list[tf.Tensor], length: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The place of each raw event among the `length` that the model sees, and whether it does."""
    _, is_event = _aligned(ids)
    count = tf.cumsum(tf.cast(is_event, tf.int32), axis=1)
    dropped = tf.maximum(count[:, -1:] - length, 0)  # too old
    place = count - 1 - dropped
    return place, tf.logical_and(is_event, place >= 0)


def raw_dtype(feature: Feature) -> tf.DType:
    """TensorFlow's type of a feature's raw value."""
    if isinstance(feature, Numeric):
        return tf.float32
    return {"string": tf.string, "int64": tf.int64, "float32": tf.float32}[feature.dtype]
