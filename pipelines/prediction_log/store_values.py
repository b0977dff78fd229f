"""The values that a store gave logged requests, for a sample of the users."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np

from pipelines.prediction_log.decode import array_of
from pipelines.prediction_log.log_folder import LoggedCall
from pipelines.prediction_log.messages import UnreadableCall, parse
from serving.state.columns.missing import MISSING_INT
from serving.state.definitions.definition import StateDefinition
from serving.state.keyed.profiles import decode_profiles
from serving.state.online.clock import Clock
from serving.state.online.request_keys import request_keys
from serving.state.online.static_columns import Read
from serving.state.stores.store import Cell

_AS_OF = "as_of"  # an input of requests that ask for the values of another time
_MOST_ROWS = 2_000_000  # candidates in memory
_MINUTES = 300.0  # seconds that the clock may be away from the time of the answer

KeyBytes = bytes | None  # None: missing


@dataclass(frozen=True)
class ServedRequest:
    """A request that a store completed.

    Attributes:
        request_id: Its id.
        moment: The time of the values, in the unit of the log's times.
        keys: Bytes of each column of a key: of the request, or a list with those of candidates.
        values: What the store gave, by feature: `(...)` of the request, `(T, ...)` of candidates.
    """

    request_id: str
    moment: int | float
    keys: Mapping[str, KeyBytes | list[KeyBytes]]
    values: Mapping[str, np.ndarray]

    @property
    def rows(self) -> int:
        """Number of candidates; 1 if no key is of candidates."""
        return next((len(of) for of in self.keys.values() if isinstance(of, list)), 1)

    @property
    def user(self) -> bytes:
        """The keys of the request itself, or its id if it has none."""
        of = [self.keys[name] for name in sorted(self.keys)]
        parts = [part or b"" for part in of if not isinstance(part, list)]
        return b"".join(parts) or self.request_id.encode()


@dataclass
class StoreLog:
    """What a log says of a store.

    Args:
        definition: The definition of the run's state.
        users: Number of users to sample.
        profiles: Reads the static features that are keys, as `Store.read`.
        versions: Versions whose requests are compared; empty: all.

    Attributes:
        left_out: Requests that are not compared, by reason.
        other: Calls by the fingerprint of another definition.
        wrong_clock: Of the requests as of now, how many have a time away from that of the answer,
            and an example.
        lag: The largest lag of the store behind its log in seconds, if one was logged.
    """

    definition: StateDefinition
    users: int
    profiles: Read
    versions: frozenset[int] = frozenset()
    left_out: Counter[str] = field(default_factory=Counter)
    other: Counter[str] = field(default_factory=Counter)
    wrong_clock: tuple[int, str] = (0, "")
    lag: float | None = None
    _requests: dict[bytes, list[ServedRequest]] = field(default_factory=dict)
    _largest: bytes = b"\xff" * 9  # users of larger hashes have been left out

    @property
    def requests(self) -> list[ServedRequest]:
        """The requests of the users with the smallest hashes."""
        return [request for user in sorted(self._requests) for request in self._requests[user]]

    @property
    def sampled_users(self) -> int:
        """Number of users in the sample."""
        return len(self._requests)

    def read(self, entries: Iterable[LoggedCall], since: int | float | None) -> None:
        """Reads a log.

        Args:
            entries: The calls.
            since: The earliest time of values that are compared; None: any.
        """
        rows = 0
        for entry in entries:
            try:
                requests = self._of_call(entry)
            except UnreadableCall as reason:
                self.left_out[str(reason)] += 1
                continue
            for request in requests:
                if since is not None and request.moment < since:
                    self.left_out["they are of a time before the last row of `ingest`"] += 1
                    continue
                rows += self._add(request)
            while len(self._requests) > self.users or (
                rows > _MOST_ROWS and len(self._requests) > 1
            ):
                self._largest = max(self._requests)
                rows -= sum(request.rows for request in self._requests.pop(self._largest))

    def _add(self, request: ServedRequest) -> int:
        """Takes a request of a user of the sample; returns its rows."""
        user = hashlib.blake2b(request.user, digest_size=8).digest()
        if user >= self._largest:
            return 0
        self._requests.setdefault(user, []).append(request)
        return request.rows

    def _of_call(self, entry: LoggedCall) -> list[ServedRequest]:
        if not entry.state:
            raise UnreadableCall("no value came from a store")
        state = json.loads(entry.state)
        if state["fingerprint"] != self.definition.fingerprint.hex():
            self.other[state["fingerprint"]] += 1
            raise UnreadableCall("their state has another definition")
        if self.versions and entry.version not in self.versions:
            raise UnreadableCall("they are of a version of another run")
        if state["lag_seconds"] is not None:
            self.lag = max(self.lag or 0.0, state["lag_seconds"])
        if state["is_degraded"]:
            raise UnreadableCall("the store did not answer in time")
        kind, log = parse(entry.log)
        if kind != "predict_log":
            raise UnreadableCall("the inputs that were used are not logged")
        names = self.definition.keys | set(state["names"]) | {_AS_OF}
        inputs = {
            name: array_of(name, proto)
            for name, proto in log.request.inputs.items()
            if name in names
        }
        moments = self._moments(inputs, state["as_of"], entry.time)
        return [
            ServedRequest(
                entry.request_id,
                moment,
                self._keys(inputs, row),
                {name: inputs[name][row] for name in state["names"] if name in inputs},
            )
            for row, moment in enumerate(moments)
        ]

    def _moments(
        self, inputs: Mapping[str, np.ndarray], as_of: str, time: datetime
    ) -> list[int | float]:
        """The time of the values of each request of a call."""
        clock = Clock(self.definition, time.timestamp)
        sent = inputs.get(_AS_OF)
        is_now = sent is None or any(value in (b"", MISSING_INT) for value in sent)
        if max(map(len, inputs.values()), default=0) > 1:
            if is_now or sent is None:
                raise UnreadableCall("several requests in one call have no time of their own")
            return [clock.moment(_plain(value)) for value in sent]
        moment = clock.read(as_of)
        if moment is None:
            raise UnreadableCall("the time of their values cannot be read")
        earliest, latest = clock.now(-_MINUTES), clock.now(_MINUTES)
        if not is_now or earliest is None or latest is None:
            return [moment]
        if not earliest <= moment <= latest:
            self.wrong_clock = self.wrong_clock[0] + 1, f"{as_of} at {time:%Y-%m-%d %H:%M:%S}"
        return [moment]

    def _keys(
        self, inputs: Mapping[str, np.ndarray], row: int
    ) -> dict[str, KeyBytes | list[KeyBytes]]:
        keys: dict[str, KeyBytes | list[KeyBytes]] = {}
        for name in self.definition.keys:
            if name not in inputs:
                keys[name] = None
                continue
            kind, values = self.definition.key_kinds[name], inputs[name][row]
            is_one = np.ndim(values) == 0
            of_values = request_keys([_plain(v) for v in np.atleast_1d(values)], kind, name)
            keys[name] = of_values[0] if is_one else of_values
        return keys | self._static_keys(inputs, keys)

    def _static_keys(
        self, inputs: Mapping[str, np.ndarray], keys: Mapping[str, KeyBytes | list[KeyBytes]]
    ) -> dict[str, KeyBytes | list[KeyBytes]]:
        """The keys that are static features, as a category of the item table, and no inputs."""
        of_static: dict[str, KeyBytes | list[KeyBytes]] = {}
        for static in self.definition.static:
            ids = keys[static.key]
            names = {field.name for field in static.features} & self.definition.static_keys
            if not names.difference(inputs):
                continue
            rows = ids if isinstance(ids, list) else [ids]
            present = [Cell(static.fingerprint, (one,)) for one in rows if one is not None]
            blobs = iter(self.profiles(present))
            profiles = decode_profiles(
                static, [one if one is None else next(blobs) for one in rows]
            )
            for name in names.difference(inputs):
                values = request_keys(profiles[name], self.definition.key_kinds[name], name)
                of_static[name] = values if isinstance(ids, list) else values[0]
        return of_static


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return value.decode(errors="replace") if isinstance(value, bytes) else value
