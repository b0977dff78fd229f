"""A process ends after the drain, after the grace period, or at once; its server is a fake."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.serving.commands import ROOT

PROGRAM = """
import signal, sys, threading, time
from types import SimpleNamespace
from serving.server.process import SIGNALS, serve
from serving.server.signals import Signals

def catch():  # the system may deliver a signal to any thread
    for number in sys.stdin:
        signal.pthread_kill(threading.get_ident(), int(number))

threading.Thread(target=catch, daemon=True).start()
threading.Thread(target=lambda: time.sleep(60)).start()  # a computation that does not end
config = SimpleNamespace(grace_seconds=float(sys.argv[1]))
drain = lambda: (print("draining", flush=True), time.sleep(float(sys.argv[2])))
signals = Signals(SIGNALS)
print("started")
serve(SimpleNamespace(config=config, drain=drain), signals)
"""

Run = Callable[[float, float], subprocess.Popen[str]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Starts a server with a grace whose drain takes some seconds; waits until it serves."""
    started = []

    def start(grace: float, drain: float) -> subprocess.Popen[str]:
        process = _started(PROGRAM, str(grace), str(drain))
        started.append(process)
        _expect(process, "started")
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def _started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", "-c", program, *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    )  # fmt: skip


def _expect(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == f"{line}\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda n: n.name)
def test_a_signal_ends_it_after_the_drain(run: Run, number: signal.Signals) -> None:
    process = run(30.0, 0.2)
    process.send_signal(number)
    _expect(process, "draining")
    assert process.wait(10) == 0


def test_a_second_ctrl_c_ends_it_at_once(run: Run) -> None:
    process = run(30.0, 60.0)
    process.send_signal(signal.SIGTERM)
    _expect(process, "draining")
    process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 128 + signal.SIGINT


def test_a_signal_to_another_thread_is_not_lost(run: Run) -> None:
    process = run(30.0, 60.0)
    time.sleep(0.2)  # the main thread waits
    print(int(signal.SIGTERM), file=process.stdin, flush=True)
    _expect(process, "draining")
    print(int(signal.SIGINT), file=process.stdin, flush=True)
    assert process.wait(10) == 128 + signal.SIGINT


LOADS = """
import sys, time
from serving.server import process
from serving.server.signals import Signals

def load(*_):
    print("loads", flush=True)
    time.sleep(float(sys.argv[1]))
    return "server", 1

process._start_server = load
assert process.start_server(None, Signals(process.SIGNALS)) == ("server", 1)
print("loaded", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 128 + signal.SIGINT)]
)
def test_a_signal_ends_it_while_it_loads(number: signal.Signals, status: int) -> None:
    with _started(LOADS, "60") as process:
        _expect(process, "loads")
        process.send_signal(number)
        assert process.wait(10) == status


def test_a_signal_after_the_load_does_not_end_it() -> None:
    with _started(LOADS, "0") as process:
        _expect(process, "loads")
        _expect(process, "loaded")
        process.terminate()
        time.sleep(0.2)
        assert process.poll() is None
        process.kill()


FAILS = """
import threading, time
from serving.server import process
from serving.server.signals import Signals

def load(*_):
    threading.Thread(target=time.sleep, args=(60,)).start()
    raise ValueError("nothing to serve")

process._start_server = load
try:
    with Signals(process.SIGNALS) as signals:
        process.start_server(None, signals)
except ValueError:
    print("failed", flush=True)
"""


def test_a_failed_start_restores_the_signals() -> None:
    """Python waits for threads at its exit; a signal must still end the process."""
    with _started(FAILS) as process:
        _expect(process, "failed")
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
