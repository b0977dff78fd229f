"""Inputs of a version that a store knows: a request may name a user and items alone."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.common.errors import FailedPrecondition, InvalidArgument, StateNotReady
from serving.common.request import Arrays
from serving.common.request_trace import RequestTrace, StateOfRequest
from serving.common.signature_names import (
    AS_OF,
    ATTENTION_PREFIX,
    EXPLAINED_SIGNATURE,
    RANK_SIGNATURE,
    STATE_PREFIX,
)
from serving.encoding.array_values import is_present
from serving.encoding.features import TensorSpec
from serving.encoding.raw_values import missing_value
from serving.inference.model_states import ModelStates
from serving.inference.user_states import USER
from serving.models.model import Model
from serving.models.signature import Compute, Signature
from serving.state.columns.missing import MISSING_INT
from serving.state.errors import DataError
from serving.state.online.clock import Clock
from serving.state.online.freshness import Freshness
from serving.state.online.reader import StateReader
from serving.state.saved import SavedState
from serving.state.stores.store import StoreUnavailable

_LOGGER = logging.getLogger(__name__)
STATE = Path("assets.extra/state")  # in an exported version
_REPORT_SECONDS = 60.0
_KEEP_SECONDS = 1.0  # that the state of an item may be old: few items are in most requests
_SIGNATURES = (RANK_SIGNATURE, EXPLAINED_SIGNATURE)
_DTYPES = {"string": tf.string, "int64": tf.int64, "float64": tf.float32}


class StateInputs:
    """Fills the inputs of one version that a request leaves out.

    Args:
        version: Folder of the version.
        saved: The definition of its state.
        states: The store behind the server.
    """

    def __init__(self, version: Path, saved: SavedState, states: ModelStates) -> None:
        self._definition = saved.definition
        self._clock = Clock(saved.definition)
        self._freshness = Freshness(states.reads, saved.definition)
        self._reader = StateReader(states.reads, saved.definition, self._clock, _KEEP_SECONDS)
        self._store_names = saved.definition.names
        self._next_report = 0.0
        self._states = states
        self._check(version)

    @classmethod
    def of(cls, version: Path, states: ModelStates | None) -> StateInputs | None:
        """The filler of a version; None without a store, and for a version without a state.

        Args:
            version: Folder of the version.
            states: The store behind the server.

        Raises:
            StateNotReady: The store does not have the state of the version yet.
            FailedPrecondition: The version's own files are of another format.
        """
        folder = version / STATE
        if states is None or not folder.is_dir():
            return None
        try:
            return cls(version, SavedState.open(folder), states)
        except DataError as error:
            raise FailedPrecondition(str(error)) from None
        except StoreUnavailable as error:
            raise StateNotReady(str(error)) from None

    def _check(self, version: Path) -> None:
        """Raises an error if the store lacks the state of the version, or is behind the log."""
        absent = self._freshness.absent_groups()
        if absent:
            keys = ", ".join(" and ".join(by) or "all rows" for by in absent)
            raise StateNotReady(
                f"The store has no state of {version} by {keys}. Load it with `recsys-attn state "
                f"load {version} --store ...`; the version serves once it is there."
            )
        lag, most = self._freshness.lag_seconds(), self._states.max_lag
        if most is not None and (lag is None or lag > most):
            behind = "nothing follows its log" if lag is None else f"it is {lag:.0f} s behind"
            raise StateNotReady(
                f"The state of {version}: {behind}, and at most {most:g} s are allowed "
                "(`--state-max-lag`). `recsys-attn state follow` catches up."
            )

    def add(self, model: Model) -> None:
        """Completes requests of the loaded version, and lets its state have events."""
        self._states.add(model, self._definition)
        for signature in model.signatures.values():
            self._serve(signature)

    def _serve(self, signature: Signature) -> None:
        """Lets the requests of a signature leave out what the store knows."""
        if signature.key not in _SIGNATURES or not signature.candidate_names:
            return
        names = self._store_names & signature.input_specs.keys()
        if not names:
            return
        signature.allow_absent(names)
        kinds = self._definition.key_kinds
        keys = self._definition.keys - self._definition.static_keys  # these the store knows
        added = {name: kinds[name] for name in keys}
        added[AS_OF] = "int64" if self._clock.is_whole_number else "string"
        user = self._user(signature)  # before the keys are inputs too
        features = signature.input_specs.keys() - signature.optional
        added = {name: kind for name, kind in added.items() if name not in features}
        for name, kind in added.items():
            signature.add_optional(name, _info(_DTYPES[kind]))
        inputs = _Inputs(signature, names)
        signature.wrap(functools.partial(_Filled, self, inputs, frozenset(added), user))

    def _user(self, signature: Signature) -> str | None:
        """The key of all histories of the context, which names a user of `UserStates`."""
        if USER not in signature.optional:
            return None
        names = signature.input_specs.keys() - signature.candidate_names
        keys = {history.by for history in self._definition.histories if history.name in names}
        return keys.pop() if len(keys) == 1 else None

    def fill(self, inputs: Arrays, of: _Inputs, trace: RequestTrace) -> dict[str, np.ndarray]:
        """Inputs with the values of the store where the request has none.

        Args:
            inputs: Of the signature; those of the store may be absent.
            of: The inputs that the store knows.
            trace: Receives how the store answered.
        """
        rows = max((len(array) for array in inputs.values()), default=1)
        filled = {name: inputs.get(name) for name in of.names}
        asked = of.asked(filled)
        if not asked:
            return {**inputs}
        as_of = inputs.get(AS_OF)
        use = StateOfRequest(self._definition.fingerprint.hex(), tuple(sorted(asked)))
        started, values = time.perf_counter(), []
        try:
            for row in range(rows):
                context, candidates = self._keys(inputs, of.signature, row)
                moment = None if as_of is None else _moment(as_of[row])
                resolved = self._reader.values(context, candidates, moment)
                values.append({**resolved.context, **resolved.candidates})
                use.as_of = self._clock.shown(resolved.as_of)
            use.lag_seconds = self._freshness.lag_seconds()
        except StoreUnavailable as error:
            use.is_degraded = True
            values = [{} for _ in range(rows)]
            self._report(error)
        except DataError as error:
            raise InvalidArgument(str(error)) from None
        use.seconds = time.perf_counter() - started
        trace.state = use
        count = next((inputs[n].shape[1] for n in of.signature.candidate_names & inputs.keys()), 0)
        completed = {**inputs}
        for name in asked:
            completed[name] = of.array(name, filled[name], [row.get(name) for row in values], count)
        return completed

    def _report(self, error: StoreUnavailable) -> None:
        """Logs once in a while; the metrics count every request."""
        now = time.monotonic()
        if now >= self._next_report:
            self._next_report = now + _REPORT_SECONDS
            _LOGGER.warning("Requests are answered without the state: %s", error)

    def _keys(
        self, inputs: Arrays, signature: Signature, row: int
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The keys of one request: of its context, and of its candidates."""
        context: dict[str, Any] = {}
        candidates: dict[str, Any] = {}
        for name in self._definition.keys & inputs.keys():
            values = inputs[name][row]
            if name in signature.candidate_names:
                candidates[name] = values
            else:
                context[name] = values.item() if isinstance(values, np.generic) else values
        for name in self._definition.keys - inputs.keys():
            context[name] = None
        return context, candidates


