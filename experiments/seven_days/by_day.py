"""A day of the market: requests of a user and items, and the clicks on the shown items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.ingest.simulate.living_market import LivingMarket
from serving.client import Client
from serving.config.server_config import ServerConfig

_CANARY = 0.5  # share of the requests


@contextmanager
def served_day(folder: Path, run: Path) -> Iterator[Day]:
    """Yields a day of a server with the store, the log and the canary.

    The server ends at night, so that the log has its last requests at once: a server that goes on
    writes them some minutes later.

    Args:
        folder: The folder of the store, the log and the events.
        run: The run folder, with the model config file that `refresh` writes.
    """
    import_tensorflow()  # without its notices
    from serving.server.server import create_server

    config = ServerConfig(
        model_config_file=str(run / "serving.config"),
        canary=f"market:{_CANARY}",
        port=0,
        state=f"lmdb:{folder / 'store'}",
        prediction_log_dir=str(folder / "log"),
        prediction_log_sampling_rate=1.0,
    )
    server, port = create_server(config)
    server.start()
    try:
        with Client(f"localhost:{port}", model="market", timeout=60.0) as client:
            yield Day(client, folder / "events")
    finally:
        server.stop()


@dataclass(frozen=True)
class Day:
    """A client of the server.

    Attributes:
        client: The client.
        events: The folder of the outcomes.
    """

    client: Client
    events: Path

    def serve(self, market: LivingMarket, start: int, stop: int) -> str:
        """Ranks the requests of some hours; returns how many, and the clicks.

        Args:
            market: The market.
            start, stop: Unix seconds, of whole hours.
        """
        requests = clicks = 0
        self.events.mkdir(exist_ok=True)
        for hour in range(start, stop, 3600):
            now = market.requests(hour, hour + 3600)
            rows = pa.table(market.rows(now) | market.outcomes(now)).to_pylist()
            candidates = len(rows) // max(len(now), 1)
            events = []
            for first in range(0, len(rows), candidates or 1):
                events += self._answer(rows[first : first + candidates])
            lines = "".join(json.dumps(event) + "\n" for event in events)
            (self.events / f"{hour}.jsonl").write_text(lines, encoding="utf-8")
            requests, clicks = requests + len(now), clicks + len(events)
        return f"{requests:,} requests, {clicks:,} clicks"

    def _answer(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ranks one request, pushes its clicks, and returns them as outcomes."""
        shared = rows[0]
        context = {"user_id": shared["user_id"], "device": shared["device"]}
        context["as_of"] = shared["timestamp"]  # else a store answers as of now
        items = [{"item_id": row["item_id"]} for row in rows]
        request_id = str(shared["request_id"])
        self.client.rank(context, items, request_id=request_id)
        names = ("user_id", "item_id", "timestamp", "click")
        clicks = [{name: row[name] for name in names} for row in rows if row["click"]]
        if clicks:
            self.client.push(clicks)
        return [{"request_id": request_id, **event} for event in clicks]
