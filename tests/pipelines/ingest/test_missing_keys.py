"""Rows whose key is null, "" or the smallest int64 belong to no group."""

import numpy as np
import pyarrow as pa
import pytest

from pipelines.common.errors import PipelineError
from pipelines.evaluation.evaluated_rows import EvaluatedRows
from pipelines.experiment.evaluation_options import EvaluationOptions
from pipelines.ingest.source import ALL, Source, SourceFile
from pipelines.ingest.split_options import SplitOptions
from pipelines.ingest.splitter import Splitter, read_chunks
from pipelines.metrics import gauc, task_metrics
from pipelines.metrics.intervals import cluster_codes
from pipelines.storage.dataset import DataSplit
from pipelines.storage.request_rows import request_starts
from recsys_attn.schema import Categorical, Schema, Task
from serving.state.columns.missing import MISSING_INT
from serving.state.online.online_state import OnlineState
from tests.pipelines.ingest.files import read_all, run, write_parquet

KEYS = {
    "text": ["a", "", "b", " ", "", "a", None, " ", "", "b"],
    "integer": [1, MISSING_INT, 2, 0, MISSING_INT, 1, None, 0, MISSING_INT, 2],
}
MISSING = [1, 4, 6, 8]
SEEN = {"name": "seen", "of": "item", "by": "user", "time": "time"}
SHARED = {"by": "user", "time": "time"}
COUNT = {"name": "count", "kind": "count", **SHARED}
KINDS = {"name": "kinds", "kind": "distinct", "of": "user", "by": "shop", "time": "time"}
ROWS = range(100)


def _table(keys):
    return pa.table(
        {
            "user": [keys[k % 10] for k in ROWS],
            "item": list(ROWS),
            "time": list(ROWS),
            "shop": [1] * 100,
            "click": [k % 3 % 2 for k in ROWS],
        }
    )


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_a_row_without_a_user_has_no_past(keys, tmp_path):
    table = _table(keys)
    path = write_parquet(tmp_path / "rows.parquet", **dict(table.to_pydict()))
    options = {"histories": [SEEN], "aggregates": [COUNT, KINDS]}
    run(tmp_path / "out", source="parquet", path=str(path), **options)
    rows = read_all(tmp_path / "out").sort_by("time").to_pylist()
    for k, row in enumerate(rows):
        mine = [e for e in range(k) if e % 10 not in MISSING and keys[e % 10] == keys[k % 10]]
        known = k % 10 not in MISSING
        assert row["seen"] == (mine if known else [])
        assert row["count"] == (len(mine) if known else None)
        assert row["kinds"] == len({keys[e % 10] for e in range(k) if e % 10 not in MISSING})


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_online_aggregates_know_nobody_without_a_key(keys, tmp_path):
    path = write_parquet(tmp_path / "rows.parquet", **dict(_table(keys).to_pydict()))
    run(tmp_path / "out", source="parquet", path=str(path), aggregates=[COUNT, KINDS])
    with OnlineState(f"lmdb:{tmp_path}/store", tmp_path / "out/state") as state:
        state.load()
        for key in (None, "" if isinstance(keys[0], str) else MISSING_INT):
            state.push({"user": key, "time": 100, "shop": 1})
            values = state.values({"user": key, "shop": 1}, as_of=101).context
            assert np.isnan(values["count"])
            assert values["kinds"] == 3
        assert state.values({"user": keys[3], "shop": 1}, as_of=101).context["count"] == 20


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("by", ["user", "hash"])
def test_rows_without_a_user_are_split_one_by_one(by, keys):
    table = pa.concat_tables([_table(keys)] * 20)
    source = Source({ALL: [SourceFile.of_table("here", table)]})
    splitter = Splitter(SplitOptions(by=by, column="user", valid=0.3, test=0.3), source, 5)
    (split,) = [splitter(*chunk[::2], chunk[1]) for chunk in read_chunks(source)]
    alone = np.isin(np.arange(2000) % 10, MISSING)
    np.testing.assert_allclose(np.bincount(split[alone]) / alone.sum(), [0.4, 0.3, 0.3], atol=0.06)
    users = np.array([str(key) for key in table["user"].to_pylist()])
    for user in set(users[~alone]):
        assert len(set(split[users == user])) == 1


@pytest.mark.parametrize("keys", KEYS.values(), ids=KEYS)
def test_rows_without_a_group_share_none(keys, tmp_path):
    rng = np.random.default_rng(0)
    labels, scores = np.arange(100) % 3 % 2, rng.random(100)
    table = _table(keys)
    users = np.array(table["user"].to_pylist(), object)
    alone = np.isin(np.arange(100) % 10, MISSING)
    expected = gauc(labels[~alone], scores[~alone], users[~alone])
    path = write_parquet(tmp_path / "split" / "rows.parquet", **dict(table.to_pydict()))
    schema = Schema((Categorical("item", dtype="int64"),), (Task("click"),))
    options = EvaluationOptions(group="user")
    rows = EvaluatedRows.read(DataSplit(path.parent), options, None, schema)
    for groups in (users, rows.groups):
        assert gauc(labels, scores, groups) == expected
        codes = cluster_codes(groups, labels.astype(float))
        assert len(set(codes)) == 3 + alone.sum()
        found = task_metrics(labels, scores, groups=groups)
        assert found["gauc_groups"] == 3


@pytest.mark.parametrize("keys", [["r", "", "", None, "s"], [7, MISSING_INT, MISSING_INT, 3, 3]])
def test_rows_without_a_request_are_requests(keys):
    starts = request_starts(pa.table({"request": keys}), "request")
    assert starts.tolist() == ([0, 1, 2, 3, 4, 5] if keys[0] == "r" else [0, 1, 2, 3, 5])


@pytest.mark.parametrize("request_id", ["", None])
def test_a_request_must_have_a_name(request_id, tmp_path):
    rows = {"request": ["a", request_id, "b"], "x": [1, 2, 3]}
    path = write_parquet(tmp_path / "rows.parquet", **rows)
    with pytest.raises(PipelineError, match=r"name the request of every row. Received: 1 nulls or"):
        run(tmp_path / "out", source="parquet", path=str(path), request="request")
