"""Exported explanations, against the model's own and a loop over raw events."""

from types import SimpleNamespace

import keras
import numpy as np
import pyarrow as pa
import pytest

from pipelines.export.raw_inputs import raw_request
from pipelines.export.serving_module import ServingModule
from pipelines.storage.columns import arrow_type
from recsys_attn.schema import UNKNOWN_ID, Schema, is_listed
from tests.support import shop
from tests.support.exports import call

NAMES = ("user", "item", "brand", "past_items", "past_brands", "searches")
SCHEMA = Schema(tuple(f for f in shop.SCHEMA.features if f.name in NAMES), shop.SCHEMA.tasks)
ITEMS, BRANDS = (0, -1, 7, 13), ("a", "b", "über")
EVENTS = [(ITEMS[i % 4], BRANDS[i % 3]) for i in range(12)]
GONE, HALF = (None, None), (7, None)  # no event at all; one of which half is missing
HISTORIES = {
    "padded": (EVENTS[:3], ["a"]),
    "missing in the middle": ([EVENTS[0], GONE, HALF, GONE, EVENTS[1]], ["a", None, "b"]),
    "missing at the ends": ([GONE, EVENTS[0], HALF, GONE], [None]),
    "over-long": ([*EVENTS[:4], GONE, *EVENTS[4:8], HALF, GONE, *EVENTS[8:]], ["a", "b", "c", "d"]),
    "unknown": ([(999, "?"), EVENTS[0], (999, "a"), (999, "?")], ["?", "a"]),
    "just fitting": (EVENTS[:5], ["a", "b"]),
    "nothing but missing": ([GONE, GONE, GONE], []),
    "empty": ([], []),
}


@pytest.fixture(scope="module")
def fitted():
    return shop.fitted(SCHEMA)


UNIT = {"class_name": "interest", "config": {"units": [5]}}
ONE_BUCKET = {"class_name": "reformer", "config": {"size": 5, "buckets": 1}}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(UNIT, id="dense"),
        pytest.param(ONE_BUCKET, id="fast", marks=pytest.mark.thorough),
    ],
)
def model(fitted, request):
    return shop.model(fitted, target_attention=request.param)


@pytest.fixture(scope="module")
def module(fitted, model):
    """The signatures as they are before they are saved."""
    module = ServingModule(model, fitted)  # kept, as it holds the lookup tables
    return SimpleNamespace(module=module, signatures=module.signatures())


def request(history):
    """A request of three candidates with these past events and searches."""
    events, searches = HISTORIES[history]
    context = {
        "user": "a",
        "past_items": [item for item, _ in events],
        "past_brands": [brand for _, brand in events],
        "searches": searches,
    }
    rows = [{**context, "item": item, "brand": "b"} for item in (7, 13, None)]
    types = {f.name: arrow_type(f.dtype, is_listed(f)) for f in SCHEMA.features}
    return pa.table({n: pa.array([row[n] for row in rows], kind) for n, kind in types.items()})


def expected_attention(model, fitted, table, events, name, length):
    """The weights of the training path, each brought to where its event stands in the raw list."""
    context = fitted.apply(table.slice(0, 1), "context")
    candidates = {n: a[None] for n, a in fitted.apply(table, "candidate").items()}
    weights = model.explain({**context, **candidates})[1][f"attention/{name}"]
    weights = keras.ops.convert_to_numpy(weights)
    happened = [i for i, event in enumerate(events) if event not in (GONE, None)][-length:]
    expected = np.zeros((1, 3, len(events)), "float32")
    for place, i in enumerate(happened):
        expected[0, :, i] = weights[0, :, place]
    return expected


def is_known(fitted, names, event):
    values = event if isinstance(event, tuple) else (event,)
    types = [arrow_type(fitted.schema[name].dtype) for name in names]
    return any(
        fitted.transform_of(name).apply(pa.array([value], kind))[0] > UNKNOWN_ID
        for name, value, kind in zip(names, values, types, strict=True)
    )


