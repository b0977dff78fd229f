"""Features that matter to a known model, and those that do not."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.evaluation.importance import permutation_importance, units
from pipelines.metrics import auc
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task

SCHEMA = Schema(
    (
        Numeric("age", side="context"),
        Categorical("item", size=50),
        Numeric("noise"),
        Sequence("seen", shares="item"),
        Numeric("unused", side="context"),
    ),
    (Task("click"), Task("buy")),
)
REQUESTS, CANDIDATES = 400, 5


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def score(table: pa.Table) -> dict[str, np.ndarray]:
    """A model that needs the item most, then the user's age, and the last event of the history."""
    item, age = (table[name].to_numpy() for name in ("item", "age"))
    last = np.array([events[-1] for events in table["seen"].to_pylist()])
    logits = 2.0 * np.sin(item) + 1.0 * age + 0.3 * np.cos(last)
    return {"click": _sigmoid(logits), "buy": _sigmoid(-age)}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    of = np.repeat(np.arange(REQUESTS), CANDIDATES)
    seen = [rng.integers(0, 50, size=3).tolist() for _ in range(REQUESTS)]
    return pa.table(
        {
            "request": of,
            "age": rng.normal(size=REQUESTS)[of],
            "unused": rng.normal(size=REQUESTS)[of],
            "item": rng.integers(0, 50, of.size),
            "noise": rng.normal(size=of.size),
            "seen": [seen[request] for request in of],
        }
    )


@pytest.fixture(scope="module")
def labels(table):
    rng = np.random.default_rng(1)
    drawn = {task: (rng.random(len(table)) < p).astype(float) for task, p in score(table).items()}
    drawn["buy"][::3] = np.nan
    return drawn


@pytest.fixture(scope="module")
def found(table, labels):
    tables, done = [], []

    def watched(each):
        tables.append(each)
        return score(each)

    clusters = table["request"].to_numpy()
    found = permutation_importance(
        watched, table, SCHEMA, "request", labels, clusters, advance=done.append
    )
    assert done == [len(table)] * len(units(SCHEMA))
    return found, tables


def test_the_features_of_the_model_come_first(found, table, labels):
    click, buy = (found[0][task] for task in ("click", "buy"))
    assert [entry["feature"] for entry in click][:3] == ["item", "age", "history"]
    assert buy[0]["feature"] == "age"
    assert buy[0]["columns"] == ["age"]
    for entries, used in ((click, {"item", "age", "history"}), (buy, {"age"})):
        for entry in entries:
            if entry["feature"] in used:
                assert min(entry["auc"]) > 0
                assert min(entry["logloss"]) > 0
            else:
                assert entry["auc"] == entry["logloss"] == [0, 0, 0]
    # Without the age nothing is left of the order of `buy`.
    known = ~np.isnan(labels["buy"])
    whole = auc(labels["buy"][known], score(table)["buy"][known])
    assert whole - buy[0]["auc"][0] == pytest.approx(0.5, abs=0.05)


def test_only_the_columns_of_a_feature_change_places(found, table):
    _, (whole, *changed) = found
    assert whole.equals(table)
    for name, each in zip(("age", "item", "noise", "unused", "seen"), changed, strict=True):
        others = [column for column in table.column_names if column != name]
        assert each.select(others).equals(table.select(others))
        assert not each[name].equals(table[name])
        assert sorted(each[name].to_pylist()) == sorted(table[name].to_pylist())
        if name in ("age", "unused", "seen"):  # of the request, all candidates alike
            values = np.array(each[name].to_pylist()).reshape(REQUESTS, CANDIDATES, -1)
            np.testing.assert_array_equal(values, values[:, :1].repeat(CANDIDATES, axis=1))


def test_rows_of_one_class_have_no_importance(table):
    labels = {"click": np.ones(len(table))}
    clusters = table["request"].to_numpy()
    (entries,) = permutation_importance(score, table, SCHEMA, "request", labels, clusters).values()
    assert [entry["auc"] for entry in entries] == [None] * len(units(SCHEMA))


def test_features_of_one_column_change_places_together():
    features = (Numeric("age"), Numeric("age_log", column="age"), Numeric("cost", column="price"))
    seen = (Sequence("seen"), Sequence("seen_hash", column="seen"))
    found = [unit[:2] for unit in units(Schema((*features, *seen), ()))]
    assert found == [("age", ("age",)), ("cost", ("price",)), ("history", ("seen",))]
