"""Signatures of serialized Examples: one trace of the model, one context."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.export.serving_module import ServingModule
from pipelines.export.tf_examples import example_request, example_rows
from pipelines.scoring.scorer import Scorer
from recsys_attn.schema import Schema
from tests.support import shop

NAMES = ("user", "age", "item", "brand", "tags", "sales", "past_items", "past_brands")
SCHEMA = Schema(tuple(f for f in shop.SCHEMA.features if f.name in NAMES), shop.SCHEMA.tasks)
TABLE = shop.table(1, seed=7, longest=5, schema=SCHEMA)
ROWS = TABLE.num_rows


@pytest.fixture(scope="module")
def traced():
    """The model's scores of `TABLE`, its signatures, and how often the model was traced."""
    fitted = shop.fitted(SCHEMA)
    model = shop.linear_model(fitted)
    module = ServingModule(model, fitted)
    calls = []
    probabilities = module._model

    def counted(inputs):
        calls.append(inputs)
        return probabilities(inputs)

    module._model = counted
    return Scorer(model).score_table(TABLE, fitted, None), module.signatures(), len(calls)


@pytest.fixture
def answer(traced):
    """Scores of `TABLE`'s rows by task, of serialized messages or of Examples."""

    def run(signature, **inputs):
        messages = {
            name: [m if isinstance(m, bytes) else m.SerializeToString() for m in given]
            for name, given in inputs.items()
        }
        tensors = {name: tf.constant(given, tf.string) for name, given in messages.items()}
        return {name: p.numpy() for name, p in traced[1][signature](**tensors).items()}

    return run


def request():
    """The Examples of `TABLE` as a context and candidates."""
    inputs = example_request(SCHEMA, TABLE)
    (context,), candidates = (
        [tf.train.Example.FromString(message) for message in inputs[name]]
        for name in ("context", "examples")
    )
    return context, candidates


def same(found, expected):
    for task in ("click", "buy"):
        assert len(np.unique(expected[task])) > 1, "all rows score alike"
        np.testing.assert_allclose(found[task], expected[task], rtol=0, atol=1e-6)


def test_model_is_traced_twice(traced):
    _, signatures, calls = traced
    assert calls == 2
    for name, of in (("examples", "serving_default"), ("examples_with_context", "rank")):
        called = [
            operation.get_attr("f").name
            for operation in signatures[name].graph.get_operations()
            if operation.type == "StatefulPartitionedCall"
        ]
        assert called == [signatures[of].name.decode()]


def test_examples_score_as_the_training_path(traced, answer):
    assert ROWS > 2
    same(answer("examples", **example_rows(SCHEMA, TABLE)), traced[0])
    same(answer("examples_with_context", **example_request(SCHEMA, TABLE)), traced[0])


def test_candidate_feature_in_context_is_the_default(answer):
    context, candidates = request()
    expected = [tf.train.Example.FromString(c.SerializeToString()) for c in candidates]
    values = {
        "item": tf.train.Feature(int64_list=tf.train.Int64List(value=[7])),
        "tags": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"a", b"b"])),
    }
    for i, (example, complete) in enumerate(zip(candidates, expected, strict=True)):
        for name, value in values.items():
            if i > 0:  # the first one has its own
                example.features.feature.pop(name, None)
                complete.features.feature[name].CopyFrom(value)
    of_all = tf.train.Example(features=tf.train.Features(feature=values))
    of_all.MergeFrom(context)
    assert values.keys() <= set(candidates[0].features.feature)
    same(
        answer("examples_with_context", context=[of_all], examples=candidates),
        answer("examples_with_context", context=[context], examples=expected),
    )


def test_a_contexts_feature_in_a_candidate_is_not_read(traced, answer):
    context, candidates = request()
    for example in candidates:
        example.features.feature["user"].bytes_list.value[:] = [b"somebody else"]
        example.features.feature["past_items"].int64_list.value[:] = [7, 13]
    same(answer("examples_with_context", context=[context], examples=candidates), traced[0])


def test_there_may_be_no_candidates_and_no_features(answer):
    assert answer("examples_with_context", context=[b""], examples=[])["click"].shape == (0,)
    nothing = answer("examples", inputs=[b"", b""])
    shared = answer("examples_with_context", context=[b""], examples=[b"", b""])
    for task in ("click", "buy"):
        np.testing.assert_allclose(shared[task], nothing[task], rtol=0, atol=1e-6)
