"""A board from its file to its table, with the training on JAX."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.boards_on_jax.write import check
from pipelines.boards.board import load_board
from pipelines.common.errors import PipelineError

ROWS = 600
EXPERIMENT = """
name = "small"
seed = 3
features = [
  { name = "user", kind = "categorical", side = "context", dtype = "int64" },
  { name = "item", kind = "categorical", dtype = "int64" },
]
tasks = [{ name = "click" }]

[data]
source = "parquet"
path = "PATH"
REQUEST
split = { by = "column", column = "split" }

[model]
name = "logistic_regression"

[training]
epochs = 4
batch_size = 64
learning_rate = 0.05
optimizer = "adam"
calibrate = false
id_dropout = 0.0

[evaluation]
importance_rows = 0
"""
BOARD = """
title = "Small"
experiment = "small.toml"
reference = "LR"

[[models]]
name = "LR"

[[models]]
name = "Lazy"
published = 0.9
set = { "training.optimizer" = "lazy_adam" }
"""


def board_in(made: Path, request: str = "") -> Path:
    """Writes rows whose clicks follow the item, nine of ten times, in lists of two or three."""
    rng, place = np.random.default_rng(0), np.arange(ROWS)
    item = rng.integers(0, 6, ROWS)
    click = (item % 2 == 0) ^ (rng.random(ROWS) < 0.1)
    list_of = place // 5 * 2 + (place % 5 > 2)
    user = rng.integers(0, 9, ROWS)[list_of]
    columns = {"user": user, "item": item, "click": click.astype("int8")}
    split = np.array(["train", "train", "valid", "test"])[list_of % 4]
    table = pa.table({**columns, "list": list_of, "split": split})
    pq.write_table(table, made / "rows.parquet")
    text = EXPERIMENT.replace("PATH", str(made / "rows.parquet")).replace("REQUEST", request)
    (made / "small.toml").write_text(text, "utf-8")
    (made / "board.toml").write_text(BOARD, "utf-8")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return board_in(tmp_path_factory.mktemp("board"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"training.optimizer" = "sgd"', "training.optimizer = 'sgd'"),
        ('"training.id_dropout" = 0.1', "id_dropout that is not 0"),
        ('"training.clip_norm" = 1.0, "training.optimizer" = "lazy_adam"', "clip_norm with lazy"),
        ('"data.split" = { by = "hash" }', "data that are not those of all models"),
        ('"training.monitor" = "click"', "monitor"),
        (
            '"data.request" = "user", "tasks" = [{ name = "click", loss = "softmax" }]',
            "monitor that is not an AUC",
        ),
    ],
)
def test_what_the_loop_does_not_have_is_refused(folder: Path, line: str, message: str) -> None:
    text = BOARD + f'\n[[models]]\nname = "Other"\nset = {{ {line} }}\n'
    (folder / "other.toml").write_text(text, "utf-8")
    loaded = load_board(str(folder / "other.toml"))
    first, second, other = (loaded.experiment(model) for model in loaded.board.models)
    check(loaded, first, first)
    check(loaded, second, first)
    with pytest.raises(PipelineError, match=message):
        check(loaded, other, first)


@pytest.mark.thorough
@pytest.mark.parametrize("request_key", ["", 'request = "list"'], ids=["rows", "lists"])
def test_a_board_ends_in_its_table(
    request_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = board_in(tmp_path, request_key)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    written, found = folder / "written/board", folder / "found"
    commands = [
        ["write", str(folder / "board.toml"), "--folder", str(written.parent)],
        ["train", str(written), "--out", str(found), "--seeds", "2"],
        ["table", str(written), str(found)],
        ["table", str(written), str(found)],  # beside its own files
    ]
    for name, *arguments in commands:
        command = [sys.executable, "-m", f"benchmarks.boards_on_jax.{name}", *arguments]
        subprocess.run(command, check=True)
    lines = json.loads((found / "board.json").read_text("utf-8"))["lines"]
    assert [line["model"] for line in lines] == ["LR", "Lazy"]
    for line, file in zip(lines, ("lr", "lazy"), strict=True):
        trained = json.loads((found / f"{file}.json").read_text("utf-8"))
        wanted = [each["click"] for each in trained["auc"]]
        assert list(line["seeds"].values()) == pytest.approx(wanted, abs=1e-6)
        assert min(wanted) > 0.8
    assert lines[1]["difference"] is not None
