"""Experiment files for tests: a small one that is right, and ways to change it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.experiment.config import Experiment, load_experiment
from pipelines.workflow.steps import Steps

SIMULATED = """
name = "tiny"
seed = 3

[data]
source = "simulate"
request = "request_id"
simulate = { rows = 3000, users = 50, items = 96 }
split = { by = "time", valid = 0.1, test = 0.1 }

[[features]]
kind = "categorical"
name = "user_id"
side = "context"
transform = { min_count = 2 }

[[features]]
kind = "categorical"
name = "item_id"
dtype = "int64"

[[features]]
kind = "numeric"
name = "price"
transform = ["log1p", "standardise"]

[[features]]
kind = "sequence"
name = "clicked_items"
shares = "item_id"
max_length = 5

[[tasks]]
name = "click"

[[tasks]]
name = "conversion"

[model]
name = "attention_ranker"
width = 4
target_attention = { class_name = "interest", config = { units = [8] } }
interaction = { num_layers = 1, head_dim = 4 }
experts = { units = [8] }
tower_units = [4]

[training]
epochs = 2
batch_size = 60  # eight steps of one size, which are traced once

[evaluation]
ceiling = { click = "click_probability" }
baseline_models = false
importance_rows = 0
attention_rows = 0
relevance_rows = 0
"""
# What takes half a minute of each run.
NO_AUDIT = {"importance_rows": 0, "attention_rows": 0, "relevance_rows": 0}

# A change for tests that do not ask which model it is: one that is traced in half the time.
_MODEL = SIMULATED.partition("[model]\n")[2].partition("\n\n")[0]
QUICK = (_MODEL, 'name = "mlp"\nwidth = 4\nunits = [8]')


def write(folder: Path, *changes: tuple[str, str], text: str = SIMULATED) -> Path:
    """An experiment file; each change replaces one piece of the text."""
    for old, new in changes:
        if text.count(old) != 1:
            raise ValueError(f"{old!r} must be in the text once. Found: {text.count(old)}")
        text = text.replace(old, new)
    path = folder / "experiment.toml"
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, *changes: tuple[str, str], **overrides: Any) -> Experiment:
    """The checked experiment; `training__epochs=3` stands for `training.epochs = 3`."""
    values = {key.replace("__", "."): value for key, value in overrides.items()}
    return load_experiment(write(folder, *changes), values)


def prepare(folder: Path) -> None:
    """Makes a folder `run` with the simulated experiment's data and fitted features."""
    console = Console(file=io.StringIO(), width=80)
    steps = Steps.of(load(folder), folder / "run", console, force=False)
    steps.ingest()
    steps.fit()
