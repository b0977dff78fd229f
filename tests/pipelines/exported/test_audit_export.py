"""The audit of an export says what the audit of the trained model says, from outside."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.audit.attention import audit_attention
from pipelines.audit.experts import audited_gates
from pipelines.common.errors import PipelineError
from pipelines.evaluation.importance import permutation_importance
from pipelines.exported.audit_export import audit_export
from pipelines.exported.labelled_rows import LabelledRows
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import transform
from pipelines.scoring.scorer import Scorer
from recsys_attn.models import RankingModel
from tests.integration.commands import invoke
from tests.support import shop

TABLE = shop.table(40, seed=9)


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    return shop.fitted()


@pytest.fixture(scope="module")
def model(fitted: FittedFeatures) -> RankingModel:
    return shop.model(fitted)


@pytest.fixture(scope="module")
def place(shop_export: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the export and the rows in two files, of which one is not as usual."""
    folder = tmp_path_factory.mktemp("audit")
    shutil.copytree(shop_export, folder / "3")
    cut = int(np.flatnonzero(np.diff(TABLE["request"].to_numpy()))[20]) + 1
    user, coded = TABLE.column_names.index("user"), TABLE["user"][:cut].dictionary_encode()
    other = TABLE.slice(0, cut).set_column(user, "user", coded)
    for number, part in enumerate((other, TABLE.slice(cut))):
        shop.write(folder / f"rows/part-{number:05}.parquet", [part])
    return folder


@pytest.fixture(scope="module")
def audited(place: Path) -> dict[str, Any]:
    rows = LabelledRows(place / "rows", "request", None)
    page = audit_export(place / "3", rows, place / "out", Console(file=io.StringIO()), seed=0)
    assert "What single heads do" in page.read_text("utf-8")
    found: dict[str, Any] = json.loads((place / "out/metrics.json").read_text("utf-8"))
    return found


@pytest.mark.thorough
def test_scores_and_labels_are_those_of_the_trained_model(
    place: Path, audited: dict[str, Any], model: RankingModel, fitted: FittedFeatures
) -> None:
    predictions = pq.read_table(place / "out/predictions.parquet")
    for task, scores in Scorer(model).score_table(TABLE, fitted, "request").items():
        np.testing.assert_allclose(predictions[f"{task}/score"].to_numpy(), scores, atol=1e-6)
    masked = np.array(TABLE["clicked"].to_pylist())
    bought = TABLE["bought"].cast(pa.float64()).to_numpy()
    np.testing.assert_array_equal(
        predictions["buy/label"].to_numpy(), np.where(masked, bought, np.nan)
    )
    assert (audited["rows"], audited["requests"]) == (TABLE.num_rows, 40)


@pytest.mark.thorough
def test_importance_is_that_of_the_trained_model(
    audited: dict[str, Any], model: RankingModel, fitted: FittedFeatures
) -> None:
    codes = np.repeat(np.arange(40), np.diff(_starts()))
    labels = {"click": TABLE["click"].cast(pa.float64()).to_numpy()}
    expected = permutation_importance(
        lambda table: Scorer(model).score_table(table, fitted, "request"),
        TABLE,
        fitted.schema,
        "request",
        labels,
        codes.astype(float),
    )
    found = {each["feature"]: each["auc"] for each in audited["tasks"]["click"]["importance"]}
    assert found.keys() == {each["feature"] for each in expected["click"]}
    for each in expected["click"]:
        assert found[each["feature"]] == pytest.approx(each["auc"], abs=1e-5)


def test_attention_is_that_of_the_trained_model(
    audited: dict[str, Any], model: RankingModel, fitted: FittedFeatures
) -> None:
    chunk = transform(TABLE, fitted, "request", labelled=False)
    clusters = np.repeat(np.arange(40.0), np.diff(_starts()))
    expected = audit_attention(model, model, chunk, {}, clusters)
    of_history = {p["history"]: p for p in expected["places"] if "events" in p}
    found = {place["history"]: place for place in audited["attention"]["places"]}
    assert found.keys() == of_history.keys()
    assert found
    for history, place in found.items():
        theirs = {each["name"]: each for each in of_history[history]["events"]}
        assert {"latest event", "2nd latest"} <= {each["name"] for each in place["events"]}
        for each in place["events"]:
            wanted = theirs[each["name"]]
            if each["name"] == "same brand":  # other brands share its hashed id
                assert 0 < each["events"] < wanted["events"]
                continue
            assert each["events"] == pytest.approx(wanted["events"], abs=1e-6), each["name"]
            assert each["weight"] == pytest.approx(wanted["weight"], abs=1e-5), each["name"]
    codes = clusters.astype(int)
    gates = audited_gates(expected["gates"], codes, (), None)["tasks"]
    for task, each in audited["attention"]["experts"]["tasks"].items():
        assert each["shares"] == pytest.approx(np.array(gates[task]["shares"]), abs=1e-5)


def _starts() -> np.ndarray:
    change = np.flatnonzero(np.diff(TABLE["request"].to_numpy())) + 1
    return np.array([0, *change, TABLE.num_rows])


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda table: table.drop(["click"]), r"the columns \['click'\] are missing"),
        (lambda table: table.drop(["item"]), r"\['item'\] are missing: .*`ingest` makes"),
        (lambda table: table.slice(0, 0), "has no rows"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "must follow each other"),
        (
            lambda table: table.set_column(
                table.column_names.index("click"), "click", pa.array([2] * table.num_rows)
            ),
            "expected a label of 0, 1 or null",
        ),
    ],
)
def test_rows_that_do_not_fit_are_one_sentence(
    place: Path, tmp_path: Path, change: Any, message: str
) -> None:
    file = tmp_path / "rows.parquet"
    pq.write_table(change(TABLE), file)
    with pytest.raises(PipelineError, match=message):
        audit_export(
            place / "3",
            LabelledRows(file, "request", None),
            tmp_path / "out",
            Console(file=io.StringIO()),
            seed=0,
        )
    assert not (tmp_path / "out").exists()


def test_rows_at_no_path_are_an_error(tmp_path: Path) -> None:
    rows = LabelledRows(tmp_path / "none.parquet", None, None)
    with pytest.raises(PipelineError) as error:
        rows.check(shop.SCHEMA)
    assert str(error.value) == f"The input {tmp_path / 'none.parquet'} does not exist."


def test_the_command_reports_a_folder_without_an_export(tmp_path: Path) -> None:
    result = invoke("audit", tmp_path, tmp_path, "--output", tmp_path / "out")
    assert result.exit_code == 1
    assert "is no exported model: expected the folder of a version" in result.stderr
