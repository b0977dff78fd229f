"""Interactions of two features in known models."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.evaluation.pairs import Pair, agreement_with_map, pair_interactions
from pipelines.metrics.intervals import Interval
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

SCHEMA = Schema(
    (
        Numeric("age", side="context"),
        Numeric("price"),
        Numeric("size"),
        Categorical("item", size=20),
        Sequence("seen", shares="item"),
    ),
    (Task("click"),),
)
REQUESTS, CANDIDATES = 2_000, 4


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(REQUESTS), CANDIDATES)
    return pa.table(
        {
            "request": of,
            "age": rng.normal(size=REQUESTS)[of],
            "price": rng.normal(size=of.size),
            "size": rng.normal(size=of.size),
            "item": rng.integers(0, 20, of.size),
            "seen": [[int(each)] for each in rng.integers(0, 20, REQUESTS)[of]],
        }
    )


def interactions(table: pa.Table, logit) -> dict[tuple[str, str], float]:
    def score(rows: pa.Table) -> dict[str, np.ndarray]:
        columns = {n: rows[n].to_numpy() for n in ("age", "price", "size", "item")}
        columns["seen"] = np.array([each[0] for each in rows["seen"].to_pylist()])
        return {"click": 1 / (1 + np.exp(-logit(**columns)))}

    clusters = table["request"].to_numpy()
    found = pair_interactions(score, table, SCHEMA, "request", clusters)
    values = [pair.strength["click"].value for pair in found]
    assert values == sorted(values, reverse=True)
    return {tuple(sorted(pair.features)): pair.strength["click"].value for pair in found}


def test_a_sum_has_no_interaction(table):
    found = interactions(table, lambda age, price, size, item, seen: age + np.sin(price) - item / 9)
    assert len(found) == 10
    assert max(found.values()) < 1e-12


def test_the_strength_is_the_variance_of_the_product(table):
    found = interactions(
        table, lambda age, price, size, item, seen: 0.5 * age * price + 0.2 * size * price + age
    )
    assert found.pop(("age", "price")) == pytest.approx(0.25, rel=0.1)
    assert found.pop(("price", "size")) == pytest.approx(0.04, rel=0.1)
    assert max(found.values()) < 1e-12


def test_likeness_of_item_and_history_is_found(table):
    found = interactions(table, lambda item, seen, **others: np.where(item % 4 == seen % 4, 1, -1))
    assert max(found, key=found.get) == ("history", "item")


def test_agreement_is_the_rank_correlation_with_the_map():
    def pair(one, other, value):
        return Pair((one, other), {"click": Interval(value, 0, 1, 0.1, 9)})

    pairs = [pair("a", "b", 3.0), pair("a", "h", 2.0), pair("b", "h", 1.0)]
    fields = ["a", "b", "h.x", "h.y"]
    shares = np.zeros((2, 4, 4))
    shares[:, 0, 1], shares[0, 2, 0], shares[1, 3, 1] = 0.9, 0.4, 0.1
    assert agreement_with_map(pairs, fields, shares) == {"click": pytest.approx(1)}
    shares[:, 0, 1] = 0
    assert agreement_with_map(pairs, fields, shares)["click"] < 0
    assert agreement_with_map(pairs[:2], fields, shares) == {"click": None}
