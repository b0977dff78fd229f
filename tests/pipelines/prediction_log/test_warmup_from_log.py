"""Warm-up files of a log: every batch size, no responses."""

import functools
import shutil
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf
from tensorflow_serving.apis import prediction_log_pb2

from pipelines.common.artifacts import MANIFEST, read_json
from pipelines.common.errors import PipelineError
from pipelines.export.warmup import WARMUP_FILE
from pipelines.prediction_log.log_folder import LogFolder
from pipelines.prediction_log.messages import batch_shape, parse
from pipelines.prediction_log.warmup_from_log import Stratum, quotas, warm_up_from_log
from pipelines.workflow.steps import Steps
from serving.inference.service import replay
from serving.models.completeness import check_folder
from serving.models.warmup import warm_up
from tests.integration.commands import error_of, invoke
from tests.serving.exports import load_model


def records(path: Path) -> list[prediction_log_pb2.PredictionLog]:
    found = tf.data.TFRecordDataset(str(path)).as_numpy_iterator()
    return [prediction_log_pb2.PredictionLog.FromString(record) for record in found]


def sizes(log: Path) -> Counter[tuple[str, tuple[int, ...]]]:
    """Calls of a log by signature and batch size."""
    return Counter(
        (entry.signature, batch_shape(*parse(entry.log))) for entry in LogFolder.open(log).entries()
    )


def size(record: prediction_log_pb2.PredictionLog) -> tuple[str, tuple[int, ...]]:
    request = record.predict_log.request
    dims = request.inputs["item_id"].tensor_shape.dim
    return request.model_spec.signature_name, tuple(dim.size for dim in dims)


def test_every_size_is_there_and_frequent_ones_more_often(log: Path, tmp_path: Path) -> None:
    written = warm_up_from_log(log, tmp_path / "deep" / "file", 60, None, seed=0)
    found, seen = records(tmp_path / "deep" / "file"), sizes(log)
    assert len(found) == written.records == min(60, sum(seen.values()))
    taken = Counter(map(size, found))
    assert taken.keys() == seen.keys()
    assert written.strata == written.strata_seen == len(seen)
    assert all(taken[stratum] <= seen[stratum] for stratum in seen)
    for record in found:
        assert not record.HasField("log_metadata")
        assert not record.predict_log.HasField("response")
        spec = record.predict_log.request.model_spec
        assert spec.name == "tiny"
        assert spec.WhichOneof("version_choice") is None
        assert len(record.predict_log.request.inputs) == 4


def test_a_server_replays_them(steps: Steps, log: Path, tmp_path: Path) -> None:
    version = Path(shutil.copytree(steps.export_folder / "1", tmp_path / "1"))
    written = warm_up_from_log(log, version, 20, "tiny", seed=0)
    assert written.path == version / "assets.extra" / "tf_serving_warmup_requests"
    model = load_model("tiny", 7, version)
    assert warm_up(model, functools.partial(replay, model)) == 20


@pytest.mark.parametrize("target", ["", WARMUP_FILE])
def test_an_exported_folder_stays_whole(
    steps: Steps, log: Path, tmp_path: Path, target: str | Path
) -> None:
    version = Path(shutil.copytree(steps.export_folder / "1", tmp_path / "1"))
    before = read_json(version / MANIFEST)
    warm_up_from_log(log, version / target, 7, "tiny", seed=0)
    after = read_json(version / MANIFEST)
    name = WARMUP_FILE.as_posix()
    assert after["files"].pop(name) != before["files"].pop(name)
    assert after == before
    assert check_folder(version).gap is None


def strata(*counts: int) -> Counter[Stratum]:
    return Counter({Stratum("p", "s", (size,)): count for size, count in enumerate(counts)})


@pytest.mark.parametrize("counts", [(1,), (5, 3, 900), (1, 1, 1, 2), (100, 99, 98, 3)])
@pytest.mark.parametrize("total", [1, 2, 3, 17, 1000])
def test_shares_add_up(counts: tuple[int, ...], total: int) -> None:
    calls = strata(*counts)
    found = quotas(calls, total)
    assert sum(found.values()) == min(total, sum(calls[stratum] for stratum in found))
    assert len(found) == min(total, len(calls))
    assert all(1 <= share <= calls[stratum] for stratum, share in found.items())
    left_out = [calls[stratum] for stratum in calls if stratum not in found]
    assert max(left_out, default=0) <= min(calls[stratum] for stratum in found)


def test_errors_are_one_sentence(log: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"folder without saved_model\.pb\. Name a file"):
        warm_up_from_log(log, tmp_path, 10, None, 0)
    with pytest.raises(PipelineError, match="no call of the model 'x'"):
        warm_up_from_log(log, tmp_path / "file", 10, "x", 0)
    arguments = ("warmup-from-log", tmp_path / "none", "--output", tmp_path / "file")
    assert "none does not exist" in error_of(invoke(*arguments))
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote(log: Path, tmp_path: Path) -> None:
    target = tmp_path / "file"
    result = invoke("warmup-from-log", log, "--output", target, "--requests", 1)
    assert result.exit_code == 0, result.output
    assert f"1 requests of 1 of the {len(sizes(log))} batch sizes in the log  {target}" in (
        result.stdout
    )
    assert len(records(target)) == 1
