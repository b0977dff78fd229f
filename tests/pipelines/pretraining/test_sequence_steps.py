"""The steps from a log of events to metrics, which run once."""

import dataclasses
import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.engines import LocalEngine
from pipelines.pretraining.evaluate_next_items import ITEM_ITEM, POPULARITY
from pipelines.pretraining.evaluated_histories import EvaluatedHistories, read_histories
from pipelines.pretraining.item_ranking import ModelScores
from pipelines.pretraining.schema import with_length
from pipelines.pretraining.sequence_steps import load_sequence_model
from pipelines.storage.dataset import DataSplit
from tests.pipelines.pretraining.small_log import LENGTH, load, printed, steps

STEPS = ("ingest", "fit", "train", "evaluate", "export")


def metrics_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run/evaluation/metrics.json").read_text())
    return found


def test_a_run_leaves_every_folder_with_its_manifest(finished: Path) -> None:
    run = finished / "run"
    made = {p.parent.relative_to(run).as_posix() for p in run.rglob("manifest.json")}
    assert made == {"data", "features", "model", "evaluation", "export/small/1"}
    data, model = (json.loads((run / f"{n}/manifest.json").read_text()) for n in ("data", "model"))
    assert data["rows"]["test"] == data["rows"]["valid"] < data["rows"]["train"]
    assert [epoch["epoch"] for epoch in model["training"]] == [1, 2]
    assert {"loss", "val_ndcg@10", "val_hr@3"} <= model["training"][0].keys()
    _, trained = load_sequence_model(run)
    assert model["weights"] == sum(weight.numpy().size for weight in trained.trainable_weights)
    assert {feature.name for feature in trained.schema.features} == {"film", "age"}


def test_metrics_are_of_the_model_and_of_both_rules(finished: Path) -> None:
    found, data = (
        metrics_of(finished),
        json.loads((finished / "run/data/manifest.json").read_text()),
    )
    assert list(found["results"]) == ["sasrec", POPULARITY, ITEM_ITEM]
    assert found["rows"] == data["rows"]["test"]
    for result in found["results"].values():
        low, high = result["intervals"]["ndcg@10"]
        assert 0 <= low <= result["metrics"]["ndcg@10"] <= high
        assert 0 <= result["metrics"]["hr@3"] <= result["metrics"]["hr@10"] <= 1


def places_of(values: np.ndarray, each: EvaluatedHistories) -> np.ndarray:
    """The places that the target may have: several among equal scores, none if unknown or seen."""
    (target,) = each.targets
    if target < 2 or target in each.seen[0]:
        return np.array([np.inf])
    others = np.setdiff1d(np.arange(2, len(values)), [*each.seen[0], target])
    above, equal = (values[others] > values[target]).sum(), (values[others] == values[target]).sum()
    return np.arange(above, above + equal + 1)


def cosines_of(users: list[set[int]], size: int) -> np.ndarray:
    """The cosines of the users of two items, 0 of an item with itself."""
    found = np.zeros((size, size))
    of = [{n for n, items in enumerate(users) if item in items} for item in range(size)]
    for first, second in itertools.permutations(range(size), 2):
        both = len(of[first] & of[second])
        found[first, second] = both and both / np.sqrt(len(of[first]) * len(of[second]))
    return found


def test_metrics_are_those_of_the_places_of_the_targets(finished: Path) -> None:
    """One user at a time; items of the history do not rank. Rules count all train events."""
    fitted, model = load_sequence_model(finished / "run")
    vocabulary: Any = fitted.transform_of("film")
    ids = {value: 2 + n for n, value in enumerate(vocabulary.values.to_pylist())}
    train = pq.read_table(finished / "run/data/train")["film"].to_pylist()
    assert max(map(len, train)) > LENGTH + 1
    counts = np.bincount([ids[item] for row in train for item in row], minlength=model.size)
    cosines = cosines_of([{ids[item] for item in row} for row in train], model.size)
    # Sums of another order differ in the last digits; of equal ones the counts decide.
    ties = 1e-9 * counts / counts.max()
    split, scores = DataSplit(finished / "run/data/test"), ModelScores(model)
    histories = list(read_histories(split, with_length(fitted, LENGTH + 1), "film", 1))
    expected = {
        "sasrec": [places_of(scores(each)[0], each) for each in histories],
        POPULARITY: [places_of(counts, each) for each in histories],
        ITEM_ITEM: [
            places_of((cosines[np.unique(each.seen)].sum(axis=0) + ties).round(13), each)
            for each in histories
        ],
    }
    for name, places in expected.items():
        found = metrics_of(finished)["results"][name]["metrics"]
        for k in (3, 10):
            hits = [np.mean(each < k) for each in places]
            gains = [np.mean(np.where(each < k, 1 / np.log2(2 + each), 0)) for each in places]
            assert found[f"hr@{k}"] == pytest.approx(np.mean(hits))
            assert found[f"ndcg@{k}"] == pytest.approx(np.mean(gains))
    again = [each.targets[0] > 1 and each.targets[0] in each.seen[0] for each in histories]
    assert metrics_of(finished)["repeated_targets"] == sum(again) > 0


