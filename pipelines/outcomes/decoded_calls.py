"""Logged calls as requests with their candidates, their keys and their times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.features import FittedFeatures
from pipelines.outcomes.layout import Layout
from pipelines.prediction_log.decode import LoggedRequests, decode_parsed
from pipelines.prediction_log.messages import UnreadableCall, parse, sampling_rate
from recsys_attn.schema import Categorical, Feature, Numeric, Schema
from serving.state.definitions.key_kinds import key_kind

_AS_OF = "as_of"  # an input of requests that ask for the values of another time

Tick = int | float


class Call(NamedTuple):
    """A call of a log.

    Attributes:
        values: The columns of the log.
        tick: The time of its request.
        place: Its place among the calls of its hour, in the order of time.
        is_again: Whether another version has answered the same request before.
    """

    values: dict[str, Any]
    tick: Tick
    place: int
    is_again: bool


class CallRequests(NamedTuple):
    """The requests of a call, and their times `(requests,)`."""

    call: Call
    requests: LoggedRequests
    ticks: np.ndarray


@dataclass
class CallDecoder:
    """Decodes the calls of an hour.

    Args:
        layout: The columns of rows.
        fitted: The transforms, which know the schema of a request.
        grouped: Whether consecutive rows with the same context are one request.
        begin, end: The first time of a request, and the first that is too late.

    Attributes:
        left_out: Calls that do not fit the schema, by reason.
        sampling_rate: The share of the requests that the log has; None before the first call.
    """

    layout: Layout
    fitted: FittedFeatures
    grouped: bool
    begin: Tick
    end: Tick
    left_out: Counter[str] = field(default_factory=Counter)
    sampling_rate: float | None = None
    _schemas: dict[frozenset[str], Schema] = field(default_factory=dict)

    def decode(self, calls: Iterable[Call]) -> Iterator[CallRequests]:
        """The calls that fit the schema; the others are counted."""
        for call in calls:
            content = call.values["log"]
            try:
                kind, log = parse(content)
                if self.sampling_rate is None:
                    self.sampling_rate = sampling_rate(content)
                names = log.request.inputs.keys() if kind == "predict_log" else ()
                schema = self._schema(frozenset(names))
                requests = decode_parsed(kind, log, schema, self.grouped)
                yield CallRequests(call, requests, self._ticks(call, requests))
            except UnreadableCall as reason:
                self.left_out[str(reason)] += 1

    def _schema(self, inputs: frozenset[str]) -> Schema:
        """The schema of a request, with the keys and the time of its values if it has them."""
        present = inputs & {*self.layout.keys.names, _AS_OF}
        if present not in self._schemas:
            is_number = pa.types.is_integer(self.layout.times.kind)
            kinds = {one.name: one.type for one in self.layout.keys}
            kinds[_AS_OF] = pa.int64() if is_number else pa.string()
            added = [_input(name, kinds[name]) for name in sorted(present)]
            raw = self.fitted.raw_schema
            self._schemas[present] = replace(raw, features=(*raw.features, *added))
        return self._schemas[present]

    def _ticks(self, call: Call, requests: LoggedRequests) -> np.ndarray:
        """The times of the requests of a call: of several each may have its own."""
        ticks = np.full(len(requests.lengths), call.tick)
        if len(ticks) > 1 and _AS_OF in requests.context.column_names:
            for number, value in enumerate(requests.context[_AS_OF].to_pylist()):
                sent = None if value is None else self.layout.times.of_text(str(value))
                ticks[number] = call.tick if sent is None else sent
        if not ((ticks >= self.begin) & (ticks < self.end)).all():
            raise UnreadableCall("its requests are as of times of several hours")
        return ticks


def _input(name: str, kind: pa.DataType) -> Feature:
    """An input that is no feature, as one of the context."""
    of_key = key_kind(kind)
    if of_key == "float64":
        return Numeric(name, "context")
    return Categorical(name, "context", dtype="string" if of_key == "string" else "int64")
