"""The columns of served rows are those that the state of the run reads."""

from __future__ import annotations

import dataclasses
import io

import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.experiment.config import load_experiment
from pipelines.features import FittedFeatures
from pipelines.workflow.join import layout_of
from pipelines.workflow.steps import Steps
from serving.state.saved import SavedState
from tests.support.once import once
from tests.support.state_exports import write_state_export


def test_id_of_events_is_a_column_that_no_request_has(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    run = once(tmp_path_factory, "state-export", write_state_export) / "run"
    steps = Steps.of(load_experiment(run), run, Console(file=io.StringIO()), force=False)
    fitted = FittedFeatures.load(run / "features")
    definition = SavedState.open(run / "data/state").definition
    columns = definition.columns.append(pa.field("event", pa.string()))
    for event_id, keys in ((None, ["user"]), ("event", ["event", "user"]), ("request", ["user"])):
        changed = dataclasses.replace(definition, event_id=event_id, columns=columns)
        assert layout_of(steps, fitted, changed).keys.names == keys
