"""The demo: every step on simulated data, then scores over gRPC compared with batch scores."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.markup import escape

from pipelines.common.artifacts import atomic_directory
from pipelines.common.errors import PipelineError
from pipelines.export.parity import sample_requests
from pipelines.scoring.scorer import Scores
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.steps import Steps

ROWS = 500
TOLERANCE = 1e-5


def show(steps: Steps) -> None:
    """Runs all steps, serves the export on a free port and scores the test rows over gRPC."""
    steps.everything()
    requests = _requests(steps)
    folder = steps.run.folder / "scores"
    with atomic_directory(folder) as new:
        rows = pa.concat_tables(requests)
        pq.write_table(rows, new / "rows.parquet")
        steps.score(new / "rows.parquet", new / "batch.parquet")
        batch = pq.read_table(new / "batch.parquet")
        online = _ask(steps, requests)
        for task, scores in online.items():
            rows = rows.append_column(f"{task}_score", pa.array(scores, pa.float32()))
        pq.write_table(rows, new / "grpc.parquet")
        worst = max(
            float(np.abs(batch[f"{task}_score"].to_numpy() - scores).max())
            for task, scores in online.items()
        )
        if not worst <= TOLERANCE:
            raise PipelineError(
                f"Scores over gRPC differ from the batch scores by up to {worst:.1e}; expected at "
                f"most {TOLERANCE}."
            )
    steps.console.print(
        f"[bold]serve[/bold]: {rows.num_rows} rows of raw features scored over gRPC; largest "
        f"difference from the\n  batch scores {worst:.1e}  [dim]{escape(str(folder))}[/dim]",
        soft_wrap=True,
    )


def _requests(steps: Steps) -> list[pa.Table]:
    """Requests of the test split, and rows with missing, unknown and over-long values."""
    schema = steps.experiment.model_schema
    test = DataSplit(steps.run.path("ingest") / "test")
    return sample_requests(schema, test, steps.run.manifest("ingest").get("request"), ROWS)


def _ask(steps: Steps, requests: list[pa.Table]) -> Scores:
    """Scores of each request's candidates from a server on a free port."""
    from serving.cli_output import answer
    from serving.client import Client
    from serving.config.server_config import ServerConfig
    from serving.encoding.rank_document import RankDocument
    from serving.server.server import create_server

    base = steps.export_folder
    sides = {feature.name: feature.side for feature in steps.experiment.model_schema.features}
    server, port = create_server(ServerConfig(str(base), port=0))
    server.start()
    answers: list[Scores] = []
    try:
        with Client(f"localhost:{port}", model=base.name, timeout=60) as client:
            for table in requests:
                rows = table.to_pylist()
                context = {n: v for n, v in rows[0].items() if sides[n] == "context"}
                candidates = [
                    {n: v for n, v in row.items() if sides[n] == "candidate"} for row in rows
                ]
                response = answer(client, RankDocument(context, candidates))
                if not answers:
                    steps.console.print(response.table())
                answers.append(dict(response.scores))
    finally:
        server.stop()
    return {task: np.concatenate([a[task] for a in answers]) for task in answers[0]}
