"""Makes a board's table of what `benchmarks.boards_on_jax.train` found.

    python -m benchmarks.boards_on_jax.table runs/boards-on-jax/frappe found

Metrics, intervals, verdicts and files are those of `recsys-attn reproduce`; the minutes are those
of all seeds together.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console

from benchmarks.boards_on_jax.arrays import of_input, of_label
from pipelines.boards.board import BoardModel, LoadedBoard, load_board
from pipelines.boards.page import print_board, write_board
from pipelines.boards.result import table
from pipelines.boards.runs import BoardRun
from pipelines.evaluation.evaluate import save_evaluation
from pipelines.evaluation.evaluated_rows import EvaluatedRows
from pipelines.features import FittedFeatures
from pipelines.metrics import task_metrics
from pipelines.report.results import Evaluation
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK


def runs_of(loaded: LoadedBoard, written: Path, trained: Path) -> list[BoardRun]:
    """Returns the finished runs of a board, whose evaluations it writes.

    Args:
        loaded: The board.
        written: The folder of `write`.
        trained: The folder of `train`.
    """
    arrays, runs = np.load(written / "rows.npz"), []
    fitted = FittedFeatures.load(written / "steps/features")
    for model in loaded.board.models:
        path = trained / f"{model.slug}.json"
        if not path.exists():
            continue
        run, scores = json.loads(path.read_text("utf-8")), np.load(path.with_suffix(".npz"))
        experiment = loaded.experiment(model)
        test = DataSplit(written / "steps/data/test")
        request = experiment.data.request
        rows = EvaluatedRows.read(test, experiment.evaluation, request, fitted.schema)
        for place, seed in enumerate(run["seeds"]):
            by_task = {task: scores[task][place] for task in scores.files}
            folder = trained / f"{model.slug}-{seed}"
            evaluation = _evaluation(folder, rows, arrays, by_task)
            runs.append(_run(run, model, seed, evaluation))
        if run["is_cut"]:
            print(f"{model.name}: cut off before its end", flush=True)
    return runs


def _run(run: dict[str, Any], model: BoardModel, seed: int, evaluation: Evaluation) -> BoardRun:
    return BoardRun(model, seed, evaluation, run["seconds"], run["weights"], run.get("commit"), [])


def _evaluation(
    folder: Path, rows: EvaluatedRows, arrays: Any, scores: dict[str, np.ndarray]
) -> Evaluation:
    """Writes the evaluation of one seed."""
    columns: dict[str, Any] = {"request": rows.requests}
    if rows.group is not None:
        columns["group"] = rows.extras[rows.group]
    tasks, there = {}, arrays[of_input("test", CANDIDATE_MASK)].astype(bool)
    for task, padded in scores.items():
        label, score = arrays[of_label("test", task)][there].astype("float64"), padded[there]
        columns |= {f"{task}/label": pa.array(label, from_pandas=True), f"{task}/score": score}
        tasks[task] = task_metrics(label, score, groups=rows.groups)
    folder.mkdir(exist_ok=True)
    metrics = {"split": "test", "rows": len(rows.requests), "group": rows.group, "tasks": tasks}
    save_evaluation(folder, pa.table(columns), metrics)
    return Evaluation.read(folder)


def main() -> None:
    """Prints and writes the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("written", type=Path, help="the board's folder of `write`")
    parser.add_argument("found", type=Path, help="the folder of `train`")
    options = parser.parse_args()
    any_run = next(options.written.glob("*.json"))
    loaded = load_board(json.loads(any_run.read_text("utf-8"))["board"])
    runs = runs_of(loaded, options.written, options.found)
    if not runs:
        raise SystemExit(f"There is no result of {loaded.name} in {options.found}.")
    lines = table(loaded, runs)
    first = json.loads((options.found / f"{runs[0].model.slug}.json").read_text("utf-8"))
    about = {
        "command": f"python -m benchmarks.boards_on_jax.train ... --seeds {len(first['seeds'])}",
        "device": first["device"],
    }
    write_board(options.found, loaded, lines, about)
    print_board(Console(width=160), loaded, lines)


if __name__ == "__main__":
    main()
