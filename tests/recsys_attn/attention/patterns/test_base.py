"""Patterns in a mechanism, in a graph, in a config, and wrong ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import Dense, patterns
from recsys_attn.attention.mechanisms import Routed
from recsys_attn.attention.patterns import (
    And,
    Block,
    Causal,
    Dilated,
    EdgeBlocks,
    Fixed,
    Full,
    Global,
    Local,
    Not,
    Or,
    Pattern,
    PerHead,
    Prefix,
    Prepended,
    RandomBlocks,
    Strided,
)
from recsys_attn.attention.routers import Blocks
from tests.support.layer_case import tensorflow
from tests.support.patterns import ALL, LENGTHS, PER_HEAD
from tests.support.refusals import refusals


@pytest.mark.sampled(3)
@pytest.mark.parametrize("pattern", ALL.values(), ids=ALL)
def test_dense_with_a_pattern_is_dense_with_its_matrix_as_mask(pattern: Pattern) -> None:
    rng = np.random.default_rng(0)
    query, key, value = (rng.normal(size=(2, 7, 2, size)).astype("float32") for size in (3, 3, 5))
    layer = Dense(pattern=pattern)
    output, weights = layer(query, key, value)
    mask = np.broadcast_to(pattern.matrix(7), (2, 2, 7, 7))
    expected = Dense()(query, key, value, attention_mask=mask)
    np.testing.assert_allclose(output, expected[0], atol=1e-6)
    np.testing.assert_allclose(weights, expected[1], atol=1e-6)
    revived = Dense.from_config(json.loads(json.dumps(layer.get_config())))
    assert revived.pattern == pattern
    # The last three queries alone are the last three rows.
    np.testing.assert_allclose(revived(query[:, 4:], key, value)[0], output[:, 4:], atol=1e-6)


@pytest.mark.sampled(9)
@pytest.mark.parametrize("pattern", ALL.values(), ids=ALL)
def test_a_graph_traced_once_serves_any_length(pattern: Pattern) -> None:
    tf = tensorflow()

    @tf.function(input_signature=[tf.TensorSpec([], "int32")])
    def matrix(length: Any) -> Any:
        index = tf.range(length)
        return pattern(index[None, None, :, None], index[None, None, None, :], length)

    for length in (1, *LENGTHS):
        expected = pattern.matrix(length)
        np.testing.assert_array_equal(np.broadcast_to(matrix(length)[0], expected.shape), expected)


NAMES = [
    ("full", {}, Full()),
    ("causal", {}, Causal()),
    ("local", {"before": 3}, Local(3, 3)),
    ("dilated", {"window": 2, "dilation": 3}, Dilated(2, 3)),
    ("strided", {"stride": 3}, Strided(3)),
    ("fixed", {"stride": 3, "summary": 1}, Fixed(3, 1)),
    ("block", {"size": 3}, Block(3)),
    ("edge_blocks", {"size": 3}, EdgeBlocks(3)),
    ("random_blocks", {}, RandomBlocks(64, 3, 0)),
    ("global", {"positions": [0, -1]}, Global((0, -1))),
    ("prefix", {"length": 3}, Prefix(3)),
    ("prepended", {"count": 1, "pattern": "causal"}, Prepended(1, Causal())),
    ("per_head", {"patterns": ["causal", "full"]}, PerHead((Causal(), Full()))),
    ("not", {"pattern": "causal"}, Not(Causal())),
    ("and", {"patterns": ["causal", "full"]}, And((Causal(), Full()))),
    (
        "or",
        {"patterns": ["causal", {"class_name": "local", "config": {"before": 2}}]},
        Or((Causal(), Local(2))),
    ),
]


@pytest.mark.parametrize(("name", "config", "expected"), NAMES, ids=[n for n, *_ in NAMES])
def test_a_short_config_makes_a_pattern(name: str, config: Any, expected: Pattern) -> None:
    pattern = patterns.get({"class_name": name, "config": config})
    assert pattern == expected
    assert patterns.get(json.loads(json.dumps(patterns.serialize(pattern)))) == pattern
    assert hash(pattern) == hash(expected)


test_wrong_use_is_one_sentence = refusals(
    (lambda: Local(0), "must reach beyond the query itself"),
    (lambda: Local(-1), "`before` must be an integer of at least 0. Received: before=-1"),
    (lambda: Local(2, -1), "`after` must be an integer of at least 0"),
    (lambda: Local(2.5), "`before` must be an integer"),
    (lambda: Dilated(0, 2), "`window` must be a positive integer. Received: window=0"),
    (lambda: Dilated(2, 0), "`dilation` must be a positive integer"),
    (lambda: Strided(0), "`stride` must be a positive integer"),
    (lambda: Fixed(4, 5), "`summary` must be at most `stride`"),
    (lambda: Fixed(4, 0), "`summary` must be a positive integer"),
    (lambda: Block(0), "`size` must be a positive integer"),
    (lambda: Block(2, -1), "`before` must be an integer of at least 0"),
    (lambda: EdgeBlocks(2, 0), "`count` must be a positive integer"),
    (lambda: RandomBlocks(0), "`size` must be a positive integer"),
    (lambda: RandomBlocks(count=0), "`count` must be a positive integer"),
    (lambda: RandomBlocks(seed=0.5), "`seed` must be an integer. Received: seed=0.5"),
    (lambda: Global(()), "`positions` must be a list of at least one integer"),
    (lambda: Global((0.5,)), "`positions` must be a list of at least one integer"),
    (lambda: Global(3), "`positions` must be a list of at least one integer"),
    (lambda: Prefix(0), "`length` must be a positive integer"),
    (lambda: Prepended(0, Causal()), "`count` must be a positive integer"),
    (lambda: Prepended(1, 3), "Expected a pattern as a name"),
    (lambda: PerHead(()), "`patterns` must be a list of at least one pattern"),
    (lambda: PerHead(Causal()), "`patterns` must be a list of at least one pattern"),
    (lambda: PerHead((PER_HEAD, Causal())), "holds no `PerHead` itself"),
    (lambda: PER_HEAD & PerHead((Causal(),) * 3), "one number of heads.*for 2 and 3 heads"),
    (lambda: Causal() & 3, "Expected a pattern as a name.*Received: 3"),
    (lambda: patterns.get("locl"), "Did you mean 'local'"),
    (
        lambda: Dense(pattern=PER_HEAD)(*[np.zeros((1, 2, 3, 5), "float32")] * 3),
        "`pattern` is made for 2 heads, one pattern each. Received: num_heads=3",
    ),
)


UNSTEADY = [
    RandomBlocks(3, 1) & Causal(),
    (Block(3) | EdgeBlocks(3)) & Causal(),
    (Local(3, 0) | Global((-1,))) & Causal(),
    PerHead((Causal(), RandomBlocks(3, 1) & Local(5, 0))),
]


@pytest.mark.parametrize("pattern", UNSTEADY, ids=lambda x: repr(x)[:40])
def test_causal_pattern_that_depends_on_length_is_refused(pattern: Pattern) -> None:
    first, longer = pattern.matrix(7), pattern.matrix(13)[:, :7, :7]
    assert (first != longer).any()  # an event would attend other keys in a longer history
    with pytest.raises(ValueError, match="an event would attend other keys"):
        Dense(pattern=pattern)


STEADY = [
    Causal(),
    Local(3, 0),
    (Block(3, 1) | Strided(4) | Fixed(5, 1)) & Causal(),
    (Local(2) | Global((0,))) & Causal(),
]


@pytest.mark.parametrize("pattern", STEADY, ids=lambda x: repr(x)[:40])
def test_other_causal_patterns_stay_as_events_follow(pattern: Pattern) -> None:
    assert not pattern.depends_on_length
    np.testing.assert_array_equal(pattern.matrix(13)[:, :7, :7], pattern.matrix(7))
    assert Dense(pattern=pattern).pattern == pattern


@pytest.mark.parametrize("router", [{"random": 1}, {"last": 1}], ids=str)
def test_random_or_last_blocks_have_no_causal_form(router: Any) -> None:
    with pytest.raises(ValueError, match="an event would attend other keys"):
        Routed(Blocks(4, **router), pattern="causal")
