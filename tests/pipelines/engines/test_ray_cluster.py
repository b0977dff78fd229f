"""A process of its own connects to a cluster, and is afterwards as it was before."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.xdist_group("ray")
CODE = """
import signal, sys
from pipelines.engines import choose_engine
from tests.support.engines import appending, joined

handler = lambda *arguments: None
signal.signal(signal.SIGTERM, handler)
engine = choose_engine("ray", sys.argv[1])
print(*sorted(engine.map_ordered(appending, "x")))
print(engine.map_reduce(appending, "y", joined, lambda batch: None))
print(signal.getsignal(signal.SIGTERM) is handler, "tensorflow" in sys.modules)
"""


def test_a_process_connects_twice_and_keeps_its_signals(cluster: str) -> None:
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", CODE, cluster], capture_output=True, text=True
    )
    assert (found.stdout, found.stderr, found.returncode) == ("x1\ny1\nTrue False\n", "", 0)
