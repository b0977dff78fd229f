"""What a store adds to a request of a served model: 200 candidates, processor time of both ends.

    python -m benchmarks.state_served

The same model is asked with all values in the request, and with a user and items alone, whose
values come from LMDB. Client and server share the process; medians of five rounds in turns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from serving.client import Client
from serving.config.server_config import ServerConfig
from serving.server.server import create_server
from serving.state.online.online_state import OnlineState
from tests.support.state_exports import NEWEST, write_state_export

CANDIDATES, REQUESTS, ROUNDS = 200, 100, 5
AS_OF = NEWEST + 60
Request = tuple[dict[str, Any], list[dict[str, Any]]]


def requests(store: str, state: Path) -> dict[str, Request]:
    """The request with its values, and with a user and items alone."""
    items = np.random.default_rng(0).integers(17, size=CANDIDATES).tolist()
    with OnlineState(store, state) as online:
        online.load()
        values = online.values({"user": "5"}, {"item": items}, AS_OF)
    of_items = zip(items, *(values.candidates[n] for n in ("item_ctr", "pair_seen")), strict=True)
    whole = [{"item": i, "item_ctr": float(c), "pair_seen": float(s)} for i, c, s in of_items]
    context = {**values.context, "user_clicks": float(values.context["user_clicks"])}
    return {
        "values": (context, whole),
        "store": ({"user": "5", "as_of": AS_OF}, [{"item": item} for item in items]),
    }


def main() -> None:
    """Prints the table."""
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_state_export(folder)
        export, store = folder / "run/export/live", f"lmdb:{folder}/store"
        asked = requests(store, export / "1/assets.extra/state")
        server, port = create_server(ServerConfig(str(export), port=0, state=store))
        server.start()
        with Client(f"localhost:{port}", timeout=60) as client:
            for _ in range(ROUNDS):
                for kind, (context, candidates) in asked.items():
                    client.rank(context, candidates)
                    start = time.process_time()
                    for _ in range(REQUESTS):
                        client.rank(context, candidates)
                    seconds = (time.process_time() - start) / REQUESTS
                    times.setdefault(kind, []).append(1e3 * seconds)
        server.stop()
    table = Table("request", "processor, ms", "ratio")
    first = np.median(times["values"])
    for kind, of_kind in times.items():
        table.add_row(kind, f"{np.median(of_kind):.2f}", f"{np.median(of_kind) / first:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
