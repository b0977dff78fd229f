"""Dropout of ids: the row of unknown values learns to stand for any value."""

from __future__ import annotations

from collections.abc import Mapping

import tensorflow as tf

from recsys_attn.schema import PADDING_ID, UNKNOWN_ID, Numeric, Schema, is_age

_REPLICAS_APART = 1009  # more than a schema has features


class IdDropout:
    """Makes a random share of a batch's ids unknown.

    A model that sees every id of its training rows learns users and items by heart, and has never
    seen the row of unknown values that new ones get. The draws follow from the step and the
    replica, so that a resumed training repeats them.

    Args:
        schema: Names the features; numbers and ages stay.
        share: Share of the ids.
    """

    def __init__(self, schema: Schema, share: float) -> None:
        self._names = [f.name for f in schema.features if not (isinstance(f, Numeric) or is_age(f))]
        self._share = share

    def __call__(self, inputs: Mapping[str, tf.Tensor], step: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs with some ids unknown; missing values and padding stay missing."""
        result = dict(inputs)
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        for number, name in enumerate(self._names if self._share else ()):
            ids = inputs[name]
            seed = tf.stack([tf.cast(step, tf.int32), replica * _REPLICAS_APART + number])
            lost = tf.random.stateless_uniform(tf.shape(ids), seed) < self._share
            unknown = tf.cast(UNKNOWN_ID, ids.dtype)
            result[name] = tf.where(lost & (ids != PADDING_ID), unknown, ids)
        return result
