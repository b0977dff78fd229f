"""Makes the table of `benchmarks.pretraining` of what was trained on JAX.

    python -m benchmarks.pretraining_on_jax.table runs/pretraining-on-jax

A data set's results are in its folder's `found`.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
from rich.console import Console

from benchmarks import pretraining
from benchmarks.boards_on_jax.arrays import of_input, of_label
from pipelines.boards.influences import Influences
from pipelines.evaluation.evaluated_rows import EvaluatedRows
from pipelines.experiment.config import load_experiment
from pipelines.features import FittedFeatures
from pipelines.metrics.intervals import Influence, auc_influence
from pipelines.storage.dataset import DataSplit
from recsys_attn.schema import CANDIDATE_MASK


def influences(folder: Path) -> dict[float, Influences]:
    """Returns how far each user or request moves the AUC of each run, by share of the labels.

    Args:
        folder: The folder of a data set.
    """
    base, task = folder / "steps/base", pretraining.SETS[folder.name].task
    experiment, schema = load_experiment(base), FittedFeatures.load(base / "features").schema
    split, request = DataSplit(base / "data/test"), experiment.data.request
    rows = EvaluatedRows.read(split, experiment.evaluation, request, schema)
    arrays = np.load(folder / "rows.npz")
    there = arrays[of_input("test", CANDIDATE_MASK)].astype(bool)
    label = arrays[of_label("test", task)][there]
    by_share: dict[float, dict[str, dict[int, Influence]]] = defaultdict(dict)
    for path in sorted((folder / "found").glob("*.json")):
        run = json.loads(path.read_text("utf-8"))
        scores = np.load(path.with_suffix(".npz"))[task]
        by_share[run["share"]][run["start"]] = {
            seed: auc_influence(label, of_seed[there], rows.clusters)
            for seed, of_seed in zip(run["seeds"], scores, strict=True)
        }
        if run["is_cut"]:
            print(f"{folder.name}, {run['name']}: cut off before its end", flush=True)
    return {share: _together(by_start) for share, by_start in by_share.items()}


def _together(by_start: dict[str, dict[int, Influence]]) -> Influences:
    """The influences of a share: all runs have the same test rows."""
    ordered = {start: by_start[start] for start in pretraining.STARTS if start in by_start}
    return Influences(ordered, {start: dict.fromkeys(by, "") for start, by in ordered.items()})


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="of the files")
    options = parser.parse_args()
    table = pretraining.new_table()
    for name in pretraining.SETS:
        if (options.folder / name / "found").exists():
            for share, of_share in sorted(influences(options.folder / name).items()):
                pretraining.add_rows(table, name, share, of_share)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
