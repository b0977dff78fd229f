"""The demo: every step on simulated data, then scores over gRPC, and a click that changes them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.markup import escape
from rich.table import Table

from pipelines.common.artifacts import atomic_directory
from pipelines.common.errors import PipelineError
from pipelines.export.parity import sample_requests
from pipelines.features import FittedFeatures
from pipelines.ingest import log_state
from pipelines.scoring.scorer import Scores
from pipelines.storage.dataset import DataSplit
from pipelines.workflow.steps import Steps
from serving.state.online.load import Loaded, load_state
from serving.state.saved import SavedState
from serving.state.stores.lmdb_store import LmdbStore

ROWS = 500
TOLERANCE = 1e-5
STORE = "store"  # in the run folder


def show(steps: Steps) -> None:
    """Runs all steps, serves the export with its state, scores the test rows and pushes a click."""
    steps.everything()
    store = steps.run.folder / STORE
    _load(SavedState.open(steps.run.path("ingest") / log_state.FOLDER), store)
    with _served(steps, store) as client:
        _compare(steps, client)
        _click(steps, client)


def _load(saved: SavedState, folder: Path) -> None:
    """Loads the state, unless the store has this very one, and events that were pushed since."""
    store = LmdbStore(folder)
    before = [
        (Loaded.read(store, group), saved.hash_of(group)) for group in saved.definition.stored
    ]
    is_other = any(loaded is not None and loaded.source != source for loaded, source in before)
    load_state(saved, store, force=is_other)
    store.close()


@contextmanager
def _served(steps: Steps, store: Path) -> Iterator[Any]:
    """A client of a server of the export on a free port."""
    from serving.client import Client
    from serving.config.server_config import ServerConfig
    from serving.server.server import create_server

    base = steps.export_folder
    server, port = create_server(ServerConfig(str(base), port=0, state=f"lmdb:{store}"))
    server.start()
    try:
        with Client(f"localhost:{port}", model=base.name, timeout=60) as client:
            yield client
    finally:
        server.stop()


def _compare(steps: Steps, client: Any) -> None:
    """Scores rows of the test split with all their features, and compares with batch scores."""
    requests = _requests(steps)
    folder = steps.run.folder / "scores"
    with atomic_directory(folder) as new:
        rows = pa.concat_tables(requests)
        pq.write_table(rows, new / "rows.parquet")
        steps.score(new / "rows.parquet", new / "batch.parquet")
        batch = pq.read_table(new / "batch.parquet")
        online = _ask(steps, client, requests)
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
    schema = FittedFeatures.load(steps.run.path("fit")).raw_schema
    return sample_requests(schema, _test(steps), steps.request, ROWS)


def _test(steps: Steps) -> DataSplit:
    return DataSplit(steps.run.path("ingest") / "test")


def _ask(steps: Steps, client: Any, requests: list[pa.Table]) -> Scores:
    """Scores of each request's candidates."""
    from serving.cli_output import answer
    from serving.encoding.rank_document import RankDocument

    sides = {feature.name: feature.side for feature in steps.experiment.model_schema.features}
    answers: list[Scores] = []
    for table in requests:
        rows = table.to_pylist()
        context = {n: v for n, v in rows[0].items() if sides[n] == "context"}
        candidates = [{n: v for n, v in row.items() if sides[n] == "candidate"} for row in rows]
        response = answer(client, RankDocument(context, candidates))
        if not answers:
            steps.console.print(response.table())
        answers.append(dict(response.scores))
    return {task: np.concatenate([a[task] for a in answers]) for task in answers[0]}


def _click(steps: Steps, client: Any) -> None:
    """Asks with a user and items, pushes a click on the least likely one, and asks again."""
    request = steps.request or ""
    rows = next(_test(steps).batches([request, "user_id", "device", "hour", "item_id"]))
    rows = rows.filter(pc.equal(rows[request], rows[request][0])).to_pylist()
    context = {name: rows[0][name] for name in ("user_id", "device", "hour")}
    items = [{"item_id": row["item_id"]} for row in rows]
    before = client.rank(context, items)["click"]
    clicked = int(np.argmin(before))
    now = int(time.time()) - 1  # a request sees strictly earlier events
    client.push([{"user_id": context["user_id"], "timestamp": now, "click": 1, **items[clicked]}])
    after = client.rank(context, items)["click"]
    steps.console.print(
        f"[bold]online[/bold]: {context['user_id']} and items alone; then a click on item "
        f"{items[clicked]['item_id']} is pushed"
    )
    table = Table("item_id", "before", "after", box=None)
    for item, *scores in zip(items, before, after, strict=True):
        table.add_row(str(item["item_id"]), *(f"{score:.6f}" for score in scores))
    steps.console.print(table)
