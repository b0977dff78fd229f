"""DESTINE's attention equals its two softmaxes, and its means leave padding out."""

from __future__ import annotations

import keras
import numpy as np

from recsys_attn.attention import (
    Attention,
    Disentangled,
    HeadGroups,
    MultiHeadAttention,
    Recurrence,
)
from recsys_attn.interactions import TargetAttention
from tests.support.arrays import assert_close
from tests.support.reference import softmax_weights
from tests.support.refusals import refusals

B, S, N, H, V = 2, 5, 3, 7, 4
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE = (RNG.normal(size=(B, S, N, size)).astype("float32") for size in (H, H + 1, V))
MASK = np.array([[1, 1, 0, 1, 0], [0, 0, 0, 0, 0]], bool)  # one with padding, one without keys
EVENTS = RNG.normal(size=(B, S, 11)).astype("float32")


def expected(row: int, head: int, there: np.ndarray, scale: bool) -> np.ndarray:
    """The weights (S, S) of one head, from the paper's equation."""
    query, key = (x[row, :, head].astype("float64") for x in (QUERY, KEY))
    pairs, unary = key[:, :H], key[:, H]
    mean_query = query[there].mean(axis=0) if there.any() else np.zeros(H)
    mean_key = pairs[there].mean(axis=0) if there.any() else np.zeros(H)
    weights = np.zeros((S, S))
    for t in np.flatnonzero(there):
        logits = [(query[t] - mean_query) @ (pairs[s] - mean_key) for s in range(S)]
        logits = np.array(logits) / (np.sqrt(H) if scale else 1)
        weights[t] = softmax_weights(logits[None], there[None])[0]
        weights[t] += softmax_weights(unary[None], there[None])[0]
    return weights


def test_weights_are_two_softmaxes() -> None:
    for scale, mask in ((False, None), (True, MASK)):
        masks = {} if mask is None else {"query_mask": mask, "key_mask": mask}
        output, weights = Disentangled(scale)(QUERY, KEY, VALUE, **masks)
        output, weights = (keras.ops.convert_to_numpy(x) for x in (output, weights))
        for row, head in np.ndindex(B, N):
            there = np.ones(S, bool) if mask is None else mask[row]
            own = expected(row, head, there, scale)
            assert_close(weights[row, head], own)
            assert_close(output[row, :, head], own @ VALUE[row, :, head].astype("float64"))
            assert_close(weights[row, head].sum(axis=-1), 2.0 * there)


def test_a_shift_of_all_queries_or_keys_changes_nothing() -> None:
    """The pairwise term is only about differences between events."""
    _, weights = Disentangled()(QUERY, KEY, VALUE)
    _, moved = Disentangled()(QUERY + 3, KEY - 2, VALUE)
    assert_close(moved, keras.ops.convert_to_numpy(weights), atol=1e-4)


def test_dropout_falls_on_the_sum_of_both() -> None:
    keras.utils.set_random_seed(0)
    output, weights = Disentangled(dropout=0.999)(QUERY, KEY, VALUE, training=True)
    assert_close(keras.ops.sum(weights, axis=-1), np.full((B, N, S), 2.0))
    zeros = (keras.ops.convert_to_numpy(output) == 0).all(axis=-1)
    assert zeros.mean() > 0.9  # neither term survives alone


test_what_would_depend_on_other_queries_is_refused = refusals(
    (lambda: TargetAttention("disentangled"), "queries from elsewhere"),
    (lambda: MultiHeadAttention(2, 4, "disentangled")(EVENTS, EVENTS[:, :3]), "must be one tensor"),
    (
        lambda: Attention("disentangled")(EVENTS, EVENTS),
        "one channel more than queries.*MultiHeadAtt",
    ),
    (
        lambda: MultiHeadAttention(2, 4, HeadGroups(["disentangled", "transformer"]))(EVENTS),
        "one channel more than queries",
    ),
)
test_masks_of_pairs_are_refused = refusals(
    (
        lambda: MultiHeadAttention(2, 4, "disentangled")(
            EVENTS, attention_mask=np.ones((B, S, S), bool)
        ),
        "would still count in the means",
    ),
    (lambda: Recurrence(MultiHeadAttention(2, 4, "disentangled")), "has no state"),
    error=TypeError,
)
