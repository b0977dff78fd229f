"""The demo, as a new user starts it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.integration.commands import hidden_or_half, start


@pytest.mark.thorough
def test_demo_leaves_a_report_and_equal_scores(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with start("demo", "--rows", "10000", "--run-dir", run) as process:
        output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert errors == ""
    assert (run / "report.html").exists()
    assert (run / "export" / "demo" / "1" / "saved_model.pb").exists()
    assert hidden_or_half(run) == []

    batch, online = (pq.read_table(run / "scores" / f"{n}.parquet") for n in ("batch", "grpc"))
    assert batch.num_rows == online.num_rows == 504
    for task in ("click", "conversion"):
        scores = online[f"{task}_score"].to_numpy()
        np.testing.assert_allclose(scores, batch[f"{task}_score"].to_numpy(), atol=1e-5)
        assert len(np.unique(scores)) > 100
    assert batch.drop_columns(["click_score", "conversion_score"]).equals(
        online.drop_columns(["click_score", "conversion_score"])
    )

    lines = output.replace(str(run), "RUN").splitlines()
    sentences = [line for line in lines if line.endswith(".")]  # the terminal wraps them
    assert max(len(line) for line in lines if line not in sentences) <= 80
    table = next(line for line in lines if line.startswith("task "))
    assert "ceiling" in table
    assert "±95%" in table
    assert "rows of raw features scored over gRPC" in output

    # A user and items alone; then the click that was pushed changes the scores.
    place = next(n for n, line in enumerate(lines) if line.startswith("online: user-"))
    columns = [line.split() for line in lines[place + 1 :] if line.strip()]
    assert columns[0] == ["item_id", "before", "after"]
    before, after = np.array(columns[1:], float)[:, 1:].T
    assert len(before) == 5
    assert (before != after).any()
