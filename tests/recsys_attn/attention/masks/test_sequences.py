"""Masks made of the batch equal loops and enumerations by hand, and keep apart what they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Attention, Dense, masks
from recsys_attn.attention.patterns import Causal, Prefix
from tests.support.layer_case import tensorflow
from tests.support.references import masks as reference
from tests.support.refusals import refusals

B, T, S = 3, 2, 7
RNG = np.random.default_rng(0)
LENGTHS = np.array([0, 3, 7])
HISTORY_MASK = RNG.random((B, S)) < 0.6
SEGMENTS = np.array([[0] * 7, [0, 0, 0, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1, 1]])
ORDERS = np.array([RNG.permutation(S) for _ in range(B)])
QUERY_TIMES, KEY_TIMES = RNG.integers(0, 30, (B, T)), RNG.integers(0, 30, (B, S))


def array(mask: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(mask)


MADE: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "padding": (lambda x: masks.padding(x, S), (LENGTHS,), reference.padding(LENGTHS, S)),
    "prefix": (lambda x: masks.prefix(x, S), (LENGTHS,), reference.prefix(LENGTHS, S)),
    "sequence_to_sequence": (
        masks.sequence_to_sequence,
        (SEGMENTS,),
        reference.sequence_to_sequence(SEGMENTS),
    ),
    "content of a permutation": (
        lambda x: masks.permutation(x)[0],
        (np.argsort(ORDERS),),
        reference.permutation(ORDERS)[0],
    ),
    "query of a permutation": (
        lambda x: masks.permutation(x)[1],
        (np.argsort(ORDERS),),
        reference.permutation(ORDERS)[1],
    ),
    "candidates": (
        lambda x: masks.candidates(x, T),
        (HISTORY_MASK,),
        reference.candidates(HISTORY_MASK, T, False),
    ),
    "candidates over a causal history": (
        lambda x: masks.candidates(x, T, causal=True),
        (HISTORY_MASK,),
        reference.candidates(HISTORY_MASK, T, True),
    ),
    "time_gaps": (
        lambda x, y: masks.time_gaps(x, y, maximum=9, minimum=2),
        (QUERY_TIMES, KEY_TIMES),
        reference.time_gaps(QUERY_TIMES, KEY_TIMES, 9, 2),
    ),
    "recency": (masks.recency, (HISTORY_MASK,), reference.recency(HISTORY_MASK)),
}


@pytest.mark.parametrize(("make", "inputs", "expected"), MADE.values(), ids=MADE)
def test_a_mask_equals_a_loop_over_pairs(
    make: Callable[..., Any], inputs: tuple[Any, ...], expected: np.ndarray
) -> None:
    mask = array(make(*inputs))
    np.testing.assert_array_equal(mask, expected)
    assert mask.dtype == ("bool" if expected.dtype == bool else "int32")
    np.testing.assert_array_equal(make(*[x.tolist() for x in inputs]), expected)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("make", "inputs", "expected"), MADE.values(), ids=MADE)
def test_a_graph_makes_it_of_unknown_sizes(
    make: Callable[..., Any], inputs: tuple[Any, ...], expected: np.ndarray
) -> None:
    tf = tensorflow()
    specs = [tf.TensorSpec([None] * x.ndim, x.dtype) for x in inputs]
    np.testing.assert_array_equal(tf.function(make, input_signature=specs)(*inputs), expected)


def test_unilm_by_hand() -> None:
    """Two of the source, two of the target: the source does not see the target."""
    expected = [
        [1, 1, 0, 0],
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [1, 1, 1, 1],
    ]
    np.testing.assert_array_equal(masks.sequence_to_sequence([[0, 0, 1, 1]]), [expected])
    np.testing.assert_array_equal(masks.prefix([2], 4), [expected])
    np.testing.assert_array_equal(Prefix(2).matrix(4), [expected])


def test_xlnet_by_hand() -> None:
    """The order 2, 0, 3, 1, so that position 0 is the second, 1 the last, and so on."""
    content, query = masks.permutation([[1, 3, 0, 2]])
    np.testing.assert_array_equal(
        content,
        [
            [
                [1, 0, 1, 0],
                [1, 1, 1, 1],
                [0, 0, 1, 0],
                [1, 0, 1, 1],
            ]
        ],
    )
    np.testing.assert_array_equal(
        query,
        [
            [
                [0, 0, 1, 0],
                [1, 0, 1, 1],
                [0, 0, 0, 0],
                [1, 0, 1, 0],
            ]
        ],
    )


def test_an_order_from_left_to_right_is_causal() -> None:
    content, query = masks.permutation(np.arange(S)[None])
    np.testing.assert_array_equal(content, Causal().matrix(S))
    np.testing.assert_array_equal(query, np.tril(np.ones((1, S, S)), -1))


def test_positions_of_the_lowest_rank_are_seen_by_all_contents() -> None:
    content, query = map(array, masks.permutation([[-1, 1, 0, -1]]))
    assert content[0, :, [0, 3]].all()
    assert query[0, 1:3][:, [0, 3]].all()
    assert not query[0, [0, 3]].any()


@pytest.mark.parametrize("causal", [False, True])
def test_candidates_do_not_change_each_other_nor_the_history(causal: bool) -> None:
    history, items = (RNG.normal(size=(B, size, 5)).astype("float32") for size in (S, 4))
    layer = Attention(Dense("scaled_dot"))

    def outputs(items: np.ndarray) -> np.ndarray:
        x = np.concatenate([history, items], axis=1)
        mask = masks.candidates(HISTORY_MASK, items.shape[1], causal)
        return array(layer(x, x, attention_mask=mask))

    together = outputs(items)
    for item in range(4):
        alone = outputs(items[:, item : item + 1])
        np.testing.assert_allclose(alone[:, :S], together[:, :S], atol=1e-6)
        np.testing.assert_allclose(alone[:, S], together[:, S + item], atol=1e-6)


def test_recency_does_not_depend_on_where_the_padding_stands() -> None:
    right, left = np.array([[1, 1, 1, 0, 0]]), np.array([[0, 0, 1, 1, 1]])
    np.testing.assert_array_equal(array(masks.recency(right))[:, :3], [[-3, -2, -1]])
    np.testing.assert_array_equal(array(masks.recency(left))[:, 2:], [[-3, -2, -1]])


def test_times_are_compared_exactly() -> None:
    seconds = 2_000_000_000
    mask = masks.time_gaps(np.array([[seconds]]), np.array([[seconds - 3, seconds + 1]]), 2)
    np.testing.assert_array_equal(mask, [[[False, False]]])


test_another_shape_is_refused = refusals(
    (lambda: masks.padding([[1]], 3), r"`lengths` must have shape \(B,\). Rec.*\(1, 1\)"),
    (lambda: masks.prefix(2, 3), r"`lengths` must have shape \(B,\). Received: .*=\(\)"),
    (
        lambda: masks.sequence_to_sequence([0, 1]),
        r"`segments` must have shape \(B, S\). Received: segments.shape=\(2,\)",
    ),
    (lambda: masks.permutation([0, 1]), r"`ranks` must have shape \(B, S\)"),
    (lambda: masks.candidates([True], 2), r"`history_mask` must have shape \(B, S\)"),
    (lambda: masks.recency([True]), r"`key_mask` must have shape \(B, S\)"),
    (lambda: masks.time_gaps([1], [[1]], 2), r"`query_times` must have shape \(B, T\)"),
    (lambda: masks.time_gaps([[1]], [1], 2), r"`key_times` must have shape \(B, S\)"),
    (lambda: masks.time_gaps([[1]], [[1]], 2, 3), "`minimum` must be at most `maximum`"),
)


test_fractions_are_refused = refusals(
    (lambda: masks.padding([1.5], 3), "`lengths` must be integers. Rec.*dtype=float32"),
    (lambda: masks.permutation([[0.0, 1.0]]), "`ranks` must be integers"),
    (lambda: masks.sequence_to_sequence([[0.5]]), "`segments` must be integers"),
    (lambda: masks.recency([[0.5]]), "`key_mask` must be boolean"),
    (lambda: masks.candidates([[0.5]], 2), "`history_mask` must be boolean"),
    error=TypeError,
)
