"""Histories and targets, event by event."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.features import FittedFeatures
from pipelines.pretraining import evaluated_histories
from pipelines.pretraining.evaluated_histories import ABSENT, read_histories, read_items
from pipelines.pretraining.schema import with_length
from pipelines.storage.dataset import DataSplit
from tests.pipelines.pretraining.small_log import LENGTH


@pytest.fixture(scope="module")
def fitted(finished: Path) -> FittedFeatures:
    return with_length(FittedFeatures.load(finished / "run" / "features"), LENGTH + 1)


def expected(finished: Path, fitted: FittedFeatures) -> list[dict[str, Any]]:
    """The last events before the target, the target, and all items before it."""
    vocabulary: Any = fitted.transform_of("film")
    ids = {value: 2 + n for n, value in enumerate(vocabulary.values.to_pylist())}
    found = []
    for row in pq.read_table(finished / "run" / "data" / "test").to_pylist():
        items = [ids.get(item, 1) for item in row["film"]]
        ages = [2 + int(age) for age in row["age"]]
        found.append(
            {
                "film": items[:-1][-LENGTH:],
                "age": ages[:-1][-LENGTH:],
                "target": items[-1],
                "seen": items[:-1],
            }
        )
    return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("size", [1, 7, 512])
def test_target_is_the_last_event(size: int, finished: Path, fitted: FittedFeatures) -> None:
    rows = expected(finished, fitted)
    assert max(len(row["seen"]) for row in rows) > LENGTH > min(len(row["seen"]) for row in rows)
    assert 1 in {row["target"] for row in rows}  # an item that no train row has
    split, done = DataSplit(finished / "run" / "data" / "test"), 0
    for each in read_histories(split, fitted, "film", size):
        for name, x in each.inputs.items():
            assert x.shape == (len(each.targets), LENGTH)
            for ids, row in zip(x, rows[done:], strict=False):
                wanted = row.get(name, [None] * len(row["film"]))
                assert (ids != 0).sum() == len(wanted)
                if name in row:
                    assert ids[: len(wanted)].tolist() == wanted
        for target, seen, row in zip(each.targets, each.seen, rows[done:], strict=False):
            assert target == row["target"]
            assert seen[seen != ABSENT].tolist() == row["seen"]
        assert len(each.targets) <= size
        done += len(each.targets)
    assert done == len(rows)


@pytest.mark.parametrize("size", [1, 31, 10_000])
def test_items_are_those_of_whole_rows(
    size: int, finished: Path, fitted: FittedFeatures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the events that the model does not see; blocks have few ids, or one row."""
    monkeypatch.setattr(evaluated_histories, "IDS", size)
    vocabulary: Any = fitted.transform_of("film")
    ids = {value: 2 + n for n, value in enumerate(vocabulary.values.to_pylist())}
    rows = pq.read_table(finished / "run" / "data" / "train")["film"].to_pylist()
    assert max(map(len, rows)) > LENGTH + 1
    split = DataSplit(finished / "run" / "data" / "train")
    blocks = list(read_items(split, fitted, "film"))
    assert all(block.size <= size or len(block) == 1 for block in blocks)
    found = [row[row != 0].tolist() for block in blocks for row in block]
    assert found == [[ids[item] for item in row] for row in rows]


@pytest.mark.parametrize("most", [1, 11, 13, 10_000])
def test_most_are_the_first_rows(most: int, finished: Path, fitted: FittedFeatures) -> None:
    split = DataSplit(finished / "run" / "data" / "test")
    whole, some = (
        np.concatenate([x.targets for x in read_histories(split, fitted, "film", 5, count)])
        for count in (None, most)
    )
    np.testing.assert_array_equal(some, whole[:most])
