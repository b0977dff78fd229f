"""Ages of events are whole seconds, and exact for years."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import tensorflow as tf

from pipelines.export.raw_inputs import raw_rows
from pipelines.features import FittedFeatures
from pipelines.features.graph import raw_dtype
from pipelines.pretraining.experiment import build_sequence_model
from pipelines.pretraining.export_module import NextItemModule
from tests.pipelines.pretraining.small_log import LENGTH, load, steps

YEARS = 3 * 365 * 86_400
TIMES = np.array([0, 1, 2, 3, YEARS, YEARS + 5, YEARS + 7])  # of one user; the last two no train


def test_gaps_of_a_second_are_kept_after_three_years(tmp_path: Path) -> None:
    """By ingest, by the feed, and by the exported graph."""
    load(tmp_path)  # writes the experiment, and a log whose events are replaced
    log = {"who": [7] * len(TIMES), "film": [f"film {n}" for n in range(len(TIMES))], "at": TIMES}
    pq.write_table(pa.table(log), tmp_path / "events.parquet")
    data = {"data__columns": [], "data__session": None}
    model_of = {"model": {"name": "hstu", "width": 8}, "objectives": [{"name": "next_item"}]}
    made = steps(tmp_path, **data, **model_of)
    made.take(["ingest", "fit"])
    rows = pq.read_table(tmp_path / "run/data/train")
    ages = (TIMES[LENGTH - 1] - TIMES[:LENGTH]).tolist()
    assert rows["age"].to_pylist() == [ages]
    fitted = FittedFeatures.load(tmp_path / "run/features")
    expected = np.array([ages]) + 2
    np.testing.assert_array_equal(fitted.apply(rows, "context")["age"], expected)
    model = build_sequence_model(made.experiment, fitted.schema)
    module = NextItemModule(model, fitted, np.array(log["film"][:LENGTH]), 2, True)
    sent = {
        name: tf.constant(values, raw_dtype(fitted.schema[name]))
        for name, values in raw_rows(fitted.schema, rows).items()
    }
    np.testing.assert_array_equal(module.inputs(sent)["age"], expected)
