"""Advice that follows from what an evaluation saw, each with the key to set."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.report.baseline_words import place
from pipelines.report.numbers import count

UNKNOWN, FEW, EARLY, LOSS = 0.2, 300, 2, 0.02
_ROWS_OF_ID = 30  # below it, an id's row of a table is learned from few rows
Metrics = Mapping[str, Any]


def advice(metrics: Metrics) -> list[str]:
    """Sentences on what may help the model.

    Args:
        metrics: The content of an evaluation's metrics.json.
    """
    return [*_behind(metrics), *_unknown(metrics), *_fallen(metrics), *_few_positives(metrics)]


def _behind(metrics: Metrics) -> Iterator[str]:
    """A baseline model on the same columns is ahead."""
    behind: dict[str, list[str]] = {}
    for task, of_task in metrics["tasks"].items():
        for name, baseline in of_task.get("baseline_models", {}).items():
            if place(baseline["ahead"]) < 0:
                behind.setdefault(name, []).append(task)
    if not behind:
        return
    who = " and ".join(f"{name} ({', '.join(tasks)})" for name, tasks in behind.items())
    kinds = {feature["kind"] for feature in metrics.get("features", ())}
    models = ["mlp", *(["din"] if "sequence" in kinds else []), "deepfm"]
    others = ",".join(name for name in models if name != metrics["model"])
    yield (
        f"The model is behind {who}. Compare others on the same data: `recsys-attn compare RUN "
        f"--try {others}`, and set the one that is best on validation rows as `model.name`."
    )


def _unknown(metrics: Metrics) -> Iterator[str]:
    """Many evaluated rows have an id that no train row had, and nothing else tells of it."""
    settings = metrics.get("settings", {})
    keys = r"data\.(items\.key|aggregates\..*\.by)"
    described = str([value for key, value in settings.items() if re.fullmatch(keys, key)])
    for drift in metrics.get("drift", ()):
        name, share = drift["feature"], (drift.get("unknown") or (0, 0))[1] or 0
        if drift["kind"] == "categorical" and share > UNKNOWN and f"'{name}'" not in described:
            yield (
                f"{share:.0%} of the {metrics['split']} rows have a value of `{name}` that no "
                "train row had, of which the model knows nothing. Add what is known of it: columns "
                "of a table (`data.items`), or counts and rates until then (`data.aggregates`)."
            )


def _fallen(metrics: Metrics) -> Iterator[str]:
    """Validation fell soon while the loss fell on."""
    kept, epochs = metrics.get("kept"), metrics.get("training") or ()
    if not kept or kept["epoch"] > EARLY or kept["epochs"] <= kept["epoch"]:
        return
    last, best = epochs[kept["epochs"] - 1], epochs[kept["epoch"] - 1]
    values = [epoch.get("val_monitored") for epoch in (best, last)]
    if None in values or values[0] - values[1] < LOSS or last["loss"] >= best["loss"]:
        return
    rows = metrics.get("splits", {}).get("train", 0)
    rare = [
        feature["name"]
        for feature in metrics.get("features", ())
        if feature["kind"] == "categorical" and _ROWS_OF_ID * (feature["table_rows"] or 0) > rows
    ]
    ids = f", or leave out ids of few rows each: `model.exclude = {json.dumps(rare)}`"
    yield (
        f"Epoch {kept['epoch']} was kept; after it the {kept['monitor']} of the validation rows "
        f"fell by {values[0] - values[1]:.3f} while the loss fell on: the model learns its rows by "
        f"heart. Set a lower `training.embeddings_learning_rate`{ids if rare else ''}."
    )


def _few_positives(metrics: Metrics) -> Iterator[str]:
    """Tasks have few validation rows of their rarer label."""
    few = {}
    for task, splits in metrics.get("labels", {}).items():
        known, positives = splits.get("valid", (0, 0))
        rarer = min(positives, known - positives)
        if 0 < rarer < FEW:
            label = "positives" if rarer == positives else "negatives"
            few[task] = f"{count(rarer)} {label} of `{task}`"
    if few and "data.split.valid" in metrics.get("settings", {}):
        yield (
            f"The validation rows have {' and '.join(few.values())}, so that chance decides in "
            "part which weights are kept. Set a larger `data.split.valid`."
        )
