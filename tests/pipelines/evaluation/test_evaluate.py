"""Predictions and metrics of a split, against scikit-learn on what was written."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from sklearn import metrics

from pipelines.common.artifacts import METRICS, PREDICTIONS
from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.evaluation import budget
from pipelines.evaluation.evaluate import evaluate, save_evaluation
from pipelines.experiment.config import Experiment
from pipelines.metrics import task_metrics
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from recsys_attn.models import attention_ranker
from tests.support import shop
from tests.support.experiments import NO_AUDIT

EVALUATION = {
    "group": "segment",
    "at": (2, 5),
    "ceiling": {"click": "truth"},
    "baselines": {"popular": "popularity"},
}


@pytest.fixture(scope="module")
def model(fitted):
    return shop.linear_model(fitted)


@pytest.fixture(scope="module")
def table():
    return shop.table(61, seed=11)


@pytest.fixture
def run(fitted, model, table, tmp_path):
    """Evaluates a table in two row groups, with the options given."""

    def run(table=table, request="request", trained=None, output=None, **options):
        options = {"attention_rows": 0, "relevance_rows": 0, **options}
        starts = np.flatnonzero(np.diff(table["request"].to_numpy(), prepend=-1))
        cut = int(starts[len(starts) // 2])
        folder = tmp_path / "test"
        shop.write(folder / "part-00000.parquet", [table.slice(0, cut), table.slice(cut)])
        progress = Progress(Console(file=output or io.StringIO(), width=200))
        inputs = (_experiment(options), DataSplit(folder), request, fitted, model, progress)
        return evaluate(*inputs, trained=trained)

    return run


def _experiment(options):
    return Experiment.model_validate(
        {
            "name": "shop",
            "data": {"source": "simulate"},
            "features": [{"kind": "categorical", "name": "item"}],
            "tasks": [{"name": "click"}, {"name": "buy"}],
            "training": {"batch_size": 7},
            "evaluation": options,
        }
    )


def test_metrics_json_has_null_in_place_of_nan(run, tmp_path):
    predictions, summary = run(**EVALUATION)
    summary["attention"] = {"map": [[float("nan"), 0.5], [float("inf"), 1]]}
    save_evaluation(tmp_path, predictions, summary)

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    saved = json.loads((tmp_path / METRICS).read_text(), parse_constant=refuse)
    assert saved["attention"] == {"map": [[None, 0.5], [None, 1]]}


def test_audits_take_rows_by_the_work_of_the_training(run, table, monkeypatch):
    """Fewer rows, or none, with a line that says so; all with the share that it names."""
    monkeypatch.setattr(budget, "LEAST", 1)
    rows, output = {"importance_rows": 9_999, "relevance_rows": 60}, io.StringIO()
    whole = {"importance_rows": table.num_rows, "attention_rows": 0, "relevance_rows": 60}
    assert run(**rows)[1]["audited"] == whole
    summary = run(**rows, trained=10_000, output=output)[1]
    assert summary["audited"] == {**whole, "relevance_rows": 0}
    assert "relevance" not in summary["tasks"]["click"]
    assert len(summary["tasks"]["click"]["importance"]) > 1
    line = output.getvalue().strip()
    assert line.startswith("`evaluation.budget` = 0.2 leaves relevance no rows; all rows: --set ")
    share = float(line.rpartition("=")[2])
    output = io.StringIO()
    again = run(**rows, trained=10_000, budget=share, output=output)[1]
    assert (again["audited"], output.getvalue()) == (whole, "")


def test_metrics_are_those_of_the_predictions(run, table, tmp_path):
    predictions, summary = run(**EVALUATION, relevance_rows=50)
    save_evaluation(tmp_path, predictions, summary)
    saved = pq.ParquetFile(tmp_path / PREDICTIONS).read()
    summary = json.loads((tmp_path / METRICS).read_text())
    head = [summary[key] for key in ("split", "rows", "requests", "group")]
    assert head == ["test", table.num_rows, 61, "segment"]
    groups = saved["group"].to_pylist()
    assert None in groups
    for task in ("click", "buy"):
        found = summary["tasks"][task]
        labels = saved[f"{task}/label"].to_numpy()
        known = ~np.isnan(labels)
        assert 0 < known.sum() < table.num_rows
        labels = labels[known]
        scores = saved[f"{task}/score"].to_numpy()[known].astype("float64")
        of_groups = [g for g, k in zip(groups, known, strict=True) if k]
        requests = saved["request"].to_numpy()[known]
        expected = task_metrics(
            labels,
            scores,
            groups=of_groups,
            requests=requests,
            at=(2, 5),
            ceiling=saved["click/ceiling"].to_numpy()[known] if task == "click" else None,
            baselines={"popular": saved["baseline/popular"].to_numpy()[known]},
        )
        assert {entry["feature"] for entry in found.pop("importance")} > {"item"}
        relevance = found.pop("relevance")
        assert relevance["rows"] == 50
        assert set(relevance["kinds"]) == {"fields", "events/history", "events/searches"}
        assert found == {**expected, "own": {}, "segments": []}  # and no slices
        assert found["auc"] == pytest.approx(metrics.roc_auc_score(labels, scores), abs=1e-12)
        assert found["logloss"] == pytest.approx(metrics.log_loss(labels, scores), abs=1e-9)
        assert found["gauc_groups"] == 2


def test_importance_and_relevance_can_be_left_out(run):
    summary = run(**NO_AUDIT)[1]
    assert summary["attention"] is None
    for task in summary["tasks"].values():
        assert not {"importance", "relevance"} & set(task)


@pytest.mark.thorough
def test_the_attention_of_a_model_is_audited(fitted, table, tmp_path):
    model = attention_ranker(
        fitted.schema, width=4, interaction={"num_layers": 1}, experts={"units": (4,)}
    )
    shop.write(tmp_path / "test/part-00000.parquet", [table])
    experiment = _experiment({"importance_rows": 0, "relevance_rows": 0, "segments": ["segment"]})
    given = (experiment, DataSplit(tmp_path / "test"), "request", fitted, model)
    first = evaluate(*given, Progress(Console(file=io.StringIO())))[1]["attention"]
    assert first["rows"] == table.num_rows
    assert [place["kind"] for place in first["places"]] == [
        "target_attention",
        "target_attention",
        "interaction",
        "gate",
    ]
    (interaction,) = [place for place in first["places"] if "map" in place]
    np.testing.assert_allclose(np.nansum(interaction["map"], axis=-1)[0, 0], 1, atol=1e-5)
    assert set(interaction["agreement"]) == {"click", "buy"}
    assert {name for pair in first["pairs"] for name in pair["features"]} >= {"item"}
    gates = first["experts"]["tasks"]["click"]
    assert sum(share[0] for share in gates["shares"]) == pytest.approx(1, abs=1e-5)
    assert any(name.startswith("segment=") for name in gates["segments"])


@pytest.mark.thorough
def test_a_model_without_attention_has_no_audit(run):
    assert run(attention_rows=500, importance_rows=0)[1]["attention"] is None


def test_predictions_are_the_rows_of_the_split(run, fitted, model, table):
    predictions, _ = run(**EVALUATION)
    names = "request group click/label click/score click/ceiling buy/label buy/score"
    assert predictions.column_names == [*names.split(), "baseline/popular"]
    lengths = np.unique(predictions["request"], return_counts=True)
    requests = table["request"].to_numpy()
    np.testing.assert_array_equal(lengths[0], np.arange(61))
    np.testing.assert_array_equal(
        lengths[1], [np.sum(requests == r) for r in dict.fromkeys(requests)]
    )
    assert predictions["group"].to_pylist() == table["segment"].to_pylist()
    assert predictions["click/label"].to_pylist() == table["click"].to_pylist()
    assert predictions["click/label"].type == pa.float32()
    bought = zip(table["bought"].to_pylist(), table["clicked"].to_pylist(), strict=True)
    assert predictions["buy/label"].to_pylist() == [v if m else None for v, m in bought]
    assert predictions["click/ceiling"].to_pylist() == table["truth"].to_pylist()
    for task, scores in Scorer(model).score_table(table, fitted, "request").items():
        found = predictions[f"{task}/score"]
        assert found.type == pa.float32()
        np.testing.assert_allclose(found, scores, rtol=0, atol=2e-6)


@pytest.mark.thorough
def test_group_is_the_request_if_there_is_one(run, table):
    predictions, summary = run()
    assert summary["group"] == "request"
    assert predictions["group"].to_pylist() == table["request"].to_pylist()
    assert summary["tasks"]["click"]["baselines"] == {}
    predictions, summary = run(request=None)
    assert summary["requests"] == table.num_rows
    assert summary["group"] is None
    assert "group" not in predictions.column_names
    assert summary["tasks"]["click"]["gauc"] is None
    np.testing.assert_array_equal(predictions["request"], np.arange(table.num_rows))


def test_an_undefined_metric_is_null(run, table):
    position = table.column_names.index("click")
    zeros = pa.array(np.zeros(table.num_rows), pa.int8())
    _, summary = run(table.set_column(position, "click", zeros), **EVALUATION)
    click = json.loads(json.dumps(summary["tasks"]["click"], allow_nan=False))
    assert click["auc"] is click["gauc"] is click["calibration"] is click["ceiling"]["auc"] is None
    assert click["logloss"] > 0


@pytest.mark.parametrize(
    "options", [{"group": "shop"}, {"ceiling": {"click": "shop"}}, {"baselines": {"b": "shop"}}]
)
def test_missing_evaluation_column_is_refused(run, options):
    message = r"`evaluation` names the columns \['shop'\], which the data does not have"
    with pytest.raises(PipelineError, match=message):
        run(**options)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("option", ["ceiling", "baselines"])
def test_invalid_ceiling_or_baseline_is_refused(run, table, option):
    with pytest.raises(PipelineError, match="'segment': expected numbers, received string"):
        run(**{option: {"click": "segment"}})
    position = table.column_names.index("truth")
    holes = pa.array(table["truth"].to_numpy(), mask=np.arange(table.num_rows) % 2 == 0)
    with pytest.raises(PipelineError, match=r"Task 'click' cannot be evaluated: .*nan.* truth"):
        run(table.set_column(position, "truth", holes), **{option: {"click": "truth"}})
    with pytest.raises(PipelineError, match=r"must be probabilities in \[0, 1\].*popularity"):
        run(ceiling={"click": "popularity"})


def test_scores_that_are_no_numbers_are_refused(fitted, table, tmp_path):
    broken = shop.linear_model(fitted)
    for weight in broken.trainable_variables:
        weight.assign(np.full(weight.shape, np.nan))
    shop.write(tmp_path / "part-00000.parquet", [table])
    given = (DataSplit(tmp_path), "request", fitted, broken)
    rows = table.num_rows
    message = f"scores of task 'click' are not numbers in {rows} of {rows} rows.*learning_rate"
    with pytest.raises(PipelineError, match=message):
        evaluate(_experiment({}), *given, Progress(Console(file=io.StringIO())))


def test_no_labels_or_one_class_have_no_slices(run, table):
    position = table.column_names.index("click")
    for value in (None, 0):
        column = pa.array([value] * table.num_rows, pa.int8())
        _, summary = run(table.set_column(position, "click", column), slices=True)
        click = summary["tasks"]["click"]
        assert click["auc"] is None
        assert click["slices"]["searched"] == 0


def test_segments_are_the_rows_of_their_values(run, table):
    predictions, summary = run(segments=["segment", "past_items", ["segment", "age"]])
    labels = predictions["buy/label"].to_numpy()
    scores = predictions["buy/score"].to_numpy().astype("float64")
    found = {each["name"]: each for each in summary["tasks"]["buy"]["segments"]}
    columns = [["segment"], ["past_items"], ["segment", "age"]]
    assert [list(c) for c in dict.fromkeys(tuple(e["columns"]) for e in found.values())] == columns
    written = [f"segment={v or '(missing)'}" for v in table["segment"].to_pylist()]
    assert predictions["segment/segment"].to_pylist() == written
    assert "segment/segment, age" in predictions.column_names
    values = np.array(table["segment"].to_pylist(), object)
    lengths = [None if v is None else len(v) for v in table["past_items"].to_pylist()]
    rows = {
        "segment=x": values == "x",
        "segment=(missing)": np.equal(values, None),
        "past_items=0": np.equal(lengths, 0),
        "past_items=(missing)": np.equal(lengths, None),
        "segment=y, age=1.5": (values == "y") & np.equal(table["age"].to_pylist(), 1.5),
    }
    for name, inside in rows.items():
        inside = inside.astype(bool) & ~np.isnan(labels)
        assert found[name]["rows"] == inside.sum() > 0
        if found[name]["auc"] is not None:
            expected = metrics.roc_auc_score(labels[inside], scores[inside])
            assert found[name]["auc"] == pytest.approx(expected, abs=1e-12)
            loss = metrics.log_loss(labels[inside], scores[inside])
            assert found[name]["logloss"] == pytest.approx(loss, abs=1e-9)
    json.dumps(summary["tasks"], allow_nan=False)


@pytest.mark.thorough
def test_a_planted_slice_of_a_shop_is_found(fitted, model, tmp_path):
    """The clicks on one brand follow no score."""
    table = shop.table(7919, seed=5)
    scores = Scorer(model).score_table(table, fitted, "request")["click"]
    of_brand = np.array(table["brand"].to_pylist(), object) == "a"
    rng = np.random.default_rng(0)
    chance = np.where(of_brand, 0.5, scores)
    clicks = pa.array((rng.random(len(table)) < chance).astype(np.int8))
    table = table.set_column(table.column_names.index("click"), "click", clicks)
    shop.write(tmp_path / "test/part-00000.parquet", [table])
    progress = Progress(Console(file=io.StringIO()))
    split = DataSplit(tmp_path / "test")
    options = {"slices": True, "importance_rows": 0}
    _, summary = evaluate(_experiment(options), split, "request", fitted, model, progress)
    slices = json.loads(json.dumps(summary["tasks"]["click"]["slices"], allow_nan=False))
    assert slices["columns"] == [feature.name for feature in shop.SCHEMA.features]
    assert slices["searched"] > slices["tested"] >= len(slices["reported"])
    first = slices["reported"][0]
    assert (first["name"], first["columns"]) == ("brand=a", ["brand"])
    assert first["rows"] == of_brand.sum()
    low, high = first["confirmed"]["interval"]
    assert 0 < low < first["confirmed"]["excess_logloss_difference"] < high
    assert first["found"]["clusters"] + first["confirmed"]["clusters"] == summary["requests"]
