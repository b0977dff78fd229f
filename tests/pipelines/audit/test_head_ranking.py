"""The heads to keep are those of the largest slope, or of the largest weights."""

import numpy as np
import pytest
import tensorflow as tf

from pipelines.audit.attention import audit_attention
from pipelines.audit.head_ranking import best_heads
from pipelines.audit.sampled_rows import rows_of
from pipelines.feed.chunk import transform
from recsys_attn.models import mlp
from recsys_attn.models.attention_places import head_layers, watch_attention
from tests.support import shop

REQUESTS = 17
HEADS = {"encoder": "transformer", "target_attention": {**shop.TARGET_ATTENTION, "num_heads": 2}}


@pytest.fixture(scope="module")
def table():
    return shop.table(REQUESTS, seed=5)


@pytest.fixture(scope="module")
def model(fitted):
    return shop.model(fitted, interaction={"num_layers": 2, "num_heads": 3}, **HEADS)


def slopes(model, table, fitted):
    """By place and head, the mean size of the logits' slope as all of its output grows."""
    (inputs,) = rows_of(table, fitted)
    inputs = {name: tf.convert_to_tensor(array) for name, array in inputs.items()}

    def logits(place, head, factor):
        def visit(at, call):
            if at != place:
                return call
            scale = np.ones((call.output.shape[2], 1), "float32")
            scale[head] = factor
            return call._replace(output=call.output * scale)

        with watch_attention(model, visit):
            found = model(inputs, training=False)
        return np.stack([found[task][:, 0] for task in ("click", "buy")]).astype(float)

    step, sizes = 1e-2, {}
    for place, layer in head_layers(model).items():
        for head in range(layer.computed_heads):
            moved = [logits(place, head, factor) for factor in (1 + step, 1 - step)]
            sizes[place, head] = np.abs((moved[0] - moved[1]) / (2 * step)).sum(axis=1)
    total = np.sum(list(sizes.values()), axis=0)
    return {unit: float((size / total).mean()) for unit, size in sizes.items()}


def highest(scores, count):
    """The highest of each place, and then of all."""
    ranked = sorted(scores, key=lambda unit: -scores[unit])
    first = {place: (place, head) for place, head in reversed(ranked)}
    kept = list(first.values())
    kept += [unit for unit in ranked if unit not in kept][: count - len(kept)]
    return {place: sorted(head for at, head in kept if at == place) for place in first}


@pytest.mark.thorough
def test_relevance_is_the_slope_of_the_logits(model, table, fitted):
    expected = slopes(model, table, fitted)
    for count in (6, 10):
        assert best_heads(model, table, fitted, count) == highest(expected, count)


@pytest.mark.thorough
def test_confidence_is_that_of_the_audit(model, table, fitted):
    chunk = transform(table, fitted, None, labelled=False)
    labels = {"click": np.full(len(table), np.nan)}
    audited = audit_attention(model, model, chunk, labels, np.arange(len(table)))["places"]
    places = {str(place): place for place in head_layers(model)}
    scores = {
        (places[each["place"]], head): found["confidence"][0]
        for each in audited
        if each["place"] in places
        for head, found in enumerate(each["heads"])
    }
    assert len(scores) == sum(layer.computed_heads for layer in head_layers(model).values())
    assert best_heads(model, table, fitted, 9, "confidence") == highest(scores, 9)


@pytest.mark.parametrize("count", [5, 16])
def test_a_number_of_heads_that_does_not_fit_is_refused(model, table, fitted, count):
    with pytest.raises(ValueError, match=rf"at least 6 heads.*encoder 1.*Received: {count}"):
        best_heads(model, table, fitted, count)


def test_a_model_without_heads_is_refused(table, fitted):
    with pytest.raises(ValueError, match="no place of attention with several heads"):
        best_heads(mlp(fitted.schema, units=(3,)), table, fitted, 2)


@pytest.mark.thorough
def test_confidence_needs_weights(table, fitted):
    model = shop.model(fitted, **{**HEADS, "encoder": "linear_transformer"})
    with pytest.raises(ValueError, match=r"encoder 1 of .* makes no weights"):
        best_heads(model, table, fitted, 6, "confidence")
