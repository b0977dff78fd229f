"""States of users, from which a next-item model continues with their new events.

An export whose manifest says `stateful` has the signatures `start`, `step`, `rank_from_state` and
`next_items_from_state`. With a cache its `rank` and `next_items` take one more input, `user`: if
the events of a request go on from those that the user's state has seen, only the new ones are
computed.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.request import Arrays
from serving.common.request_trace import RequestTrace
from serving.common.signature_names import DEFAULT_SIGNATURE, NEXT_ITEMS_SIGNATURE, RANK_SIGNATURE
from serving.encoding.array_values import is_present
from serving.encoding.raw_values import missing_value
from serving.models.model import Model
from serving.models.signature import Compute, Signature

_LOGGER = logging.getLogger(__name__)
USER = "user"
_START, _STEP, _STATE, _EXCLUDE = "start", "step", "state", "exclude"
# The signatures that take a user, and those that continue from a state.
_FROM_STATE = {
    DEFAULT_SIGNATURE: "next_items_from_state",
    NEXT_ITEMS_SIGNATURE: "next_items_from_state",
    RANK_SIGNATURE: "rank_from_state",
}


class UserState(NamedTuple):
    """The state of a user in one version.

    Args:
        events: The number of events that it has seen.
        fingerprint: Of these events.
        state: `(D,)`.
    """

    events: int
    fingerprint: bytes
    state: np.ndarray


class UserStates:
    """The states of the most recent users of one loaded version.

    A state is used only if the fingerprint of as many events at the start of a request is the
    state's. Histories that changed, that lost old events, or of a user who stands in a request
    twice are computed whole. Those with more events than the model sees are not kept: their oldest
    events drop out with each new one, which changes all later numbers.

    Args:
        model: The version.
        options: The part `state` of its manifest.
        most: Number of users; the least recent leave first.
    """

    def __init__(self, model: Model, options: Mapping[str, Any], most: int) -> None:
        self._longest = int(options["max_events"])
        self._item_input = options["item"] if options["filter_seen"] else None
        self._model = model
        self._names = sorted(model.signature(_START).input_specs)
        self._most = most
        self._lock = threading.Lock()  # guards `_states`
        self._states: dict[bytes, UserState] = {}  # the least recent first

    @classmethod
    def of(cls, model: Model, most: int) -> UserStates | None:
        """Returns a cache for a version; None for a version without states, and for no users."""
        manifest = model.manifest
        if not most or manifest is None:
            return None
        if manifest.get("stateful"):
            return cls(model, manifest["state"], most)
        if "state" in manifest:
            reason = manifest["state"]["reason"]
            _LOGGER.warning(
                "no user states for %s version %s: %s", model.name, model.version, reason
            )
        return None

    def serve(self, signature: Signature) -> None:
        """Adds the input `user` to a signature, if another one continues from a state."""
        if signature.key not in _FROM_STATE or USER in signature.input_specs:
            return
        info = meta_graph_pb2.TensorInfo(dtype=tf.string.as_datatype_enum)
        info.tensor_shape.dim.add(size=-1)
        signature.add_optional(USER, info)
        signature.wrap(functools.partial(_WithStates, self, signature.key))

    def states(self, users: np.ndarray, inputs: Arrays, trace: RequestTrace) -> np.ndarray | None:
        """Returns the states `(B, D)` after the events of a request.

        None where a user has no name or too many events, or where lists are not equally long.
        """
        events = {name: inputs[name] for name in self._names}
        if not all(users) or len({array.shape[1] for array in events.values()}) > 1:
            return None
        counts = _counts(events)
        if counts.max(initial=0) > self._longest:
            trace.user_misses += len(users)
            return None
        times = Counter(users.tolist())
        known = [
            self._known_state(user, events, row, counts[row]) if times[user] == 1 else None
            for row, user in enumerate(users.tolist())
        ]
        hits = [row for row, state in enumerate(known) if state is not None]
        misses = [row for row, state in enumerate(known) if state is None]
        trace.user_hits += len(hits)
        trace.user_misses += len(misses)
        states: dict[int, np.ndarray] = {}
        if misses:
            inputs = {name: array[misses] for name, array in events.items()}
            states |= zip(misses, self.call(_START, inputs, (_STATE,), trace)[_STATE], strict=True)
        states |= self._step({row: known[row] for row in hits}, events, counts, trace)
        for row, user in enumerate(users.tolist()):
            if times[user] == 1:
                self._keep(user, events, row, counts[row], states[row])
        return np.stack([states[row] for row in range(len(users))])

    def call(
        self, key: str, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        """Computes another signature of the version, whose times are those of the request."""
        call = RequestTrace(trace.context)
        try:
            return self._model.signature(key).run(inputs, outputs, call)
        finally:
            trace.queue_seconds += call.queue_seconds
            trace.runtime_seconds += call.runtime_seconds
            trace.batch_rows = call.batch_rows

    def from_state(
        self, key: str, states: np.ndarray, inputs: Arrays, outputs: Sequence[str],
        trace: RequestTrace,
    ) -> dict[str, np.ndarray]:  # fmt: skip
        """Computes the outputs of a signature from states in place of events."""
        others = {name: array for name, array in inputs.items() if name not in self._names}
        if self._item_input is not None and _EXCLUDE in others:
            parts = [others[_EXCLUDE], inputs[self._item_input]]
            others[_EXCLUDE] = np.concatenate(parts, axis=1)
        return self.call(_FROM_STATE[key], {**others, _STATE: states}, outputs, trace)

    def _known_state(self, user: bytes, events: Arrays, row: int, count: int) -> UserState | None:
        with self._lock:
            known = self._states.get(user)
        if known is None or known.events > count:
            return None
        same = known.fingerprint == _fingerprint(events, row, known.events)
        return known if same else None

    def _step(
        self,
        known: Mapping[int, UserState | None],
        events: Arrays,
        counts: np.ndarray,
        trace: RequestTrace,
    ) -> dict[int, np.ndarray]:
        """Returns the states after the new events, by row."""
        states = {row: one.state for row, one in known.items() if one is not None}
        first = {row: one.events for row, one in known.items() if one is not None}
        rows = [row for row in states if counts[row] > first[row]]
        if not rows:
            return states
        longest = max(counts[row] - first[row] for row in rows)
        inputs: dict[str, np.ndarray] = {_STATE: np.stack([states[row] for row in rows])}
        for name, array in events.items():
            new = np.full((len(rows), longest), missing_value(array.dtype), array.dtype)
            for place, row in enumerate(rows):
                part = array[row, first[row] : counts[row]]
                new[place, : len(part)] = part
            inputs[name] = new
        new_states = self.call(_STEP, inputs, (_STATE,), trace)[_STATE]
        return states | dict(zip(rows, new_states, strict=True))

    def _keep(self, user: bytes, events: Arrays, row: int, count: int, state: np.ndarray) -> None:
        new = UserState(count, _fingerprint(events, row, count), state.copy())
        with self._lock:
            self._states.pop(user, None)
            self._states[user] = new
            if len(self._states) > self._most:
                del self._states[next(iter(self._states))]


class _WithStates:
    """Computes a signature from the states of its users, and without users as before."""

    def __init__(self, users: UserStates, key: str, compute: Compute) -> None:
        self._users, self._key, self._compute = users, key, compute

    def __call__(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        others = {name: array for name, array in inputs.items() if name != USER}
        users = inputs.get(USER)
        states = None if users is None else self._users.states(users, others, trace)
        if states is None:
            return self._compute(others, outputs, trace)
        return self._users.from_state(self._key, states, others, outputs, trace)


def _counts(events: Arrays) -> np.ndarray:
    """Returns the numbers of events `(B,)`, without the padding at the end."""
    present = np.any([is_present(array) for array in events.values()], axis=0)
    places = np.arange(1, present.shape[1] + 1)
    counts: np.ndarray = (present * places).max(axis=1, initial=0)
    return counts


def _fingerprint(events: Arrays, row: int, count: int) -> bytes:
    """Returns a hash of the first events of a row."""
    digest = hashlib.blake2b(digest_size=16)
    for _, array in sorted(events.items()):
        values = array[row, :count]
        if values.dtype == object:
            parts = values.tolist()
            digest.update(np.array([len(part) for part in parts], np.int64).tobytes())
            digest.update(b"".join(parts))
        else:
            digest.update(np.ascontiguousarray(values).tobytes())
    return digest.digest()
