"""A supervisor of processes that serve nothing.

Run by `python -m tests.serving.server.fake_processes FOLDER`.

The folder has a file for each number that says what the process does; each says who it is, and
that it drained.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from serving.config.server_config import ServerConfig
from serving.server import supervisor

PROCESSES = 2


def fake(config: ServerConfig, number: int, tell: Connection) -> None:
    """Does as its file says: `serve`, `refuse`, `die`, `hang` where it should drain."""
    folder = Path(config.model_base_path)
    does = (folder / f"{number}").read_text()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if does == "die":
        os._exit(7)
    if does == "refuse":
        tell.send("Nothing to serve.")
        return
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: None if does == "hang" else ended.set())
    threading.Thread(target=supervisor._end_with_parent, daemon=True).start()
    (folder / f"{number}.pid").write_text(str(os.getpid()))
    tell.send("")
    ended.wait()
    (folder / f"{number}.drained").touch()


def main() -> None:
    """Supervises; status 2 with the reason where a process does not start."""
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    supervisor._FIRST_WAIT = 0.1
    config = ServerConfig(sys.argv[1], processes=PROCESSES, grace_seconds=5.0)
    try:
        supervisor.Supervisor(config, lambda: print("started", flush=True), fake).run()
    except supervisor.StartFailed as error:
        sys.exit(f"{error}")


if __name__ == "__main__":
    main()
