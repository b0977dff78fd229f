"""New values of the last train rows and of the validation rows, against counts by loops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.features.count_unseen import count_unseen
from pipelines.features.fit import fit
from pipelines.features.fitted import FittedFeatures
from pipelines.features.unseen import UnseenValues
from pipelines.ingest.row_order import RowOrder
from pipelines.storage.dataset import DataSplit
from recsys_attn.id_transforms import Hash, Vocabulary
from recsys_attn.schema import UNKNOWN_ID, Categorical, Numeric, Schema, Sequence, Task

SCHEMA = Schema(
    (
        Categorical("item", dtype="int64"),
        Categorical("tags", multivalued=True, transform=Vocabulary(min_count=3)),
        Categorical("user", side="context"),
        Categorical("hashed", dtype="int64", transform=Hash(7)),
        Numeric("price"),
        Sequence("seen", shares="item", dtype="int64"),
    ),
    (Task("click"),),
)
NEW = ("item", "tags", "user")  # of which something may be unknown
SHARE = 0.2
Splits = tuple[DataSplit, DataSplit]


def _table(rows: int, seed: int, first: int) -> pa.Table:
    """Rows in no order of time, whose items and tags come and go."""
    rng = np.random.default_rng(seed)
    time = rng.permutation(rows) + first
    item = time // 23 + rng.integers(11, size=rows)
    tags = [[f"t{t // 31 + k}" for k in rng.integers(17, size=rng.integers(4))] for t in time]
    return pa.table(
        {
            "item": pa.array(item, mask=rng.random(rows) < 0.05),
            "tags": tags,
            "hashed": rng.integers(99, size=rows),
            "price": rng.random(rows).astype("float32"),
            "seen": [[int(i)] for i in item[::-1]],
            "time": pa.array(time, mask=rng.random(rows) < 0.03),
            "user": [f"u{k}" for k in rng.integers(53, size=rows)],
        }
    )


TRAIN, VALID = _table(1009, 0, 0), _table(211, 1, 1009)


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> Splits:
    folder = tmp_path_factory.mktemp("splits")
    for name, table in (("train", TRAIN), ("valid", VALID)):
        (folder / name).mkdir()
        pq.write_table(table, folder / name / "part.parquet", row_group_size=97)
    return DataSplit(folder / "train"), DataSplit(folder / "valid")


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    return fit(SCHEMA, [TRAIN])


def _values(table: pa.Table, name: str) -> list[list[Any]]:
    """The values of each row that are not missing."""
    lists = [v if isinstance(v, list) else [v] for v in table[name].to_pylist()]
    return [[v for v in row if v is not None] for row in lists]


def _by_loops(fitted: FittedFeatures, name: str, is_last: np.ndarray, known: int) -> UnseenValues:
    vocabulary = fitted.transforms[name].state()["values"].to_pylist()
    least = {"tags": 3}.get(name, 1)
    counts: tuple[Counter[Any], Counter[Any]] = (Counter(), Counter())
    for values, last in zip(_values(TRAIN, name), is_last, strict=True):
        counts[int(last)].update(values)
    before, after = counts
    late = [
        id_
        for id_, value in enumerate(vocabulary, 2)
        if id_ >= 2 + known and before[value] < least and after[value] > 0
    ]
    new = {vocabulary[id_ - 2] for id_ in late}
    lost = sum(n for value, n in after.items() if value in new or value not in vocabulary)
    valid = [value for row in _values(VALID, name) for value in row]
    return UnseenValues(
        2 + len(vocabulary),
        np.array(late),
        lost / after.total(),
        sum(before[v] + after[v] for v in new) / (before.total() + after.total()),
        float(np.mean([value not in vocabulary for value in valid])),
    )


@pytest.mark.parametrize(
    ("order", "known"),
    [(RowOrder("time", "time"), 0), (RowOrder("hash", "user"), 0), (RowOrder("time", "time"), 29)],
    ids=["time", "user", "behind a run"],
)
def test_counts_are_those_of_loops(
    splits: Splits, fitted: FittedFeatures, order: RowOrder, known: int
) -> None:
    done: list[int] = []
    of_known = dict.fromkeys(NEW, known)
    unseen = count_unseen(fitted, *splits, order, SHARE, of_known, done.append)
    assert unseen.keys() == set(NEW)
    assert sum(done) == TRAIN.num_rows + VALID.num_rows
    is_last = order.places(TRAIN, 0) >= order.cut(splits[0], SHARE)
    for name, of in unseen.items():
        expected = _by_loops(fitted, name, is_last, known)
        np.testing.assert_array_equal(of.late, expected.late)
        assert of.size == expected.size
        assert of.shares == pytest.approx(expected.shares)
        assert len(of.late) > 3 or name != ("user" if order.by == "hash" else "item")
        assert (of.late > UNKNOWN_ID).all()


def test_the_last_rows_have_the_share(splits: Splits) -> None:
    """By time to the row, by users as near as the largest user allows, in any row groups."""
    for order, apart in ((RowOrder("time", "time"), 0.04), (RowOrder("hash", "user"), 0.1)):
        cut = order.cut(splits[0], SHARE)
        places = order.places(TRAIN, 0)
        np.testing.assert_allclose(np.mean(places >= cut), SHARE, atol=apart)
        if order.by == "hash":
            users = np.array(TRAIN["user"].to_pylist())
            assert not set(users[places >= cut]) & set(users[places < cut])
        else:
            times = TRAIN["time"].to_numpy()
            assert np.nanmin(times[places >= cut]) > np.nanmax(times[places < cut])
            assert not np.isnan(times[places >= cut]).any()


def test_without_a_time_the_last_rows_of_the_files_count(
    splits: Splits, fitted: FittedFeatures
) -> None:
    unseen = count_unseen(fitted, *splits, RowOrder(), SHARE, {}, lambda rows: None)
    is_last = np.arange(TRAIN.num_rows) >= TRAIN.num_rows * (1 - SHARE)
    expected = _by_loops(fitted, "item", is_last, 0)
    np.testing.assert_array_equal(unseen["item"].late, expected.late)


def test_no_value_is_late_where_all_rows_have_one_time(
    tmp_path: Path, splits: Splits, fitted: FittedFeatures
) -> None:
    same = TRAIN.set_column(TRAIN.column_names.index("time"), "time", [[5] * TRAIN.num_rows])
    pq.write_table(same, tmp_path / "part.parquet")
    train, order = DataSplit(tmp_path), RowOrder("time", "time")
    unseen = count_unseen(fitted, train, splits[1], order, SHARE, {}, lambda rows: None)
    assert [len(of.late) for of in unseen.values()] == [0, 0, 0]


def test_new_values_are_kept_with_the_features(tmp_path: Path, fitted: FittedFeatures) -> None:
    unseen = {
        "item": UnseenValues(11, np.array([5, 9], np.int32), 0.5, 0.25, 0.75),
        "tags": UnseenValues(2, np.array([], np.int32), 0.0, 0.0, 0.0),
    }
    FittedFeatures(fitted.schema, fitted.transforms, unseen=unseen).save(tmp_path)
    loaded = FittedFeatures.load(tmp_path).unseen
    assert list(loaded) == list(unseen)
    for name, of in unseen.items():
        assert (loaded[name].size, loaded[name].shares) == (of.size, of.shares)
        np.testing.assert_array_equal(loaded[name].late, of.late)


def test_late_ids_are_hidden_in_half_of_the_steps() -> None:
    of = UnseenValues(7, np.array([3, 6], np.int32), of_last=0.4, of_train=0.1, of_valid=0.3)
    np.testing.assert_array_equal(of.hidden, [0, 0, 0, 0.5, 0, 0, 0.5])
