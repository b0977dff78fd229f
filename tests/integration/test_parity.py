"""Raw rows over gRPC score as in the training path, with every kind of feature."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from pipelines.scoring.scorer import Scorer
from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.protos import scoring_pb2_grpc
from serving.server.server import create_server
from tests.serving.rank_messages import make_rank_request, read_rank_response
from tests.support import shop
from tests.support.exports import split_requests, write_shop_export
from tests.support.once import once


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of the shop's model."""
    return once(tmp_path_factory, "shop-export", write_shop_export)


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    config = ServerConfig(str(folder), model_name="shop", port=0)
    server, port = create_server(config)
    server.start()
    yield f"localhost:{port}"
    server.stop()


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def scored() -> pa.Table:
    """New rows with the scores of the training path."""
    fitted, rows = shop.fitted(), shop.table(40, seed=12, unknown=True)
    for task, scores in Scorer(shop.model(fitted)).score_table(rows, fitted, "request").items():
        rows = rows.append_column(f"{task}_score", pa.array(scores))
    return rows


def _raw(table: pa.Table, side: str | None = None) -> list[dict[str, Any]]:
    names = [f.name for f in shop.SCHEMA.features if side in (None, f.side)]
    return table.select(names).to_pylist()


def test_rows_and_requests_score_as_in_training(client: Client, scored: pa.Table) -> None:
    rows = _raw(scored)
    _check(client.predict_rows(rows), scored)
    present = [{n: v for n, v in row.items() if v is not None} for row in rows]
    assert present != rows
    _check(client.predict_rows(present), scored)
    for table in split_requests(scored):
        answers = client.rank(_raw(table, "context")[0], _raw(table, "candidate"))
        _check(answers, table)


def test_the_files_first_task_ranks(address: str, client: Client, scored: pa.Table) -> None:
    """Not the first by name, which is another one."""
    tasks = [task.name for task in shop.SCHEMA.tasks]
    assert client.metadata().first_task == tasks[0] != min(tasks)
    table = split_requests(scored)[0]
    context, candidates = _raw(table, "context")[0], _raw(table, "candidate")
    with grpc.insecure_channel(address) as channel:
        stub = scoring_pb2_grpc.ScoringServiceStub(channel)
        by_rank = read_rank_response(
            stub.Rank(make_rank_request("shop", context, candidates), timeout=60)
        )
    for found in (by_rank, client.explain(context, candidates)):
        best = np.argsort(-found.scores[tasks[0]], kind="stable")
        np.testing.assert_array_equal(found.ranking, best)


def test_explanations_are_by_the_events_sent(
    address: str, client: Client, scored: pa.Table
) -> None:
    """The model reads the last five events without gaps."""
    kinds = set()
    with grpc.insecure_channel(address) as channel:
        stub = scoring_pb2_grpc.ScoringServiceStub(channel)
        for table in split_requests(scored):
            context, candidates = _raw(table, "context")[0], _raw(table, "candidate")
            request = make_rank_request("shop", context, candidates, rank_by="buy", explain=True)
            by_rank = read_rank_response(stub.Rank(request, timeout=60))
            gaps = _gaps(context)
            for found in (by_rank, client.explain(context, candidates, rank_by="buy")):
                _check(dict(found.scores), table)
                best = found.scores["buy"][found.ranking]
                assert sorted(found.ranking) == list(range(table.num_rows))
                np.testing.assert_array_equal(best, np.sort(best)[::-1])
                assert found.attention["history"].shape[1] >= len(gaps)
                seen = np.flatnonzero(~gaps)[-5:]
                for weights in found.attention["history"]:
                    np.testing.assert_array_equal(np.flatnonzero(weights), seen)
                for gates in found.gates.values():
                    np.testing.assert_allclose(gates.sum(axis=1), 1, atol=1e-5)
                assert "history.past_items" in found.fields
                weights = np.stack(list(found.fields.values()))
                np.testing.assert_allclose(weights.sum(axis=0), 1, atol=1e-5)
            kinds.add((len(gaps) > 5, bool(gaps.any())))
    assert len(kinds) == 4, "long and short histories, with gaps and without"


def _gaps(context: dict[str, Any]) -> np.ndarray:
    """Where a request's history has neither an item nor a brand."""
    missing = (None, "", np.iinfo("int64").min)
    events = zip(context["past_items"] or (), context["past_brands"] or (), strict=True)
    return np.array([item in missing and brand in missing for item, brand in events], bool)


def _check(answers: dict[str, np.ndarray], scored: pa.Table) -> None:
    for task in ("click", "buy"):
        expected = scored[f"{task}_score"].to_numpy()
        np.testing.assert_allclose(answers[task], expected, atol=1e-5)
