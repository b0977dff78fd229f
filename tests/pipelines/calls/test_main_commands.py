"""The commands as functions do what the commands do, and raise what they print."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

import pipelines
from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.common.errors import PipelineError
from tests.support.experiments import QUICK, write


def test_a_run_by_functions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, QUICK, ("epochs = 2", "epochs = 1"))
    folder = pipelines.run(file, run_dir=tmp_path / "run", quiet=True)
    assert folder == tmp_path / "run"
    assert pipelines.train(folder, quiet=True)["kept"]["epoch"] >= 1
    metrics = pipelines.evaluate(folder, quiet=True)
    assert 0 <= metrics["tasks"]["click"]["auc"] <= 1
    rows = next((folder / "data" / "test").glob("*.parquet"))
    count = pipelines.score(folder, rows, tmp_path / "scores.parquet", quiet=True)
    assert count == pq.read_metadata(tmp_path / "scores.parquet").num_rows > 0
    assert capsys.readouterr().out == ""


def test_errors_are_exceptions(tmp_path: Path) -> None:
    file = write(tmp_path)
    with pytest.raises(PipelineError, match=r"`training\.epoch` is not a known key"):
        pipelines.run(file, overrides={"training.epoch": 3})
    with pytest.raises(PipelineError, match="`unseen` needs `catalogue`"):
        pipelines.score(file, "rows", tmp_path / "scores", top_k=3, unseen=True)


def test_another_backend_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    keras = SimpleNamespace(config=SimpleNamespace(backend=lambda: "jax"))
    monkeypatch.setitem(sys.modules, "keras", keras)
    with pytest.raises(PipelineError, match=r"Set KERAS_BACKEND=tensorflow.*Received: 'jax'"):
        import_tensorflow()
