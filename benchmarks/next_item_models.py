"""Sequence models beside published numbers: MovieLens-1M, leave-one-out, the whole catalogue.

    python -m benchmarks.next_item_models --data data/movielens-1m --seeds 1
    python -m benchmarks.next_item_models --data data/movielens-1m --model "SASRec, softmax"
    python -m benchmarks.next_item_models --data data/movielens-1m --model HSTU --unstable

Runs `experiments/sequences/movielens-1m.toml` with other models and objectives, each in a folder of
its own that is kept, so that the same command goes on where it was interrupted. Prints HR and NDCG
at 10 places of the test rows, means over the seeds, with the interval of the users.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from pipelines.calls.import_tensorflow import set_defaults

if TYPE_CHECKING:
    from pipelines.pretraining.experiment import SequenceExperiment

EXPERIMENT = Path(__file__).parents[1] / "experiments/sequences/movielens-1m.toml"
SPLIT_BY_TIME = {"by": "time", "valid_from": 975_000_000, "test_from": 976_000_000}


class Entry(NamedTuple):
    """A model: keys of the experiment that it changes, and its published HR@10 and NDCG@10."""

    keys: dict[str, Any]
    published: tuple[float, float] | None = None

    def changed(self, keys: dict[str, Any], published: tuple[float, float] | None = None) -> Entry:
        """The entry with further keys, and the published numbers for them."""
        return Entry({**self.keys, **keys}, published)


def _next(loss: Any) -> dict[str, Any]:
    return {"objectives": [{"name": "next_item", "loss": loss}]}


def _drawn(name: str, **config: Any) -> dict[str, Any]:
    return {"class_name": name, "config": config}


_HSTU = {
    "model": {"name": "hstu", "width": 50, "dropout": 0.2},
    **_next(_drawn("sampled_softmax", negatives=128, shared=False, correction=False)),
    "data.min_item_events": 1,
    "training.epochs": 101,
    "training.patience": 5,
}
_LARGE = {**_HSTU["model"], "num_layers": 8, "num_heads": 2, "head_dim": 25}
ENTRIES = {
    "SASRec, softmax": Entry({}, (0.3152, 0.1821)),
    "SASRec, BCE": Entry(_next("binary_cross_entropy"), (0.2500, 0.1341)),
    "eSASRec": Entry({"model": {"name": "esasrec", "dropout": 0.2}}),
    "HSTU": Entry(_HSTU, (0.3226, 0.1880)),
    "HSTU-large": Entry({**_HSTU, "model": _LARGE}, (0.3642, 0.2164)),
    "HSTU, softmax": Entry({**_HSTU, **_next("softmax")}),
    "BERT4Rec": Entry(
        {
            "model": {"name": "bert4rec", "dropout": 0.1},
            "objectives": [{"name": "masked_item"}],
            "training.patience": 20,
        },
        (0.2843, 0.1537),
    ),
    "gSASRec": Entry(
        {
            "model": {"name": "sasrec", "width": 128, "dropout": 0.5, "tied": False},
            **_next("generalised_bce"),
            "training.epochs": 400,
            "training.patience": 20,
        },
        (0.3003, 0.1726),
    ),
    "TiSASRec": Entry(
        {
            "model": {
                "name": "sasrec",
                "dropout": 0.1,
                "positions": _drawn("time_intervals", values=True),
            }
        }
    ),
    "GRU4Rec": Entry({"model": {"name": "sequence_encoder", "encoder": "gru", "dropout": 0.2}}),
}
UNSTABLE = {"HSTU": (0.3097, 0.1720), "HSTU-large": (0.3294, 0.1893)}  # published


def unstable(data: Path, folder: Path) -> dict[str, str]:
    """Writes the ratings in the order of an unstable sort, that of HSTU's authors.

    Most ratings share their time with others of the user, which then come in any order.
    """
    import numpy as np
    import pyarrow.parquet as pq

    from pipelines.ingest.datasets import movielens

    ratings = movielens.ratings_of(data)
    order = np.argsort(ratings["timestamp"].to_numpy(), kind="quicksort")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "unstable.parquet"
    pq.write_table(ratings.take(order), path)
    return {"data.source": "events", "data.path": str(path)}


def experiment_of(entry: Entry, seed: int, data: Path) -> SequenceExperiment:
    """The experiment of an entry with a seed."""
    from pipelines.pretraining.experiment import load_sequence_experiment

    keys = {"data.path": str(data), "seed": seed, "evaluation.at": [10, 50, 200], **entry.keys}
    return load_sequence_experiment(EXPERIMENT, keys)


def run(entry: Entry, seed: int, data: Path, folder: Path, console: Console) -> dict[str, Any]:
    """Runs an entry with a seed; returns the test metrics, seconds and weights."""
    from pipelines.common.artifacts import read_json
    from pipelines.pretraining.sequence_steps import SequenceSteps

    steps = SequenceSteps.of(experiment_of(entry, seed, data), folder, console, force=False)
    for step in (steps.ingest, steps.fit, steps.train, steps.evaluate):
        step()
    train = read_json(folder / "model/manifest.json")
    results = read_json(folder / "evaluation/metrics.json")
    seconds = sum(epoch["seconds"] for epoch in train["training"])
    epochs = len(train["training"])
    return {**results, "seconds": seconds, "epochs": epochs, "weights": train["weights"]}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with ml-1m.zip")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each model")
    parser.add_argument("--model", action="append", choices=ENTRIES, help="default: all")
    parser.add_argument("--by-time", action="store_true", help="split by a global time")
    parser.add_argument("--unstable", action="store_true", help="events sorted by an unstable sort")
    parser.add_argument("--runs", type=Path, default=Path("runs/next-item-models"))
    options = parser.parse_args()
    set_defaults()  # those of `recsys-attn`
    console = Console(width=110)
    columns = ("HR@10", "NDCG@10", "interval", "published", "epochs", "minutes", "weights")
    table = Table("", *columns, box=None)
    for name in options.model or ENTRIES:
        entry = ENTRIES[name]
        if options.by_time:
            entry = entry.changed({"data.split": SPLIT_BY_TIME})
        if options.unstable:
            entry = entry.changed(unstable(options.data, options.runs), UNSTABLE.get(name))
        kind = "by-time" if options.by_time else "last"
        kind += "-unstable" * options.unstable
        results = []
        for seed in range(2021, 2021 + options.seeds):
            console.rule(f"{name}, seed {seed}")
            folder = options.runs / kind / name.lower().replace(", ", "-") / f"seed-{seed}"
            results.append(run(entry, seed, options.data, folder, console))
        table.add_row(name, *_cells(results, entry))
    for rule in ("popularity", "item-item neighbours"):
        table.add_row(rule, *_cells(results, Entry({}), rule))
    console.print(table)


def _cells(results: list[dict[str, Any]], entry: Entry, rule: str | None = None) -> list[str]:
    of_rule = [result["results"][rule or result["model"]] for result in results]
    means = [statistics.mean(f["metrics"][m] for f in of_rule) for m in ("hr@10", "ndcg@10")]
    low, high = of_rule[0]["intervals"]["ndcg@10"]
    published = "" if entry.published is None else "{:.4f} / {:.4f}".format(*entry.published)
    numbers = [f"{mean:.4f}" for mean in means] + [f"{low:.4f} to {high:.4f}", published]
    if rule is not None:
        return numbers
    return [
        *numbers,
        f"{statistics.mean(r['epochs'] for r in results):.0f}",
        f"{statistics.mean(r['seconds'] for r in results) / 60:.1f}",
        f"{results[0]['weights']:,}",
    ]


if __name__ == "__main__":
    main()