class _Inputs:
    """The inputs of a signature that the store knows."""

    def __init__(self, signature: Signature, names: Iterable[str]) -> None:
        self.signature = signature
        self.names = frozenset(names)
        self._specs: Mapping[str, TensorSpec] = signature.input_specs
        self._axes = {name: 1 + (name in signature.candidate_names) for name in self.names}
        self.events = {name for name in self.names if self._specs[name].history}

    def asked(self, sent: Mapping[str, np.ndarray | None]) -> set[str]:
        """The inputs of which a value is absent; lists of one history are taken together."""
        absent = {
            name
            for name, array in sent.items()
            if array is None or not is_present(array).any(axis=self._list_axis(name)).all()
        }
        sent_histories = {self._specs[name].history for name in self.names - absent} - {""}
        return {name for name in absent if self._specs[name].history not in sent_histories}

    def array(
        self, name: str, sent: np.ndarray | None, values: Sequence[Any], candidates: int
    ) -> np.ndarray:
        """The values of all requests, `(B, ...)`: those that were sent, else those of the store.

        Args:
            name: The input.
            sent: What the request has; None: nothing.
            values: Of the store, for each request; None: nothing.
            candidates: Number of candidates.
        """
        dtype, is_list, width = self._specs[name].raw_form(name, self._axes[name])
        missing = missing_value(dtype)
        if dtype.kind == "O":
            values = [_as_bytes(value) for value in values]
        shape = (len(values), candidates)[: self._axes[name]]
        if not is_list:
            array = np.full(shape, missing, dtype)
            for row, value in enumerate(values):
                if value is not None:
                    array[row] = value
            return array if sent is None else np.where(is_present(sent), sent, array)
        lists = [[None] * candidates if v is None else v for v in values]
        flat = lists if self._axes[name] == 1 else [one for row in lists for one in row]
        array = _padded(flat, dtype, width, missing)
        array = array.reshape(*shape, array.shape[-1])
        if sent is None:
            return array
        longest = max(array.shape[-1], sent.shape[-1])
        both = [_widened(one, longest, missing) for one in (sent, array)]
        return np.where(is_present(sent).any(axis=-1, keepdims=True), *both)

    def _list_axis(self, name: str) -> tuple[int, ...]:
        axes = len(self._specs[name].shape or ())
        return tuple(range(self._axes[name], axes))


