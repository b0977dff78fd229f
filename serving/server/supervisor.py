"""Several processes that share the ports: a parent starts them, watches them and ends them.

    parent        holds the ports and listens on none; no TensorFlow
      process 0   spawned: loads, then listens beside the others (SO_REUSEPORT), and says so
      process 1   ...

One that dies is replaced, after a wait that doubles while its successors die too. The parent's
end is the end of all: they hear of it, however it came.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection, wait

from serving.common.errors import ServingError
from serving.common.logs import set_up
from serving.config.server_config import ServerConfig
from serving.server import process
from serving.server.ports import held, listening
from serving.server.signals import Signals

_LOGGER = logging.getLogger(__name__)
_SPAWN = multiprocessing.get_context("spawn")  # TensorFlow and gRPC do not survive a fork
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0
_METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # prometheus_client's name for it
_READY = ""  # what a process says; anything else is why it cannot serve

# Serves in a process of its own: the options, its number, and where it says what.
Serve = Callable[[ServerConfig, int, Connection], None]


class StartFailed(Exception):
    """A process cannot serve; the words are its own."""


class Place:
    """One of the processes, and its successors.

    Args:
        config: The options.
        number: Its number, from 0.
        serve: What it does.
    """

    def __init__(self, config: ServerConfig, number: int, serve: Serve) -> None:
        self.number = number
        self.told: Connection | None = None  # what its process says; None while there is none
        self.is_ready = False
        self.due = 0.0  # when a successor is started
        self._config = config
        self._serve = serve
        self._wait = _FIRST_WAIT
        self._started = 0.0

    def start(self) -> None:
        """Starts a process."""
        told, tell = _SPAWN.Pipe(duplex=False)
        self.process = _SPAWN.Process(
            target=self._serve,
            args=(self._config, self.number, tell),
            name=f"process {self.number}",
        )
        self.process.start()
        tell.close()
        self.told, self.is_ready, self._started = told, False, time.monotonic()

    def hear(self, told: Connection) -> str | None:
        """Why it does not serve; None where it does."""
        try:
            said = told.recv()
        except EOFError:  # the process has ended, and its end of the pipe with it
            self.process.join()
            told.close()
            self.told = None
            said = f"It ended with status {self.process.exitcode}."
        self.is_ready = said == _READY
        return None if self.is_ready else said

    def put_off(self) -> float:
        """Sets when its successor starts; returns the seconds until then."""
        now = time.monotonic()
        if now - self._started > _LONGEST_WAIT:
            self._wait = _FIRST_WAIT
        self.due, waits = now + self._wait, self._wait
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
        return waits


class Supervisor:
    """Keeps the processes of a server running until a signal ends them.

    Args:
        config: The options, with the ports that the processes share.
        started: Called once all of them answer.
        serve: What each does.
    """

    def __init__(
        self, config: ServerConfig, started: Callable[[], object], serve: Serve | None = None
    ) -> None:
        self._grace = config.grace_seconds + process.LAST_SECONDS
        self._started = started
        self._is_started = False
        self._places = [Place(config, n, serve or serve_one) for n in range(config.processes)]

    def run(self) -> None:
        """Returns after the drain that a signal asked for. To be called in the main thread.

        Raises:
            StartFailed: One of the first processes does not serve.
        """
        signals = Signals(process.SIGNALS)
        try:
            for place in self._places:
                place.start()
            while not self._is_over(signals):
                pass
            name = signal.Signals(signals.wait()).name
            _LOGGER.info("%s: the processes drain for at most %g s", name, self._grace)
        finally:
            signals.on_ctrl_c(self._end_at_once)
            self._stop()

    def _is_over(self, signals: Signals) -> bool:
        """Sees to what has happened; whether that was a signal."""
        running = {place.told: place for place in self._places if place.told is not None}
        due = [place.due for place in self._places if place.told is None]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        happened = wait([signals.fileno(), *running], timeout)
        if signals.fileno() in happened:
            return True
        for told, place in running.items():
            if told in happened:
                self._hear(place, told)
        for place in self._places:
            if place.told is None and time.monotonic() >= place.due:
                place.start()
        return False

    def _hear(self, place: Place, told: Connection) -> None:
        trouble = place.hear(told)
        if trouble is None:
            _LOGGER.info("Process %d (%s) answers", place.number, place.process.pid)
            if not self._is_started and all(one.is_ready for one in self._places):
                self._is_started = True
                self._started()
        elif not self._is_started:
            raise StartFailed(trouble)
        elif place.told is None:
            waits = place.put_off()
            _LOGGER.error("Process %d: %s The next starts in %g s", place.number, trouble, waits)
        else:
            _LOGGER.error("Process %d cannot serve: %s", place.number, trouble)

    def _stop(self) -> None:
        running = [place.process for place in self._places if place.told is not None]
        for one in running:
            one.terminate()
        end = time.monotonic() + self._grace + process.LAST_SECONDS
        for one in running:
            one.join(max(0.0, end - time.monotonic()))
            one.kill()

    def _end_at_once(self) -> None:
        for place in self._places:
            if place.told is not None:
                place.process.kill()
        os._exit(128 + signal.SIGINT)


def supervise(config: ServerConfig, started: Callable[[str], object]) -> None:
    """Serves in `config.processes` processes until a signal, and returns after their drain.

    Args:
        config: The options.
        started: Told where they listen, once all of them answer.

    Raises:
        StartFailed: One of the processes cannot serve.
        ServingError: A port is taken.
    """
    set_up("%(asctime)s %(levelname)s %(message)s")
    with ExitStack() as stack:
        config = stack.enter_context(held(config))
        if config.monitoring_config_file:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="serving-metrics-"))
            os.environ[_METRICS_FOLDER] = folder  # the processes have it from there
        where = listening(config, config.port, config.rest_api_port)
        Supervisor(config, lambda: started(where)).run()


def serve_one(config: ServerConfig, number: int, tell: Connection) -> None:
    """What each of the processes does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all: the parent decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        if _METRICS_FOLDER in os.environ:
            from serving.observability.multiprocess_metrics import count_as

            count_as(number)
        log_format = f"%(asctime)s %(levelname)s [{number}] %(message)s"
        with Signals((signal.SIGTERM,)) as signals:
            server, _ = process.loaded(config, log_format, signals)
            process.serve(server, lambda: tell.send(_READY), signals)
    except (ServingError, ValueError) as error:
        tell.send(str(error))
        sys.exit(2)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
