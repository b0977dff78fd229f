"""States of users: what a version has computed of their events, for their next requests.

An export whose manifest says `stateful` has the signatures `start` and `rank_from_state`; a causal
one has `step` too, and a next-item model `next_items_from_state`. With a cache its `rank` and
`next_items` take one more input, `user`: if the events of a request are those that the user's state
has seen, none is computed; if they go on from them, `step` computes the new ones.
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
from serving.common.signature_names import (
    DEFAULT_SIGNATURE,
    NEXT_ITEMS_SIGNATURE,
    RANK_FROM_STATE,
    RANK_SIGNATURE,
    START,
    STEP,
)
from serving.encoding.array_values import is_present
from serving.encoding.raw_values import missing_value
from serving.models.model import Model
from serving.models.signature import Compute, Signature

_LOGGER = logging.getLogger(__name__)
USER = "user"
_STATE, _EXCLUDE = "state", "exclude"
# The signatures that take a user, and those that continue from a state.
_FROM_STATE = {
    DEFAULT_SIGNATURE: "next_items_from_state",
    NEXT_ITEMS_SIGNATURE: "next_items_from_state",
    RANK_SIGNATURE: RANK_FROM_STATE,
}


class UserState(NamedTuple):
    """The state of a user in one version.

    Args:
        counts: The numbers of events that it has seen, `(H,)` of H histories.
        fingerprint: Of these events, and of what else made the state.
        state: `(D,)`.
    """

    counts: np.ndarray
    fingerprint: bytes
    state: np.ndarray


class UserStates:
    """The states of the most recent users of one loaded version.

    A state is used only if the fingerprint of as many events at the start of a request is the
    state's. Histories that changed, that lost old events, or of a user who stands in a request
    twice are computed whole. So are new events of a history that is longer than the model sees: its
    oldest events drop out with each new one, which changes all later numbers.

    Args:
        model: The version.
        options: The part `state` of its manifest.
        most: Number of users; the least recent leave first.
    """

    def __init__(self, model: Model, options: Mapping[str, Any], most: int) -> None:
        self._item_input = options["item"] if options.get("filter_seen") else None
        self._model = model
        specs = model.signature(START).input_specs
        self._names = sorted(specs)
        histories = {name: spec.history for name, spec in specs.items() if spec.history}
        self._histories = [
            [name for name in sorted(histories) if histories[name] == history]
            for history in sorted(set(histories.values()))
        ]
        longest = [options["max_events"][history] for history in sorted(set(histories.values()))]
        self._longest = np.array(longest if STEP in model.signatures else [0] * len(longest))
        self._most = most
        self._lock = threading.Lock()  # guards `_states`
        self._states: dict[Any, UserState] = {}  # the least recent first

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
        """Adds the input `user` to a signature, if another one continues from a state.

        A feature of this name, with one value for each request, is the user.
        """
        if _FROM_STATE.get(signature.key) not in self._model.signatures:
            return
        feature = signature.input_specs.get(USER)
        if feature is None:
            info = meta_graph_pb2.TensorInfo(dtype=tf.string.as_datatype_enum)
            info.tensor_shape.dim.add(size=-1)
            signature.add_optional(USER, info)
        elif feature.shape is None or len(feature.shape) != 1:
            return
        signature.wrap(functools.partial(_WithStates, self, signature.key, feature is not None))

    def states(self, users: np.ndarray, inputs: Arrays, trace: RequestTrace) -> np.ndarray | None:
        """Returns the states `(B, D)` after the events of a request.

        None where a user has no name, or where lists of one history are not equally long.
        """
        events = {name: inputs[name] for name in self._names}
        lengths = [{events[name].shape[1] for name in names} for names in self._histories]
        if not is_present(users).all() or any(len(one) > 1 for one in lengths):
            return None
        counts = self._counts(events)
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
            states |= zip(misses, self.call(START, inputs, (_STATE,), trace)[_STATE], strict=True)
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
        taken = self._model.signature(_FROM_STATE[key]).input_specs
        others = {name: array for name, array in inputs.items() if name in taken}
        if self._item_input is not None and _EXCLUDE in others:
            parts = [others[_EXCLUDE], inputs[self._item_input]]
            others[_EXCLUDE] = np.concatenate(parts, axis=1)
        return self.call(_FROM_STATE[key], {**others, _STATE: states}, outputs, trace)

    def _known_state(
        self, user: Any, events: Arrays, row: int, counts: np.ndarray
    ) -> UserState | None:
        with self._lock:
            known = self._states.get(user)
        if known is None or (known.counts > counts).any():
            return None
        if (counts > np.maximum(known.counts, self._longest)).any():
            return None
        same = known.fingerprint == self._fingerprint(events, row, known.counts)
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
        first = {row: one.counts for row, one in known.items() if one is not None}
        rows = [row for row in states if (counts[row] > first[row]).any()]
        if not rows:
            return states
        inputs: dict[str, np.ndarray] = {_STATE: np.stack([states[row] for row in rows])}
        for place, names in enumerate(self._histories):
            parts = [slice(first[row][place], counts[row][place]) for row in rows]
            longest = max(1, *(part.stop - part.start for part in parts))
            for name in names:
                dtype = events[name].dtype
                inputs[name] = np.full((len(rows), longest), missing_value(dtype), dtype)
                for new, row, part in zip(inputs[name], rows, parts, strict=True):
                    new[: part.stop - part.start] = events[name][row, part]
        new_states = self.call(STEP, inputs, (_STATE,), trace)[_STATE]
        return states | dict(zip(rows, new_states, strict=True))

    def _keep(
        self, user: Any, events: Arrays, row: int, counts: np.ndarray, state: np.ndarray
    ) -> None:
        new = UserState(counts, self._fingerprint(events, row, counts), state.copy())
        with self._lock:
            self._states.pop(user, None)
            self._states[user] = new
            if len(self._states) > self._most:
                del self._states[next(iter(self._states))]

    def _counts(self, events: Arrays) -> np.ndarray:
        """Returns the numbers of events `(B, H)`, without the padding at the end."""
        counts = []
        for names in self._histories:
            present = np.any([is_present(events[name]) for name in names], axis=0)
            places = np.arange(1, present.shape[1] + 1)
            counts.append((present * places).max(axis=1, initial=0))
        return np.stack(counts, axis=1)

    def _fingerprint(self, events: Arrays, row: int, counts: np.ndarray) -> bytes:
        """Returns a hash of the first events of a row, and of what an encoder reads beside them."""
        digest = hashlib.blake2b(digest_size=16)
        ends = {n: counts[place] for place, names in enumerate(self._histories) for n in names}
        for name in self._names:
            values = np.atleast_1d(events[name][row])[: ends.get(name)]
            if values.dtype == object:
                parts = [x.encode() if isinstance(x, str) else x for x in values.tolist()]
                digest.update(np.array([len(part) for part in parts], np.int64).tobytes())
                digest.update(b"".join(parts))
            else:
                digest.update(np.ascontiguousarray(values).tobytes())
        return digest.digest()


class _WithStates:
    """Computes a signature from the states of its users, and without users as before."""

    def __init__(self, users: UserStates, key: str, is_feature: bool, compute: Compute) -> None:
        self._users, self._key, self._compute = users, key, compute
        self._added = () if is_feature else (USER,)

    def __call__(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        others = {name: array for name, array in inputs.items() if name not in self._added}
        users = inputs.get(USER)
        states = None if users is None else self._users.states(users, others, trace)
        if states is None:
            return self._compute(others, outputs, trace)
        return self._users.from_state(self._key, states, others, outputs, trace)
