"""Every score that looks at positions, at keys alone or at other scores passes the checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from recsys_attn.attention import scores
from tests.support.layer_case import LayerCase, grouped
from tests.support.layer_checks import CHECKS

PER_HEAD = {"query": "BTNH", "key": "BSNH"}
TWO_SIZES = {"query": "BTNH", "key": "BSNV"}
EVEN = {"query": "BTNN", "key": "BSNN"}  # an even head size, for pairs of channels
ALLOWED = {"allowed": "BNTS"}

CASES = {
    "dot_with_bias": LayerCase(scores.Dot, {"scale": True, "query_bias": True}, PER_HEAD, ALLOWED),
    "key_only": LayerCase(scores.KeyOnly, {"units": 4, "activation": "tanh"}, TWO_SIZES, ALLOWED),
    "location": LayerCase(scores.Location, {"length": 9}, TWO_SIZES, ALLOWED),
    "dense_synthesizer": LayerCase(
        scores.DenseSynthesizer, {"length": 9, "units": 4}, TWO_SIZES, ALLOWED
    ),
    "random_synthesizer": LayerCase(scores.RandomSynthesizer, {"length": 9}, TWO_SIZES, ALLOWED),
    "fixed_synthesizer": LayerCase(
        scores.RandomSynthesizer, {"length": 9, "trainable": False}, TWO_SIZES, ALLOWED
    ),
    "factorised_dense_synthesizer": LayerCase(
        scores.FactorisedDenseSynthesizer, {"length": 12, "factor": 4}, TWO_SIZES, ALLOWED
    ),
    "factorised_random_synthesizer": LayerCase(
        scores.FactorisedRandomSynthesizer, {"length": 9, "rank": 2}, TWO_SIZES, ALLOWED
    ),
    "mixture": LayerCase(
        scores.Mixture,
        {"scores": ["scaled_dot", {"class_name": "location", "config": {"length": 9}}]},
        PER_HEAD,
        ALLOWED,
    ),
    "sum": LayerCase(scores.Sum, {"scores": ["dot", "alibi", "key_only"]}, PER_HEAD, ALLOWED),
    "relative_dot": LayerCase(
        scores.RelativeDot, {"max_distance": 4, "scale": True, "units": 6}, TWO_SIZES, ALLOWED
    ),
    "relative_buckets": LayerCase(
        scores.RelativeBuckets, {"num_buckets": 8, "max_distance": 5}, TWO_SIZES, ALLOWED
    ),
    "alibi": LayerCase(scores.Alibi, {}, TWO_SIZES, ALLOWED),
    "rotary": LayerCase(scores.Rotary, {"score": "general"}, EVEN, ALLOWED),
    "shared_dot": LayerCase(scores.SharedDot, {"self_penalty": -3.0}, PER_HEAD, ALLOWED),
}


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("case", grouped(CASES))
def test_score(case: LayerCase, check: Callable[[LayerCase, Path], None], tmp_path: Path) -> None:
    check(case, tmp_path)
