"""What is measured: the AUC, the protocol of a contender's process, and who runs it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from benchmarks.peers import contender, contenders, data
from benchmarks.peers.environment import python_of
from benchmarks.peers.settings import Settings


class Popularity:
    """A contender whose score is how often an id was clicked on."""

    def __init__(self, settings: Settings) -> None:
        self.clicks = np.ones((2, settings.table_rows))
        self.rows: list[int] = []

    def step(self, batch: data.Batch) -> float:
        ids = batch.candidate[:, 0, 0]
        np.add.at(self.clicks[0], ids, batch.labels[:, 0, 0])
        np.add.at(self.clicks[1], ids, 1.0)
        self.rows.append(len(batch))
        return 0.5

    def scores(self, batch: data.Batch) -> np.ndarray:
        return (self.clicks[0] / self.clicks[1])[batch.candidate]

    def memory(self) -> Mapping[str, float]:
        return {"weights": 2.0 * contender.MEGABYTE, "slots": 0.0}


def test_a_process_prints_what_it_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings("din", 401, 53, str(tmp_path / "data"), warm_up=2, steps=3, auc_steps=7)
    data.save(settings, 5 * 53, 499)
    monkeypatch.setattr(sys, "argv", ["contender", json.dumps(vars(settings))])
    made: list[Popularity] = []

    def make(settings: Settings) -> Popularity:
        made.append(Popularity(settings))
        return made[0]

    contender.run(make)
    found = contender.Measured(**json.loads(capsys.readouterr().out))

    assert made[0].rows == [53] * 7  # rows are read again where the steps need more
    assert found.rows_per_second > 0
    assert found.peak > 10
    assert (found.weights, found.slots, found.loss) == (2.0, 0.0, 0.5)
    test = data.load(settings, "test")
    expected = roc_auc_score(test.labels.ravel(), made[0].scores(test).ravel())
    np.testing.assert_allclose(found.auc, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("distinct", [2, 7, 10**6])
def test_auc_is_that_of_scikit_learn(distinct: int) -> None:
    rng = np.random.default_rng(distinct)
    labels, scores = rng.integers(2, size=499), rng.integers(distinct, size=499)
    np.testing.assert_allclose(
        contender.auc(labels, scores), roc_auc_score(labels, scores), rtol=0, atol=1e-12
    )


def test_contenders_take_turns_and_leave_out_what_they_cannot_express() -> None:
    ours = contenders.ours(["tensorflow", "parquet"], ["float32"], [False, True], [None, 0])
    peers = contenders.peers("autoint8", Path("python"), ["float32", contenders.LOW])

    names = [(entry.name, entry.precision) for entry in contenders.in_turns(ours, peers)]

    assert names == [
        ("ours", "float32"),
        ("FuxiCTR", "float32"),
        ("ours, whole batch", "float32"),
        ("FuxiCTR", contenders.LOW),
        ("ours, XLA", "float32"),
        ("DeepCTR-Torch", "float32"),
        ("ours, XLA, whole batch", "float32"),
        ("torch-rechub", "float32"),
        ("ours from Parquet", "float32"),
    ]
    heads_of_any_size = contenders.peers("autoint", Path("python"), ["float32"])
    assert [entry.name for entry in heads_of_any_size] == ["FuxiCTR"]
    assert contenders.peers("autoint", None, ["float32"]) == []


def test_a_run_that_fails_tells_why() -> None:
    entry = contenders.Entry("none", "no_such_module")
    assert "no_such_module" in entry.run(Settings("din", 401, 53, ""))["error"]


def test_the_python_of_the_peers(tmp_path: Path) -> None:
    assert python_of(tmp_path) is None
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)
    assert python_of(tmp_path) == python
    assert python_of(Path(sys.executable)) == Path(sys.executable)
