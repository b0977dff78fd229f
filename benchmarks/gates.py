"""Gates of MMoE side by side, at equal numbers of weights.

    KERAS_BACKEND=jax RECSYS_DATA=FOLDER python -m benchmarks.gates --folder runs/gates

Softmax of a linear layer (the paper's), attention to the experts' outputs, and both. Each seed
draws the data, the initial weights and the order of the rows; all seeds of a gate train at once.
The tables have the AUC of the validation rows: differences to the first gate, paired by seed, with
95 % intervals of Student's t; mean ranks; and what the gates do. The test rows are not looked at
without `--split test`.

Results are kept in the folder: a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import keras
from rich.console import Console

from benchmarks.gate_study.sets import SETS, drawn_set
from benchmarks.gate_study.tables import MEAN, auc_table, choice_table
from benchmarks.gate_study.variants import GATES
from benchmarks.shared import command_line

Results = dict[tuple[str, str, int], dict[str, Any]]


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gates",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = partial(command_line.several, parser)
    several("--sets", ",".join(SETS), command_line.one_of(SETS), "data sets")
    several("--gates", ",".join(GATES), command_line.one_of(GATES), "gates")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds (10)")
    parser.add_argument("--folder", type=Path, required=True, help="of the rows and the results")
    parser.add_argument("--split", choices=("valid", "test"), default="valid", help="of the tables")
    return parser.parse_args()


def main() -> None:
    """Trains the gates whose results the folder lacks, and prints the tables."""
    chosen = options()
    if keras.backend.backend() != "jax":
        raise SystemExit("The seeds train at once on JAX: set KERAS_BACKEND=jax.")
    chosen.folder.mkdir(parents=True, exist_ok=True)
    log = chosen.folder / "results.jsonl"
    for name in chosen.sets:
        for gate in chosen.gates:
            _train(chosen.folder, log, name, gate, range(chosen.seeds))
    results = {
        key: result
        for key, result in _read(log).items()
        if key[0] in chosen.sets and key[1] in chosen.gates and key[2] < chosen.seeds
    }
    console = Console(width=200)
    tasks: dict[str, list[str]] = {MEAN: chosen.sets}
    for (name, _, _), result in results.items():
        for task in result["valid"]:
            if name not in (of_task := tasks.setdefault(task, [])):
                of_task.append(name)
    for task, sets in tasks.items():
        console.print(auc_table(results, sets, task, chosen.split))
    console.print(choice_table(results, chosen.sets))


def _train(folder: Path, log: Path, name: str, gate: str, seeds: range) -> None:
    """Trains the seeds of a gate whose results are not in the folder."""
    from benchmarks.gate_study.training import trained

    known = _read(log)
    missing = [seed for seed in seeds if (name, gate, seed) not in known]
    if not missing:
        return
    keras.backend.clear_session()
    results = trained(gate, drawn_set(folder / "rows", name, missing), missing)
    with log.open("a", encoding="utf-8") as file:
        for result in results:
            file.write(json.dumps({"set": name, **result}) + "\n")
    print(name, gate, f"{results[0]['seconds']} s", file=sys.stderr, flush=True)


def _read(log: Path) -> Results:
    """The results of a folder by set, gate and seed."""
    if not log.exists():
        return {}
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    return {(line["set"], line["gate"], line["seed"]): line for line in lines}


if __name__ == "__main__":
    main()
