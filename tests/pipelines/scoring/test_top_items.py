"""The best items of requests, against the scores of all their pairs."""

import dataclasses
import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.items import UserTable
from pipelines.scoring import catalogue_ranking
from pipelines.scoring.scorer import Scorer
from pipelines.scoring.top_items import TopKOptions, score_top_k
from recsys_attn.models import mlp
from tests.support import next_items
from tests.support.once import once


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> FittedFeatures:
    folder = once(tmp_path_factory, "next_items", next_items.prepare)
    return FittedFeatures.load(folder / "run" / "features")


@pytest.fixture(scope="module")
def model(fitted: FittedFeatures):
    made = mlp(fitted.schema, width=4, units=(8,))
    rng = np.random.default_rng(2)
    made.set_weights([0.4 * rng.normal(size=w.shape) for w in made.get_weights()])
    return made


def requests(count: int = 23) -> pa.Table:
    """Requests of 1 to 6 candidates; histories with known, unknown and no items."""
    rng = np.random.default_rng(3)
    lengths = rng.integers(1, 7, count)
    histories = [[*rng.integers(100, 140, rng.integers(0, 9)).tolist()] for _ in range(count)]
    return pa.table(
        {
            "id": np.repeat([f"r{n}" for n in range(count)], lengths),
            "history": [histories[n] for n in np.repeat(np.arange(count), lengths)],
            "item": rng.integers(100, 132, lengths.sum()),
        }
    )


def ranked(fitted, model, table, tmp_path: Path, request="id", group=7, **options) -> list[dict]:
    pq.write_table(table, tmp_path / "rows.parquet", row_group_size=group)
    score_top_k(
        tmp_path / "rows.parquet",
        tmp_path / "best.parquet",
        TopKOptions(**{"k": 3, "task": "next", "key": "item", **options}),
        lambda: (fitted, model),
        request,
        Progress(Console(file=io.StringIO())),
    )
    return pq.read_table(tmp_path / "best.parquet").to_pylist()


def best(pairs: list[tuple[int, float]], k: int) -> list[tuple[int, int, float]]:
    """Rank, item and score of the highest scores; equal ones keep their order."""
    order = sorted(range(len(pairs)), key=lambda place: -pairs[place][1])
    return [(rank, *pairs[place]) for rank, place in enumerate(order[:k], 1)]


def expect(found: list[dict], expected: dict[object, list[tuple[int, int, float]]]) -> None:
    rows = [(name, *row) for name, of_request in expected.items() for row in of_request]
    assert [(r["request"], r["rank"], r["item"]) for r in found] == [r[:3] for r in rows]
    np.testing.assert_allclose([r["score"] for r in found], [r[3] for r in rows], atol=1e-6)


def test_scattered_requests_are_refused(fitted, model, tmp_path) -> None:
    table = requests()
    turned = table.take(np.random.default_rng(1).permutation(table.num_rows))
    message = r"rows\.parquet: the rows of a request must follow each other, but .*'id'.* sort all"
    with pytest.raises(PipelineError, match=message):
        ranked(fitted, model, turned, tmp_path)
    assert not (tmp_path / "best.parquet").exists()
    # Without requests each row is one, in any order.
    assert len(ranked(fitted, model, turned, tmp_path, request=None)) == table.num_rows


@pytest.mark.sampled(3)
@pytest.mark.parametrize("group", [2, 7, 1000])  # requests are in several row groups, or not
def test_given_candidates_are_ranked(fitted, model, tmp_path, group: int) -> None:
    table = requests()
    scores = Scorer(model).score_table(fitted.joined(table), fitted, None)["next"]
    pairs: dict[str, list[tuple[int, float]]] = {}
    for row, score in zip(table.to_pylist(), scores.tolist(), strict=True):
        pairs.setdefault(row["id"], []).append((row["item"], score))
    expected = {name: best(of_request, 3) for name, of_request in pairs.items()}
    expect(ranked(fitted, model, table, tmp_path, group=group), expected)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("unseen", [False, True])
@pytest.mark.parametrize("request_column", ["id", None])
def test_whole_catalogue_is_ranked(
    fitted, model, tmp_path, monkeypatch, unseen: bool, request_column: str | None
) -> None:
    monkeypatch.setattr(catalogue_ranking, "_ITEMS", 11)  # three parts of the catalogue
    monkeypatch.setattr(catalogue_ranking, "_CANDIDATES", 50)  # four requests at once
    table = requests().drop_columns(["item"])
    expected, scorer = {}, Scorer(model)
    items = fitted.items.keys.to_pylist()
    for place, row in enumerate(table.to_pylist()):
        name = place if request_column is None else row["id"]
        crossed = pa.table({"history": [row["history"]] * len(items), "item": items})
        scores = scorer.score_table(fitted.joined(crossed), fitted, None)["next"]
        # A history keeps its last five events.
        left_out = row["history"][-5:] if unseen else []
        pairs = [p for p in zip(items, scores.tolist(), strict=True) if p[0] not in left_out]
        expected[name] = best(pairs, 3)
    found = ranked(
        fitted, model, table, tmp_path, request_column, catalogue=True, unseen=unseen, k=3
    )
    expect(found, expected)


def test_more_than_all_items_gives_all_but_the_seen_ones(fitted, model, tmp_path) -> None:
    table = pa.table({"history": [[100, 101], []]})
    found = ranked(fitted, model, table, tmp_path, None, catalogue=True, unseen=True, k=100)
    assert [row["request"] for row in found] == [0] * 27 + [1] * 29
    assert not {100, 101} & {row["item"] for row in found[:27]}


@pytest.mark.parametrize("catalogue", [True, False])
def test_requests_need_the_id_of_their_user_only(fitted, model, tmp_path, catalogue) -> None:
    table = requests()
    number = pa.array(table["id"].dictionary_encode().combine_chunks().indices, pa.int64())
    rows = table.append_column("who", number)
    first = np.unique(number.to_numpy(), return_index=True)[1]
    users = UserTable("who", rows.select(["who", "history"]).take(pa.array(first)))
    expected = ranked(fitted, model, table, tmp_path, catalogue=catalogue)
    fitted = dataclasses.replace(fitted, users=users)
    rows = rows.drop_columns(["history"])
    assert ranked(fitted, model, rows, tmp_path, catalogue=catalogue) == expected