class _Filled:
    """Computes a signature from inputs that the store has completed.

    Args:
        state: Completes them.
        inputs: The inputs that the store knows.
        added: Inputs that the computation does not take.
        user: The key that names the user where the request does not; None for no key.
        compute: The computation.
    """

    def __init__(
        self,
        state: StateInputs,
        inputs: _Inputs,
        added: frozenset[str],
        user: str | None,
        compute: Compute,
    ) -> None:
        self._state, self._inputs, self._added, self._user = state, inputs, added, user
        self._compute = compute

    def __call__(
        self, inputs: Arrays, outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        trace.inputs = completed = self._state.fill(inputs, self._inputs, trace)
        taken = {name: array for name, array in completed.items() if name not in self._added}
        if self._user in completed:
            taken.setdefault(USER, _named(completed[self._user]))
        results = self._compute(taken, outputs, trace)
        if trace.state is None or not any(name.startswith(ATTENTION_PREFIX) for name in outputs):
            return results
        events = self._inputs.events & set(trace.state.names)
        return results | {STATE_PREFIX + name: completed[name] for name in events}


def _info(dtype: tf.DType) -> meta_graph_pb2.TensorInfo:
    """One value for each request."""
    info = meta_graph_pb2.TensorInfo(dtype=dtype.as_datatype_enum)
    info.tensor_shape.dim.add(size=-1)
    return info


def _as_bytes(value: Any) -> Any:
    """Texts as the rest of the server has them; of a list its values."""
    if isinstance(value, list):
        return [_as_bytes(one) for one in value]
    return value.encode() if isinstance(value, str) else value


def _named(keys: np.ndarray) -> np.ndarray:
    """Keys as names of users, empty for a missing one."""
    if keys.dtype == object:
        return keys
    pairs = zip(keys.tolist(), is_present(keys), strict=True)
    return np.array([b"%d" % key if is_key else b"" for key, is_key in pairs], object)


def _moment(as_of: Any) -> Any:
    """A time of a request; None for a missing one."""
    value = as_of.item() if isinstance(as_of, np.generic) else as_of
    if value in (b"", MISSING_INT):
        return None
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def _padded(
    lists: Sequence[Sequence[Any] | None], dtype: np.dtype[Any], width: int | None, missing: Any
) -> np.ndarray:
    """Lists as an array, padded on the right; of a longer list the newest values."""
    longest = max((len(one) for one in lists if one), default=0)
    array = np.full((len(lists), max(longest, 1) if width is None else width), missing, dtype)
    for row, one in enumerate(lists):
        if one:
            newest = one[-array.shape[1] :]
            array[row, : len(newest)] = [missing if value is None else value for value in newest]
    return array


def _widened(array: np.ndarray, width: int, missing: Any) -> np.ndarray:
    wide = np.full((*array.shape[:-1], width), missing, array.dtype)
    wide[..., : array.shape[-1]] = array
    return wide
