"""Inputs that a training step hides: random ids, and the state of random requests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import tensorflow as tf

from recsys_attn.schema import CANDIDATE_MASK, PADDING_ID, UNKNOWN_ID, Numeric, Schema, is_age

_REPLICAS_APART = 1009  # more than a schema has features
_REQUESTS = _REPLICAS_APART - 1  # of the draw for whole requests


class InputDropout:
    """Makes random ids unknown, and features of a store missing for random requests.

    A model that sees every id of its training rows learns users and items by heart, and has never
    seen the row of unknown values that new ones get. Nor has it seen a request whose state is
    missing, as one is that a server answers without its store. The draws follow from the step and
    the replica, so that a resumed training repeats them.

    Args:
        schema: Names the features.
        ids: Share of the ids that become unknown; numbers and ages stay.
        state: Share of the requests whose features `state_names` become missing, all together.
        state_names: Features whose values a store gives online.
    """

    def __init__(
        self,
        schema: Schema,
        ids: float = 0.0,
        state: float = 0.0,
        state_names: Collection[str] = (),
    ) -> None:
        self._ids, self._state = ids, state
        self._of_ids = [
            f.name for f in schema.features if not (isinstance(f, Numeric) or is_age(f))
        ]
        self._of_state = [f for f in schema.features if f.name in state_names]

    def __call__(self, inputs: Mapping[str, tf.Tensor], step: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs with some ids unknown and some values missing."""
        result = dict(inputs)
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)

        def draws(number: int, share: float, shape: tf.Tensor) -> tf.Tensor:
            seed = tf.stack([tf.cast(step, tf.int32), replica * _REPLICAS_APART + number])
            return tf.random.stateless_uniform(shape, seed) < share

        for number, name in enumerate(self._of_ids if self._ids else ()):
            ids = inputs[name]
            lost = draws(number, self._ids, tf.shape(ids))
            unknown = tf.cast(UNKNOWN_ID, ids.dtype)
            result[name] = tf.where(lost & (ids != PADDING_ID), unknown, ids)
        if self._state and self._of_state:
            lost = draws(_REQUESTS, self._state, tf.shape(inputs[CANDIDATE_MASK])[:1])
            for feature in self._of_state:
                values = result[feature.name]
                missing = float("nan") if isinstance(feature, Numeric) else PADDING_ID
                of_request = tf.reshape(lost, [-1] + [1] * (len(values.shape) - 1))
                result[feature.name] = tf.where(of_request, tf.cast(missing, values.dtype), values)
        return result
