"""Drift: planted shifts are marked at every size, equal distributions are not."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.distributions.drift import FEW, feature_drift
from pipelines.distributions.statistics import Statistics, of_features
from pipelines.features import FittedFeatures
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task
from tests.support import shop

SCHEMA = Schema(
    (
        Categorical("brand"),
        Numeric("price"),
        Sequence("clicks"),
        Categorical("steady"),
        Numeric("noise"),
    ),
    (Task("click"),),
)


def rows(count: int, seed: int, shift: bool) -> pa.Table:
    """Rows whose first three features may have drifted."""
    rng = np.random.default_rng(seed)
    brands = [*"abcd", "new" if shift else "a", None if shift else "b"]
    lengths = rng.integers(4 if shift else 1, 9, count)
    return pa.table(
        {
            "brand": rng.choice(np.array(brands, object), count),
            "price": rng.normal(0.5 * shift, 1, count).astype("float32"),
            "clicks": [rng.choice(["x", "y"], n).tolist() for n in lengths],
            "steady": rng.choice(["p", "q", "r"], count),
            "noise": rng.normal(0, 1, count).astype("float32"),
        }
    )


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    return shop.fit(SCHEMA, [rows(2000, 1, shift=False)])


def statistics(fitted: FittedFeatures, table: pa.Table) -> Statistics:
    return {**of_features(fitted, table, "context"), **of_features(fitted, table, "candidate")}


def found(fitted: FittedFeatures, count: int, shift: bool) -> dict[str, dict[str, Any]]:
    train, other = rows(6000, 2, shift=False), rows(count, 3, shift)
    entries = feature_drift(fitted, statistics(fitted, train), statistics(fitted, other))
    return {entry["feature"]: entry for entry in entries}


@pytest.mark.parametrize("count", [400, 4000])
def test_planted_drift_is_marked_and_comes_first(fitted: FittedFeatures, count: int) -> None:
    drift = found(fitted, count, shift=True)
    assert set(list(drift)[:3]) == {"brand", "price", "clicks"}
    assert [entry["drifted"] for entry in drift.values()] == [True] * 3 + [False] * 2
    assert all(("bins" in entry) == entry["drifted"] for entry in drift.values())
    brand = drift["brand"]
    assert brand["missing"][0] == brand["unknown"][0] == 0
    assert brand["missing"][1] == pytest.approx(1 / 6, abs=0.04)
    assert brand["unknown"][1] == pytest.approx(1 / 5, abs=0.04)  # of the present ones
    assert drift["price"]["unknown"] is None
    tests = {entry["test"] for entry in drift.values()}
    if count <= FEW:
        assert tests == {"Kolmogorov-Smirnov", "chi-squared"}
        assert drift["price"]["test"] == drift["noise"]["test"] == "Kolmogorov-Smirnov"
        assert all((entry["p"] < 0.05) == entry["drifted"] for entry in drift.values())
    else:
        assert tests == {"distance"}
        assert {entry["p"] for entry in drift.values()} == {None}
    lengths = sum(part["train"] for part in drift["clicks"]["bins"])
    assert lengths == pytest.approx(1)


@pytest.mark.parametrize("count", [400, 1001, 20_000])
def test_equal_distributions_have_not_drifted(fitted: FittedFeatures, count: int) -> None:
    assert not [name for name, entry in found(fitted, count, False).items() if entry["drifted"]]