@pytest.mark.parametrize("history", HISTORIES)
def test_known_events_are_marked(fitted, module, history):
    events, searches = HISTORIES[history]
    found = call(module, "rank_explained", raw_request(fitted.schema, request(history)))
    for name, columns, sent, length in (
        ("history", ("past_items", "past_brands"), events, 5),
        ("searches", ("searches",), searches, 2),
    ):
        seen = [i for i, event in enumerate(sent) if event not in (GONE, None)][-length:]
        expected = [i in seen and is_known(fitted, columns, sent[i]) for i in range(len(sent))]
        for marks in found[f"known/{name}"][0]:
            np.testing.assert_array_equal(marks[: len(sent)], expected)
    if history == "unknown":
        assert found["known/searches"][0, 0, :2].tolist() == [0, 1]  # brands are hashed: all known


@pytest.mark.parametrize("history", HISTORIES)
def test_weights_are_in_the_order_of_raw_events(model, fitted, module, history):
    table = request(history)
    events, searches = HISTORIES[history]
    raw = raw_request(fitted.schema, table)
    found = call(module, "rank_explained", raw)
    for name, sent, length in (("history", events, 5), ("searches", searches, 2)):
        expected = expected_attention(model, fitted, table, sent, name, length)
        weights = found[f"attention/{name}"]
        # An empty list is sent as one missing value.
        assert weights.shape == (1, 3, max(len(sent), 1))
        np.testing.assert_allclose(weights[..., : len(sent)], expected, rtol=0, atol=1e-6)
        happened = [event not in (GONE, None) for event in sent]
        assert np.count_nonzero(weights[0, 0]) == min(sum(happened), length)


def test_explained_scores_equal_rank(model, fitted, module):
    table = request("over-long")
    raw = raw_request(fitted.schema, table)
    found = call(module, "rank_explained", raw)
    for task, scores in call(module, "rank", raw).items():
        np.testing.assert_allclose(found[task], scores, rtol=0, atol=1e-6)
    context = fitted.apply(table.slice(0, 1), "context")
    candidates = {n: a[None] for n, a in fitted.apply(table, "candidate").items()}
    gates = model.explain({**context, **candidates})[1]
    for task in ("click", "buy"):
        assert found[f"gate/{task}"].shape == (1, 3, 2)
        np.testing.assert_allclose(found[f"gate/{task}"], gates[f"gate/{task}"], rtol=0, atol=1e-6)


@pytest.mark.parametrize("lengths", [(0, 0), (0, 4), (4, 0), (7, 4)])
def test_sequences_of_other_lengths_count_along_the_longest(fitted, module, lengths):
    """A client may send one of the aligned sequences shorter, or with no values at all."""
    raw = raw_request(fitted.schema, request("over-long"))
    for name, length in zip(("past_items", "past_brands"), lengths, strict=True):
        raw[name] = raw[name][:, :length]
    weights = call(module, "rank_explained", raw)["attention/history"]
    assert weights.shape == (1, 3, max(lengths))
    happened = [event != GONE for event in HISTORIES["over-long"][0][: max(lengths)]]
    expected = np.zeros(max(lengths), bool)
    expected[np.flatnonzero(happened)[-5:]] = True
    np.testing.assert_array_equal(weights[0, 0] != 0, expected)


def test_a_model_with_nothing_to_explain_has_no_such_signature(fitted):
    signatures = ServingModule(shop.linear_model(fitted), fitted).signatures()
    assert "rank" in signatures
    assert "rank_explained" not in signatures


def test_requests_are_explained_side_by_side(fitted, module):
    """Each request's weights stand where they would alone, whatever the others' lengths."""
    raws = [raw_request(fitted.schema, request(history)) for history in HISTORIES]
    missing = {"string": "", "int64": np.iinfo("int64").min}

    def padded(feature, array):
        if not is_listed(feature):
            return array
        widths = [(0, 0)] * (array.ndim - 1) + [(0, 15 - array.shape[-1])]
        return np.pad(array, widths, constant_values=missing[feature.dtype])

    together = {
        f.name: np.concatenate([padded(f, raw[f.name]) for raw in raws]) for f in SCHEMA.features
    }
    found = call(module, "rank_explained", together)
    for i, raw in enumerate(raws):
        alone = call(module, "rank_explained", raw)
        for name, weights in alone.items():
            row = found[name][i]
            if name.startswith(("attention/", "known/")):
                width = weights.shape[-1]
                assert not row[:, width:].any()
                row = row[:, :width]
            np.testing.assert_allclose(row, weights[0], rtol=0, atol=1e-6)
