"""Writes the models and the rows of boards for a machine without TensorFlow.

    python -m benchmarks.boards_on_jax.write frappe census-income --folder runs/boards-on-jax

Each model becomes a JSON file with its schema and its options; the rows, as the feed of the
pipelines reads them, go to one compressed file for each board. All seeds have the same rows, those
of the board's first seed. Boards that draw candidates are left to `recsys-attn reproduce`, as are
options of the training that the loop does not know.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.boards_on_jax import arrays as names
from pipelines.boards.board import LoadedBoard, load_board
from pipelines.common.artifacts import commit
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import Experiment
from pipelines.experiment.training_options import TrainingOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.feed.request_counts import RequestCounts
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.quiet_run import DATA_STEPS, run_quietly

# All that the loop knows; any other option must have its default.
KNOWN = {
    "epochs",
    "batch_size",
    "learning_rate",
    "optimizer",
    "clip_norm",
    "learning_rate_decay",
    "reduce_on_plateau",
    "patience",
    "embeddings_l2",
    "embeddings_stddev",
    "id_dropout",
}
# Of no effect on the order of the scores, or of a processor alone.
_WITHOUT_EFFECT = {
    "calibrate",
    "jit_compile",
    "shuffle_rows",
    "checkpoint_every",
    "keep_checkpoints",
}


def check(loaded: LoadedBoard, experiment: Experiment, shared: Experiment) -> None:
    """Checks that the loop can train an experiment.

    Args:
        loaded: The board.
        experiment: The experiment of a model.
        shared: That whose rows all models get.

    Raises:
        PipelineError: It cannot; the sentence says why.
    """
    others = {
        "data.items": experiment.data.items,
        "data that are not those of all models": experiment.data != shared.data,
        "model.encoder_from": experiment.model.encoder_from,
        "training.calibrate": experiment.training.calibrate and loaded.board.metric != "auc",
    }
    keys = [name for name, is_given in others.items() if is_given]
    if unknown := unknown_options(experiment) + keys:
        raise PipelineError(
            f"{loaded.name}: expected options that the loop on JAX has. Received: "
            f"{', '.join(unknown)}. Use `recsys-attn reproduce {loaded.name}`."
        )


def unknown_options(experiment: Experiment) -> list[str]:
    """Returns the options of a training that the loop does not know.

    Args:
        experiment: The experiment.
    """
    options = experiment.training
    values, default = options.model_dump(), TrainingOptions().model_dump()
    keys = [
        key
        for key, value in values.items()
        if key not in KNOWN | _WITHOUT_EFFECT and value != default[key]
    ]
    others = {
        "no training.batch_size": options.batch_size is None,
        f"training.optimizer = {options.optimizer!r}": options.optimizer
        not in ("adam", "lazy_adam"),
        "a training.id_dropout that is not 0": options.id_dropout != 0,
        # The penalty of rows comes after the clipping, and here before it.
        "training.clip_norm with lazy_adam": options.clip_norm and options.optimizer != "adam",
        "a training.monitor that is not an AUC": set(experiment.monitor.metrics.values())
        != {"auc"},
    }
    return keys + [name for name, is_given in others.items() if is_given]


def rows_of(folder: Path, fitted: FittedFeatures, request: str | None) -> dict[str, np.ndarray]:
    """Returns the ids, numbers and labels of all splits by name, as small as they fit.

    The requests of a split are filled up to the candidates of its longest.

    Args:
        folder: Run folder with the data.
        fitted: Its features.
        request: Column of the request id; None: every row is a request.
    """
    arrays: dict[str, list[np.ndarray]] = {}
    for name in ("train", "valid", "test"):
        split = DataSplit(folder / "data" / name)
        longest = int(RequestCounts.read(split, request).longest.max())
        for batch in Feed(split, fitted, request, lengths=(longest,)):
            for feature, x in batch.inputs.items():
                arrays.setdefault(names.of_input(name, feature), []).append(x)
            for task, x in batch.layout.labels(batch.blocks).items():
                arrays.setdefault(names.of_label(name, task), []).append(x)
    joined = {name: np.concatenate(parts) for name, parts in arrays.items()}
    return {name: _small(x) for name, x in joined.items()}


def run_of(board: str, name: str, experiment: Experiment, fitted: FittedFeatures) -> dict[str, Any]:
    """Returns the content of a model's file.

    Args:
        board: The board, as it was named or as a file.
        name: The model's name.
        experiment: Its experiment.
        fitted: The features of all models.
    """
    mine = fitted.without(experiment.model.exclude).with_tasks(experiment.tasks)
    training = experiment.training.model_dump(mode="json")
    return {
        "board": board,
        "commit": commit(),
        "name": name,
        "seed": experiment.seed,
        "schema": mine.schema.to_dict(),
        "model": {"name": experiment.model.name, **experiment.model.arguments},
        "training": {key: training[key] for key in sorted(KNOWN)},
        "monitor": dict(experiment.monitor.metrics),
    }


def _small(x: np.ndarray) -> np.ndarray:
    """Ids in as few bytes as they need."""
    if not np.issubdtype(x.dtype, np.integer):
        return x
    kinds = (np.uint8, np.uint16, np.int32)
    return x.astype(next(kind for kind in kinds if x.max(initial=0) <= np.iinfo(kind).max))


def main() -> None:
    """Writes the files of some boards."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("boards", nargs="+", help="names or files of boards")
    parser.add_argument("--folder", type=Path, required=True, help="of the files")
    options = parser.parse_args()
    for name in options.boards:
        loaded = load_board(name)
        experiments = {model.name: loaded.experiment(model) for model in loaded.board.models}
        # The rows of the model with the most tasks: those of the others are among them.
        most = max(experiments.values(), key=lambda one: len(one.tasks))
        for experiment in experiments.values():
            check(loaded, experiment, most)
        folder = options.folder / loaded.name
        run_quietly(most, folder / "steps", steps=DATA_STEPS)
        fitted = FittedFeatures.load(folder / "steps/features")
        rows: dict[str, Any] = rows_of(folder / "steps", fitted, most.data.request)
        np.savez_compressed(folder / "rows.npz", **rows)
        for model in loaded.board.models:
            run = run_of(loaded.given, model.name, experiments[model.name], fitted)
            (folder / f"{model.slug}.json").write_text(json.dumps(run, indent=1), "utf-8")
        print(f"written {folder}: {len(experiments)} models", flush=True)


if __name__ == "__main__":
    main()
