"""A request has the same scores in a batch as alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import meta_graph_pb2

from serving.batching.batched import Batched, Fill
from serving.batching.scheduler import BatchScheduler
from serving.common.errors import InvalidArgument
from serving.common.request_trace import RequestTrace
from serving.config.batching import BatchingParameters
from serving.encoding.raw_values import missing_value
from serving.models.signature import Signature
from tests.serving.traces import trace

ROWS = {"user": (tf.string, (-1,)), "history": (tf.string, (-1, -1)), "price": (tf.float32, (-1,))}
RANK = {**ROWS, "price": (tf.float32, (-1, -1))}


def definition(inputs: Mapping[str, Any], axes: int) -> meta_graph_pb2.SignatureDef:
    definition = meta_graph_pb2.SignatureDef()
    for name, (dtype, shape) in inputs.items():
        definition.inputs[name].dtype = dtype.as_datatype_enum
        for size in shape:
            definition.inputs[name].tensor_shape.dim.add(size=size)
    definition.outputs["score"].dtype = tf.float32.as_datatype_enum
    for _ in range(axes):
        definition.outputs["score"].tensor_shape.dim.add(size=-1)
    return definition


class Model:
    """score = letters of the user + 10 * events + price, of rows or of candidates."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def __call__(
        self, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], trace: RequestTrace
    ) -> dict[str, np.ndarray]:
        self.rows.append(len(inputs["user"]))
        letters = np.array([len(user) for user in inputs["user"]], np.float32)
        events = (inputs["history"] != b"").sum(1)
        shared = letters + 10 * events
        price = inputs["price"]
        return {"score": (shared if price.ndim == 1 else shared[:, None]) + price}


Ask = Callable[[dict[str, np.ndarray]], np.ndarray]


def _batched(
    model: Model, rank: bool = False, fill: Fill | None = missing_value, **parameters: Any
) -> Ask:
    """Returns the computation of a signature in batches, one at a time."""
    key, inputs = ("rank", RANK) if rank else ("serving_default", ROWS)
    settings = BatchingParameters(**parameters)
    signature = Signature(key, definition(inputs, 1 + rank), model)
    if rank:
        signature.share_candidates(Signature("serving_default", definition(ROWS, 1), model))
    scheduler = BatchScheduler(1)
    signature.wrap(lambda compute: Batched(signature, compute, scheduler, settings, fill))
    return lambda inputs: signature.run(inputs, ["score"], trace())["score"]


def scores_of(inputs: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns the scores of a request that is computed alone."""
    return Model()(inputs, ["score"], trace())["score"]


def request(seed: int, rank: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    rows, events, candidates = 1 + seed % 3, seed % 5, 1 + seed % 7
    shape = (rows, candidates) if rank else (rows,)
    return {
        "user": np.array([b"u" * n for n in rng.integers(0, 5, rows)], object),
        "history": np.array([[b"i"] * events] * rows, object).reshape(rows, events),
        "price": rng.random(shape, np.float32),
    }


@pytest.mark.parametrize("rank", [False, True])
@pytest.mark.parametrize("fill", [missing_value, None])
def test_concurrent_requests_get_their_own_scores(rank: bool, fill: Fill | None) -> None:
    model = Model()
    ask = _batched(
        model, rank, fill, max_batch_size=50, max_enqueued_batches=999, batch_timeout_micros=500
    )
    requests = [request(seed, rank) for seed in range(200)]
    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(ask, requests))
    for sent, scores in zip(requests, found, strict=True):
        np.testing.assert_array_equal(scores, scores_of(sent))
    if fill:  # without it, requests of unlike shapes are kept apart
        assert len(model.rows) < len(requests), "some were computed together"


def test_a_batch_is_padded_to_an_allowed_size() -> None:
    model = Model()
    ask = _batched(model, max_batch_size=8, allowed_batch_sizes=(2, 5, 8))
    for seed in range(3):
        sent = request(seed)
        np.testing.assert_array_equal(ask(sent), scores_of(sent))
    assert model.rows == [2, 2, 5]


def test_a_padded_empty_list_stays_strings() -> None:
    model = Model()
    ask = _batched(
        model, fill=None, pad_variable_length_inputs=True, max_batch_size=2,
        batch_timeout_micros=5_000_000,
    )  # fmt: skip
    one = {"user": np.array([b"u"], object), "price": np.float32([0])}
    requests = [{**one, "history": np.empty((1, events), object)} for events in (0, 1)]
    requests[1]["history"][:] = b""
    with ThreadPoolExecutor(2) as pool:
        found = pool.map(ask, requests)
    assert [scores.tolist() for scores in found] == [[1.0], [1.0]]
    assert model.rows == [2]


def test_too_large_a_request_is_rejected() -> None:
    sent = {name: np.repeat(array, 4, 0) for name, array in request(2).items()}
    with pytest.raises(
        InvalidArgument, match="Task size 12 is larger than maximum input batch size 10"
    ):
        _batched(Model(), max_batch_size=10)(sent)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"max_batch_size": 0}, "`max_batch_size` must be a positive number. Received: 0"),
        ({"num_batch_threads": 0}, "`num_batch_threads` must be a positive number"),
        ({"batch_timeout_micros": -1}, "`batch_timeout_micros` must not be negative"),
        ({"allowed_batch_sizes": (4, 2), "max_batch_size": 2}, "must be positive and increasing"),
        ({"allowed_batch_sizes": (2, 4), "max_batch_size": 8}, "must be the largest batch, 8"),
        ({"max_execution_batch_size": 8}, "needs `enable_large_batch_splitting`: set both"),
        ({"max_execution_batch_size": 2000, "enable_large_batch_splitting": True},
         "must not be larger than"),
    ],
)  # fmt: skip
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        BatchingParameters(**parameters)


def test_a_warm_up_takes_no_slot() -> None:
    """Its thread has a low priority, and would keep the slot for long on a busy machine."""
    model, held, leave = Model(), threading.Event(), threading.Event()

    def slow(inputs: Any, outputs: Sequence[str], trace: RequestTrace) -> dict[str, np.ndarray]:
        if not held.is_set():  # the warm-up, which comes first
            held.set()
            leave.wait(10.0)
        return model(inputs, outputs, trace)

    signature = Signature("serving_default", definition(ROWS, 1), slow)
    settings = BatchingParameters(allowed_batch_sizes=(4,), max_batch_size=4)
    scheduler = BatchScheduler(1)
    signature.wrap(lambda compute: Batched(signature, compute, scheduler, settings, missing_value))
    one, soon = request(2), trace(remaining=lambda: 1.0)
    with ThreadPoolExecutor(1) as pool:
        warm_up = pool.submit(lambda: signature.run(one, ["score"], trace(entrypoint="WARMUP")))
        held.wait(5.0)
        answer = signature.run(one, ["score"], soon)["score"]
        leave.set()
        np.testing.assert_array_equal(warm_up.result()["score"], answer)
    assert model.rows == [4, 4], "in allowed sizes"
