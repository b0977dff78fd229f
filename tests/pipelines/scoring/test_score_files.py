"""Batch scoring: rows with scores, or an unchanged target."""

import dataclasses
import io
import itertools
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.items import UserTable
from pipelines.scoring.score_files import score
from pipelines.scoring.scorer import Scorer
from serving.state.errors import DataError
from tests.support import shop

TASKS = ["click", "buy"]


@pytest.fixture(scope="module")
def model(fitted):
    return shop.linear_model(fitted)


@pytest.fixture
def run(fitted, model, tmp_path):
    """Scores a file into `out/scores.parquet`, which exists already."""
    target = tmp_path / "out" / "scores.parquet"
    target.parent.mkdir()
    target.write_text("as it was")

    def run(source, request="request"):
        given = source, target, TASKS, lambda: (fitted, model), request
        progress = Progress(Console(file=io.StringIO()))
        return score(*given, progress, features=fitted.raw_schema)

    run.target = target
    return run


def parts(table):
    """Row groups of whole requests."""
    starts = np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1))
    cuts = [*starts[::4], table.num_rows]
    return [table.slice(a, b - a) for a, b in itertools.pairwise(cuts)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("request_column", ["request", None, "not in the file"])
@pytest.mark.parametrize("kind", ["file", "folder", "uri"])
def test_scores_are_the_training_paths(run, fitted, model, tmp_path, request_column, kind):
    table = shop.table(11, seed=5, unknown=True)
    groups = parts(table)
    if kind == "file":
        source = shop.write(tmp_path / "rows.parquet", groups)
    else:
        source = tmp_path / "rows"
        shop.write(source / "a.parquet", groups[:1])
        shop.write(source / "b.parquet", groups[1:])
    where = source.as_uri() if kind == "uri" else source
    assert run(where, request_column) == table.num_rows
    found = pq.ParquetFile(run.target).read()
    assert found.column_names == [*table.column_names, "click_score", "buy_score"]
    assert found.select(table.column_names).equals(table)
    for task, scores in Scorer(model).score_table(table, fitted, "request").items():
        assert found[f"{task}_score"].type == pa.float32()
        np.testing.assert_allclose(found[f"{task}_score"], scores, rtol=0, atol=2e-6)
    assert os.listdir(run.target.parent) == ["scores.parquet"]


@pytest.fixture
def with_user_table(fitted):
    """The user table of two features, and rows that have them, in the table's types."""
    users = UserTable(
        "user", pa.table({"user": ["a", "b"], "age": pa.array([1.5, None], pa.float32()),
                          "interests": [["a", "x"], None]})
    )  # fmt: skip
    table = shop.table(11, seed=5)
    return dataclasses.replace(fitted, users=users), users.join(table), table


def test_rows_need_the_id_of_their_user_only(with_user_table, model, tmp_path):
    fitted, whole, _ = with_user_table
    source, scores = tmp_path / "rows.parquet", []
    for table in (whole, whole.drop_columns(["age"]), whole.drop_columns(["age", "interests"])):
        pq.write_table(table, source)
        target = tmp_path / "scores.parquet"
        progress = Progress(Console(file=io.StringIO()))
        score(source, target, TASKS, lambda: (fitted, model), "request", progress)
        written = pq.read_table(target)
        assert written.column_names[:-2] == table.column_names
        scores.append(written.select(["click_score", "buy_score"]))
    assert scores[1].equals(scores[0])
    assert scores[2].equals(scores[0])


def test_own_features_count_before_the_user_table(with_user_table, model, tmp_path):
    """As in a request, whose values count before those of the store."""
    fitted, _, table = with_user_table
    others = dataclasses.replace(fitted, users=None)
    target = [tmp_path / "one.parquet", tmp_path / "other.parquet"]
    pq.write_table(table, tmp_path / "rows.parquet")
    for to, of in zip(target, (fitted, others), strict=True):
        progress = Progress(Console(file=io.StringIO()))
        score(tmp_path / "rows.parquet", to, TASKS, lambda of=of: (of, model), None, progress)
    assert pq.read_table(target[0]).equals(pq.read_table(target[1]))
    pq.write_table(table.drop_columns(["age", "user"]), tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=r"'user' \(data.users.key\) is missing"):
        score(tmp_path / "rows.parquet", target[0], TASKS, lambda: (fitted, model), None, progress)


def test_columns_keep_their_types_and_need_no_labels(run, tmp_path):
    """Narrow integers, dictionaries and columns the schema does not know stay as they are."""
    table = shop.table(5, seed=5).drop_columns(["click", "bought", "clicked"])
    small = pa.array([None, *range(1, table.num_rows)], pa.int8())
    table = table.set_column(table.column_names.index("item"), "item", small)
    coded = table["brand"].combine_chunks().dictionary_encode()
    table = table.set_column(table.column_names.index("brand"), "brand", coded)
    table = table.append_column("nested.name", pa.array([{"x": 1}] * table.num_rows))
    table = table.replace_schema_metadata({"made": "by a test"})
    source = shop.write(tmp_path / "rows.parquet", [table])
    run(source)
    found = pq.ParquetFile(run.target).read()
    assert found.select(table.column_names).equals(table)
    assert found.schema.metadata == {b"made": b"by a test"}


def without(table, name):
    return table.drop_columns([name])


def replaced(table, name, values):
    return table.set_column(table.column_names.index(name), name, pa.array(values))


CHANGES = {
    "missing": (lambda t: without(t, "past_items"), r"'past_items'.*is missing.*Columns: "),
    "misspelt": (
        lambda t: t.rename_columns([{"price": "prize"}.get(n, n) for n in t.column_names]),
        r"'price'.*Did you mean 'prize'\?",
    ),
    "type": (
        lambda t: replaced(t, "item", ["a"] * t.num_rows),
        "'item': expected int64, received string",
    ),
    "no list": (
        lambda t: replaced(t, "past_items", [5] * t.num_rows),
        "'past_items': expected list<int64>, received int64",
    ),
    "nan": (
        lambda t: replaced(t, "sales", pa.array([1.0] * (t.num_rows - 1) + [np.nan])),
        r"'sales': expected finite numbers, received nan in row 15; store null",
    ),
    "clash": (
        lambda t: t.append_column("buy_score", pa.nulls(t.num_rows)),
        r"already has the columns \['buy_score'\]. Remove or rename them",
    ),
    "no rows": (lambda t: t.slice(0, 0), "holds no rows to score"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_bad_input_is_one_error_and_leaves_the_target(run, tmp_path, change):
    alter, message = CHANGES[change]
    table = alter(shop.table(7, seed=5, longest=3))
    groups = [table.slice(0, 9), table.slice(9)] if table.num_rows else [table]
    source = shop.write(tmp_path / "rows.parquet", groups)
    with pytest.raises(DataError, match=message) as caught:
        run(source)
    assert str(source) in str(caught.value)
    assert_untouched(run)


def assert_untouched(run):
    assert run.target.read_text() == "as it was"
    assert os.listdir(run.target.parent) == ["scores.parquet"]


def test_files_must_agree_on_their_columns(run, tmp_path):
    shop.write(tmp_path / "rows" / "a.parquet", [shop.table(3, seed=5)])
    shop.write(tmp_path / "rows" / "b.parquet", [without(shop.table(3, seed=5), "truth")])
    with pytest.raises(DataError, match=r"b\.parquet: the column 'truth' .* is missing"):
        run(tmp_path / "rows")
    texts = replaced(shop.table(3, seed=5), "truth", ["a"] * shop.table(3, seed=5).num_rows)
    shop.write(tmp_path / "rows" / "b.parquet", [texts])
    with pytest.raises(DataError, match=r"b\.parquet: column 'truth': expected double as in"):
        run(tmp_path / "rows")
    assert_untouched(run)


def test_files_of_other_types_have_the_same_scores(run, tmp_path):
    tables = [shop.table(3, seed=5), shop.table(5, seed=6)]
    tables = [replaced(table, "item", [*range(len(table))]) for table in tables]
    shop.write(tmp_path / "same" / "a.parquet", tables)
    run(tmp_path / "same")
    expected = pq.ParquetFile(run.target).read()
    floats = replaced(tables[1], "item", tables[1]["item"].cast(pa.float64()))
    floats = replaced(floats, "user", floats["user"].cast(pa.large_string()).dictionary_encode())
    shop.write(tmp_path / "rows" / "day=5" / "a.parquet", [tables[0]])
    shop.write(tmp_path / "rows" / "day=6" / "a.parquet", [floats])
    shop.write(tmp_path / "rows" / "_temporary" / "a.parquet", tables)
    run(tmp_path / "rows")
    found = pq.ParquetFile(run.target).read()
    assert found["day"].to_pylist() == [5] * len(tables[0]) + [6] * len(tables[1])
    assert found.select(["item", "user"]).equals(expected.select(["item", "user"]))
    for task in TASKS:
        name = f"{task}_score"
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_nothing_to_read(run, tmp_path):
    with pytest.raises(DataError, match=r"gone\.parquet does not exist"):
        run(tmp_path / "gone.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="holds no Parquet file"):
        run(tmp_path / "empty")
    assert_untouched(run)


def test_changing_context_in_a_request_is_refused(run, tmp_path):
    table = shop.table(11, seed=5)
    ages = pa.array(np.arange(table.num_rows), pa.float32())
    table = table.set_column(table.column_names.index("age"), "age", ages)
    source = shop.write(tmp_path / "rows.parquet", [table])
    with pytest.raises(DataError, match=r"rows\.parquet: column 'age' .*one value per request"):
        run(source)
    assert run.target.read_text() == "as it was"
    assert run(source, None) == table.num_rows


def test_a_file_may_be_scored_in_place(run, tmp_path):
    table = shop.table(5, seed=5)
    shop.write(run.target, [table])
    assert run(run.target) == table.num_rows
    assert pq.ParquetFile(run.target).read().num_columns == table.num_columns + 2


def test_a_target_that_cannot_be_written(run, fitted, model, tmp_path):
    source = shop.write(tmp_path / "rows.parquet", [shop.table(3, seed=5)])
    progress, load = Progress(Console(file=io.StringIO())), lambda: (fitted, model)
    with pytest.raises(DataError, match=r"out is a folder\. Name the Parquet file"):
        score(source, run.target.parent, TASKS, load, None, progress)
    with pytest.raises(DataError, match=r"b\.parquet cannot be written: .*scores\.parquet"):
        score(source, run.target / "b.parquet", TASKS, load, None, progress)
    assert_untouched(run)
