"""Real rows over gRPC score as in training, for each data set, with the initial weights."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.artifacts import MANIFEST, write_json
from pipelines.experiment.config import load_experiment
from pipelines.export.export import export
from pipelines.export.parity import sample_requests
from pipelines.features import FittedFeatures
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training import build_model
from pipelines.workflow.steps import Steps
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
OTHERS = ("frappe", "census-income", "movielens-1m")
ROWS = 300
BEGINNING = 50_000  # ratings or actions

pytestmark = pytest.mark.skipif(
    "RECSYS_DATA" not in os.environ, reason="RECSYS_DATA does not name the folder of real data"
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.thorough) for name in OTHERS),
        "trivago",
    ],
)
def test_raw_rows_over_grpc_score_as_in_training(name: str, tmp_path: Path) -> None:
    overrides = {"data.path": str(BEGINNINGS[name](tmp_path))} if name in BEGINNINGS else {}
    experiment = load_experiment(EXPERIMENTS / f"{name}.toml", overrides)
    steps = Steps.of(experiment, tmp_path, Console(quiet=True), force=False)
    steps.ingest()
    steps.fit()
    fitted = FittedFeatures.load(steps.run.path("fit")).without(experiment.model.exclude)
    request = steps.run.manifest("ingest")["request"]
    model = build_model(experiment, fitted.schema)
    test = DataSplit(steps.run.path("ingest") / "test")
    base = tmp_path / "export"
    manifest = export(base / "1", name, 1, model, fitted, request, test, experiment.export)
    write_json(base / "1" / MANIFEST, manifest)

    requests = sample_requests(fitted.schema, test, request, ROWS)
    expected = Scorer(model).score_table(pa.concat_tables(requests), fitted, None)
    by_row, by_request = ask(base, fitted, requests)
    for task, scores in expected.items():
        assert len(scores) >= ROWS
        assert np.std(scores) > 0
        np.testing.assert_allclose(by_row[task], scores, atol=1e-5)
        np.testing.assert_allclose(by_request[task], scores, atol=1e-5)


def movielens(folder: Path) -> Path:
    """The ratings of the first users, with all users and films."""
    with zipfile.ZipFile(Path(os.environ["RECSYS_DATA"], "movielens-1m", "ml-1m.zip")) as archive:
        archive.extractall(folder)
    ratings = folder / "ml-1m" / "ratings.dat"
    ratings.write_bytes(b"".join(ratings.read_bytes().splitlines(keepends=True)[:BEGINNING]))
    return folder


def trivago(folder: Path) -> Path:
    """The first sessions' actions."""
    path = Path(os.environ["RECSYS_DATA"], "trivago-recsys19", "actions.parquet")
    pq.write_table(pq.read_table(path).slice(0, BEGINNING), folder / "actions.parquet")
    return folder / "actions.parquet"


BEGINNINGS = {"movielens-1m": movielens, "trivago": trivago}


def ask(base: Path, fitted: FittedFeatures, requests: list[pa.Table]) -> tuple[dict, dict]:
    """Scores by `predict_rows` for all rows at once, and by `rank` for each request."""
    names: dict[str, list[str]] = {"context": [], "candidate": []}
    for feature in fitted.schema.features:
        names[feature.side].append(feature.name)
    server, port = create_server(ServerConfig(str(base), port=0))
    server.start()
    try:
        with Client(f"localhost:{port}", timeout=60) as client:
            by_row = client.predict_rows(pa.concat_tables(requests).to_pylist())
            ranked = []
            for table in requests:
                context, candidates = (table.select(side).to_pylist() for side in names.values())
                ranked.append(client.rank(context[0], candidates))
    finally:
        server.stop()
    return by_row, {task: np.concatenate([r[task] for r in ranked]) for task in ranked[0]}
