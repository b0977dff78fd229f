"""Inputs that a training step hides: ids, and the state of random requests."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf

from recsys_attn.schema import CANDIDATE_MASK, PADDING_ID, UNKNOWN_ID, Numeric, Schema, is_age

_REPLICAS_APART = 1009  # more than a schema has features
_REQUESTS = _REPLICAS_APART - 1  # of the draw for whole requests
_NONE: Mapping[str, np.ndarray] = types.MappingProxyType({})


class InputDropout:
    """Makes ids unknown, and features of a store missing for random requests.

    A model that sees every id of its training rows learns users and items by heart, and has never
    seen the row of unknown values that new ones get. Nor has it seen a request whose state is
    missing, as one is that a server answers without its store. The draws follow from the step, so
    that a resumed training repeats them.

    Args:
        schema: Names the features.
        hidden: By the name of the feature that owns a table, the share of the steps in which each
            id is unknown. Then it is so in the whole step, also in that of other replicas: a
            candidate that is in the history stays one.
        ids: Share of the ids that become unknown, each place alone; numbers and ages stay.
        state: Share of the requests whose columns `state_names` become missing, all together.
        state_names: Columns whose values a store gives online.
    """

    def __init__(
        self,
        schema: Schema,
        hidden: Mapping[str, np.ndarray] = _NONE,
        ids: float = 0.0,
        state: float = 0.0,
        state_names: Collection[str] = (),
    ) -> None:
        self._ids, self._state = ids, state
        self._of_ids = [
            f.name for f in schema.features if not (isinstance(f, Numeric) or is_age(f))
        ]
        self._of_state = [f for f in schema.features if f.column_name in state_names]
        owners = {name: schema.table_owner(name) for name in self._of_ids}
        self._tables = {
            owner: _HiddenIds(number, hidden[owner])
            for number, owner in enumerate(sorted(set(owners.values())))
            if owner in hidden and hidden[owner].any()
        }
        self._of_tables = {name: owner for name, owner in owners.items() if owner in self._tables}

    def __call__(self, inputs: Mapping[str, tf.Tensor], step: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs with some ids unknown and some values missing."""
        result = dict(inputs)
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        step = tf.cast(step, tf.int32)

        def draws(number: int, share: float, shape: tf.Tensor) -> tf.Tensor:
            seed = tf.stack([step, replica * _REPLICAS_APART + number])
            return tf.random.stateless_uniform(shape, seed) < share

        for name, owner in self._of_tables.items():
            result[name] = self._tables[owner].hide(inputs[name], step)
        for number, name in enumerate(self._of_ids if self._ids else ()):
            ids = result[name]
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


class _HiddenIds:
    """The ids of a table, of which each step hides some.

    Args:
        number: Number of the table; tables draw independently.
        shares: Share of the steps in which each id is hidden.
    """

    def __init__(self, number: int, shares: np.ndarray) -> None:
        self._number, self._shares = number, tf.constant(shares, tf.float32)

    def hide(self, ids: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Ids, unknown where they are drawn; equal ids are drawn alike."""
        seed = tf.stack([step, self._number])
        salt = tf.random.stateless_uniform([], seed, None, None, tf.uint32)
        drawn = tf.cast(_scattered(ids, salt), tf.float32) * 2.0**-32
        is_hidden = drawn < tf.gather(self._shares, ids)
        return tf.where(is_hidden, tf.cast(UNKNOWN_ID, ids.dtype), ids)


def _scattered(ids: tf.Tensor, salt: tf.Tensor) -> tf.Tensor:
    """A hash of each id, uint32: the finaliser of MurmurHash3, with a salt."""
    x = tf.bitwise.bitwise_xor(tf.cast(ids, tf.uint32), salt)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x *= tf.constant(factor, tf.uint32)
    return x