def test_second_run_skips_every_step(finished: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (finished / "run").rglob("manifest.json")}
    again = steps(finished)
    again.everything()
    for step in STEPS:
        assert f"{step}: unchanged, skipped" in printed(again)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("step", STEPS[1:])
def test_each_step_refuses_rows_of_a_changed_log(finished: Path, step: str) -> None:
    again = steps(finished)
    changed = dict.fromkeys(again.run.stamps, "1 1")
    other = dataclasses.replace(again, run=dataclasses.replace(again.run, files=lambda: changed))
    with pytest.raises(PipelineError, match=r"had [\d,]+ bytes and has 1 now.*n ingest`"):
        getattr(other, step)()


def test_changed_evaluation_trains_nothing_anew(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    again = steps(finished, evaluation__seen="ranked", evaluation__sampled={"negatives": 7})
    again = type(again).of(again.experiment, tmp_path / "run", again.console, force=False)
    again.everything()
    text = printed(again)
    for step in ("ingest", "fit", "train", "export"):
        assert f"{step}: unchanged, skipped" in text
    assert "evaluate: settings changed: " in text
    assert "experiment: updated in the run folder: " in text
    assert "Sampled metrics rank the next item among a few drawn items" in text
    found = metrics_of(tmp_path)
    assert found["seen"] == "ranked"
    assert "sampled_ndcg@10" in found["results"]["sasrec"]["metrics"]


def test_histories_may_be_empty_or_unknown(finished: Path) -> None:
    _, model = load_sequence_model(finished / "run")
    inputs = {name: np.zeros((3, 4), "int32") for name in ("film", "age")}
    inputs["film"][1:, 0] = 1, 5
    inputs["age"][1:, 0] = 2
    scores = ModelScores(model)(
        EvaluatedHistories(inputs, np.zeros(3, "int32"), np.zeros((3, 0), "int32"))
    )
    assert not scores[0].any()  # the state of no event is zeros
    assert np.isfinite(scores).all()
    assert min(np.ptp(scores[1]), np.ptp(scores[2])) > 0


def test_steps_alone_say_what_is_missing_before_they_start(tmp_path: Path) -> None:
    for names in (["fit"], ["fit", "train"], ["evaluate"]):
        with pytest.raises(PipelineError, match=r"run `recsys-attn ingest` first"):
            steps(tmp_path).take(names)
    wrong = steps(tmp_path, objectives=[{"name": "masked_item"}])
    with pytest.raises(PipelineError, match=r"`objectives`, 'masked_item': .* hides events"):
        wrong.take(["ingest"])
    assert not (tmp_path / "run").exists()


def test_steps_of_a_log_run_in_this_process_alone(tmp_path: Path) -> None:
    class Elsewhere(LocalEngine):
        pass

    for step in ("ingest", "evaluate"):
        with pytest.raises(PipelineError, match=f"--engine: expected 'local' .*'{step}'"):
            getattr(steps(tmp_path), step)(Elsewhere())


def test_run_without_a_sequence_model_is_an_error(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"cannot be read: .*recsys-attn train"):
        load_sequence_model(tmp_path)
    with pytest.raises(PipelineError, match="run `recsys-attn train` first"):
        steps(tmp_path).load()
    assert load(finished).settings["fit"] == {"max_length": LENGTH}
