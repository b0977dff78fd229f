"""A day of a served run by its commands: its rows become a canary that a server answers with."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from pipelines.common.artifacts import read_json
from pipelines.report.results import Evaluation
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from tests.integration.commands import error_of, invoke
from tests.pipelines.refresh.served_days import this_hour, write_hours
from tests.support.once import once
from tests.support.state_exports import write_state_export

SERVING = "serving/evaluation"
QUICK = [
    text
    for name in ("importance", "attention", "relevance")
    for text in ("--set", f"evaluation.{name}_rows=0")
]
# What a gate is tried with: 366 rows say little of the model.
OPEN = ["--set", "refresh.gates=[{task='click',metric='auc',at_least=-1.0}]"]


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder of a refreshed run, and what was printed."""
    made = once(tmp_path_factory, "state-export", write_state_export)
    folder = tmp_path_factory.mktemp("refreshed")
    run, rows = Path(shutil.copytree(made / "run", folder / "run")), folder / "rows"
    assert "No decisions yet" in invoke("history", run).output
    assert "misspelt, which is none" in error_of(invoke("history", folder / "misspelt"))
    assert "is no folder" in error_of(invoke("refresh", run, "--data", rows))
    write_hours(rows, this_hour() - 9, 6)
    result = invoke("refresh", run, "--data", rows, *QUICK, *OPEN)
    assert result.exit_code == 0, result.output
    return run, result.output


def test_rows_become_a_canary(refreshed: tuple[Path, str]) -> None:
    run, output = refreshed
    assert "values are new: item 3, country 1" in output
    assert "24 of 28 table rows reused" in output
    (gate,) = read_json(run / "refresh/2/evaluation/metrics.json")["gates"]
    sides = [Evaluation.read(run / "refresh/2" / name) for name in ("evaluation", SERVING)]
    aucs = [one.metrics["tasks"]["click"]["auc"] for one in sides]
    np.testing.assert_allclose(gate["value"], aucs[0] - aucs[1], rtol=0, atol=1e-12)
    printed = invoke("history", run).output
    assert "auc of click, less that of" in printed
    assert printed.splitlines()[-1] == "stable: version 1, canary: version 2"


@pytest.mark.thorough
def test_a_server_answers_with_the_canary(refreshed: tuple[Path, str]) -> None:
    run, _ = refreshed
    config = ServerConfig(
        "", port=0, model_config_file=str(run / "serving.config"), canary="live:1"
    )
    server, port = create_server(config)
    server.start()
    context = {"user_clicks": 3.0, "country": "no", "height": 1.7, "clicked": [5], "ages": [60.0]}
    items = [{"item": item, "item_ctr": 0.5, "pair_seen": 1.0} for item in (3, 19)]
    scores = []
    for label in (None, "canary", "stable"):
        with Client(f"localhost:{port}", model="live", label=label, timeout=60) as client:
            scores.append(client.rank(context, items)["click"])
    server.stop()
    np.testing.assert_array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
