"""Inputs that a training step hides: late or random ids, and the state of random requests."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping

import numpy as np
import tensorflow as tf

from recsys_attn.schema import CANDIDATE_MASK, PADDING_ID, UNKNOWN_ID, Numeric, Schema, is_age

_REPLICAS_APART = 1009  # more than a schema has features
_REQUESTS = _REPLICAS_APART - 1  # of the draw for whole requests
HIDDEN = 0.5  # share of the steps in which a late id is unknown
_NONE: Mapping[str, np.ndarray] = types.MappingProxyType({})


class InputDropout:
    """Makes late or random ids unknown, and features of a store missing for random requests.

    A model that sees every id of its training rows learns users and items by heart, and has never
    seen the row of unknown values that new ones get. Late ids are those that an earlier model would
    not know: in half of the steps each is unknown, in the others its own row learns. Within a step
    an id is unknown everywhere, so that a candidate that is in the history stays one. Nor has a
    model seen a request whose state is missing, as one is that a server answers without its store.
    The draws follow from the step (those of random ids and requests from the replica too), so that
    a resumed training repeats them.

    Args:
        schema: Names the features.
        late: Late ids by the name of the feature that owns their table.
        ids: Share of the ids that become unknown; numbers and ages stay.
        state: Share of the requests whose features `state_names` become missing, all together.
        state_names: Features whose values a store gives online.
    """

    def __init__(
        self,
        schema: Schema,
        late: Mapping[str, np.ndarray] = _NONE,
        ids: float = 0.0,
        state: float = 0.0,
        state_names: Collection[str] = (),
    ) -> None:
        self._ids, self._state = ids, state
        self._of_ids = [
            f.name for f in schema.features if not (isinstance(f, Numeric) or is_age(f))
        ]
        self._of_state = [f for f in schema.features if f.name in state_names]
        owners = {name: schema.table_owner(name) for name in self._of_ids}
        self._late = {
            owner: _LateIds(number, late[owner])
            for number, owner in enumerate(sorted(set(owners.values())))
            if len(late.get(owner, ()))
        }
        self._of_late = {name: owner for name, owner in owners.items() if owner in self._late}

    def __call__(self, inputs: Mapping[str, tf.Tensor], step: tf.Tensor) -> dict[str, tf.Tensor]:
        """The inputs with some ids unknown and some values missing."""
        result = dict(inputs)
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
        step = tf.cast(step, tf.int32)

        def draws(number: int, share: float, shape: tf.Tensor) -> tf.Tensor:
            seed = tf.stack([step, replica * _REPLICAS_APART + number])
            return tf.random.stateless_uniform(shape, seed) < share

        for name, owner in self._of_late.items():
            result[name] = self._late[owner].hide(inputs[name], step)
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


class _LateIds:
    """The late ids of a table, of which each step hides some.

    Args:
        number: Number of the table; tables draw independently.
        ids: The late ids.
    """

    def __init__(self, number: int, ids: np.ndarray) -> None:
        is_late = np.zeros(ids.max() + 1, bool)
        is_late[ids] = True
        self._number, self._is_late = number, tf.constant(is_late)

    def hide(self, ids: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Ids, unknown where they are late and drawn; equal ids are drawn alike."""
        seed = tf.stack([step, self._number])
        salt = tf.random.stateless_uniform([], seed, None, None, tf.uint32)
        last = tf.size(self._is_late) - 1
        is_late = tf.gather(self._is_late, tf.minimum(ids, last)) & (ids <= last)
        drawn = tf.cast(_scattered(ids, salt), tf.float32) < HIDDEN * 2.0**32
        return tf.where(is_late & drawn, tf.cast(UNKNOWN_ID, ids.dtype), ids)


def _scattered(ids: tf.Tensor, salt: tf.Tensor) -> tf.Tensor:
    """A hash of each id, uint32: the finaliser of MurmurHash3, with a salt."""
    x = tf.bitwise.bitwise_xor(tf.cast(ids, tf.uint32), salt)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = tf.bitwise.bitwise_xor(x, tf.bitwise.right_shift(x, tf.constant(shift, tf.uint32)))
        x *= tf.constant(factor, tf.uint32)
    return x
