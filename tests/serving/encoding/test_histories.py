"""Lists of one history with different lengths are rejected on every way into a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import input_pb2, model_pb2

from serving.client.examples import encode_examples
from serving.common.errors import InvalidArgument
from serving.common.request import RequestContext
from serving.common.request_trace import RequestTrace
from serving.encoding.features import encode_candidates, encode_rows
from serving.encoding.tf_examples import fit_examples
from serving.inference.rank_inputs import rank_inputs
from serving.models.signature import Signature
from serving.rest.rank_bodies import rank_request
from tests.serving.rank_messages import make_rank_request

DTYPES = {"items": 9, "ages": 1, "tags": 7, "price": 1}  # int64, float32, string, float32
HISTORIES = {"items": "clicks", "ages": "clicks", "tags": ""}


def signature(key: str, price_axes: int) -> Signature:
    definition = meta_graph_pb2.SignatureDef()
    for name, dtype in DTYPES.items():
        info = definition.inputs[name]
        info.dtype = dtype
        for _ in range(2 if name in HISTORIES else price_axes):
            info.tensor_shape.dim.add(size=-1)
        info.tensor_shape.dim[-1].name = HISTORIES.get(name, "")
    return Signature(key, definition, lambda inputs, outputs, trace: {})


ROWS, RANK = signature("serving_default", 1), signature("rank", 2)
RANK.share_candidates(ROWS)
ROW, REQUEST = ROWS.input_specs, RANK.input_specs
CANDIDATES = [{"price": 2.5}, {"price": 7.0}, {"price": None}]
WHOLE = {"items": [2, 3, 5], "ages": [7.0, 5.0, 3.0]}
NONE = {"items": None, "ages": None}


def by_rank(of: Signature, context: dict[str, Any]) -> object:
    return rank_inputs(of, make_rank_request("m", context, CANDIDATES))


def by_rest(context: dict[str, Any]) -> object:
    document = {"context": context, "candidates": CANDIDATES}
    return rank_inputs(RANK, rank_request(document, model_pb2.ModelSpec(name="m")))


def by_examples(rows: list[dict[str, Any]], context: dict[str, Any] | None = None) -> None:
    sent = encode_examples(rows, context)
    fit_examples(input_pb2.Input.FromString(sent.SerializeToString()), ROW)


WAYS: dict[str, Callable[[dict[str, Any]], object]] = {
    "client, rows": lambda row: encode_rows([WHOLE, row], ROW),
    "client, a table": lambda row: encode_rows(pa.Table.from_pylist([WHOLE, row]), ROW),
    "client, a context": lambda row: encode_candidates(row, CANDIDATES, REQUEST, ROW),
    "Rank": lambda row: by_rank(RANK, row),
    "Rank by rows": lambda row: by_rank(ROWS, row),
    "Rank, lists of candidates": lambda row: rank_inputs(
        ROWS, make_rank_request("m", {}, [WHOLE, row])
    ),
    ":rank": by_rest,
    "Examples": lambda row: by_examples([WHOLE, row]),
    "Examples with a context": lambda row: by_examples(CANDIDATES, row),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("items", "ages"), [([3, 14], [60.0]), ([3], [60.0, 5.0]), (None, [9.0, 5.0]), ([3], None)]
)
def test_lists_of_two_lengths_are_rejected(way: str, items: Any, ages: Any) -> None:
    received = f"Received: {len(ages or ())} and {len(items or ())} events"
    names = r"Features 'ages' and 'items' of (the context|row 1|candidate 1|Example [01]): "
    with pytest.raises(InvalidArgument, match=f"^{names}expected lists of one length.*{received}"):
        WAYS[way]({"items": items, "ages": ages, "tags": ["x"] * 5})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "row", [WHOLE, NONE, {"items": [3], "ages": [-1.0]}, {"tags": ["x", "y"]}, {}], ids=str
)
def test_lists_of_one_length_are_accepted(way: str, row: dict[str, Any]) -> None:
    WAYS[way](row)


def test_lists_of_an_example_replace_those_of_the_context() -> None:
    sent = encode_examples(CANDIDATES, WHOLE)
    features = sent.example_list_with_context.examples[2].features.feature
    features["items"].int64_list.value.extend([7, 11, 13])
    fit_examples(input_pb2.Input.FromString(sent.SerializeToString()), ROW)
    features["items"].int64_list.value.append(17)
    with pytest.raises(InvalidArgument, match=r"of Example 2: .* 3 and 4 events"):
        fit_examples(input_pb2.Input.FromString(sent.SerializeToString()), ROW)


def test_arrays_of_two_widths_are_rejected() -> None:
    inputs = {
        "items": np.ones((2, 3), np.int64),
        "ages": np.ones((2, 1), np.float32),
        "tags": np.full((2, 5), b"x", object),
        "price": np.ones(2, np.float32),
    }
    trace = RequestTrace(RequestContext("Predict"))
    with pytest.raises(InvalidArgument, match=r"'ages' and 'items' of the request.* 1 and 3"):
        ROWS.run(inputs, (), trace)
    ROWS.run({**inputs, "ages": np.ones((2, 3), np.float32)}, (), trace)
