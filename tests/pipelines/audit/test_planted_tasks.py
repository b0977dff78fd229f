"""Experts follow the tasks: gates of unrelated tasks differ more than those of related ones."""

import io
import json

import pytest
from rich.console import Console

from pipelines.experiment.config import load_experiment
from pipelines.workflow.steps import Steps
from tests.support.experiments import write

TWO_TASKS = """
name = "tasks"
seed = 0
features = [
  { name = "segment", kind = "categorical", side = "context" },
  { name = "age_group", kind = "categorical", side = "context" },
  { name = "item_id", kind = "categorical", dtype = "int64" },
  { name = "category", kind = "categorical" },
]
tasks = [{ name = "click" }, { name = "conversion" }]

[data]
source = "simulate"
simulate = { rows = 40_000, users = 500, items = 96 }
split = { by = "time", valid = 0.1, test = 0.1 }

[model]
name = "mmoe"
experts = { number = 4, units = [8] }  # too few for both tasks

[training]
epochs = 5
batch_size = 256
learning_rate = 1e-2

[evaluation]
importance_rows = 0
relevance_rows = 0
"""


@pytest.fixture(scope="module")
def experts(tmp_path_factory):
    """The audited gates, by the correlation of the tasks."""
    return {each: _experts(tmp_path_factory.mktemp("tasks"), each) for each in (0.0, 1.0)}


def _experts(folder, correlation):
    file = write(folder, text=TWO_TASKS)
    experiment = load_experiment(file, {"data.simulate.correlation": correlation})
    steps = Steps.of(experiment, folder / "run", Console(file=io.StringIO()), force=False)
    for step in (steps.ingest, steps.fit, steps.train, steps.evaluate):
        step()
    return json.loads((folder / "run/evaluation/metrics.json").read_text())["attention"]["experts"]


@pytest.mark.thorough
def test_gates_of_unrelated_tasks_are_further_apart(experts):
    unrelated, related = (experts[each]["apart"][0][2] for each in (0.0, 1.0))
    assert unrelated > 1.5 * related > 0, (unrelated, related)
    assert experts[0.0]["warnings"] == []
