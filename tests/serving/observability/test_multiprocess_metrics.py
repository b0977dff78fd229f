"""What several processes count: read back from the page, as Prometheus reads it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from serving.observability.multiprocess_metrics import Numbers

ROOT = Path(__file__).parents[3]
# Answers by each version of a range, and prints the page: its number, the first and the last.
PROCESS = """
import sys
import numpy as np
from serving import metrics
from serving.common.request_trace import RequestTrace
from tests.serving.traces import trace
from serving.observability.multiprocess_metrics import count_as

metrics._MOST_SERIES = 5
number, first, last = map(int, sys.argv[1:])
count_as(number)
counting = metrics.Metrics()
for version in range(first, last):
    for answered in (1, version):
        counting(trace("Predict", model="ctr", version=answered, is_served=True, candidates=1,
                      results={"click": np.float32([0.5])}))
    counting.warmed(f"/models/ctr/{version}", 0.1, True)
print(counting.page().decode())
"""


def _page(folder: Path, *arguments: int) -> dict[str, dict[str, float]]:
    """Values by the label that tells the series apart, of each metric."""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(folder)}
    command = [sys.executable, "-W", "error", "-c", PROCESS, *map(str, arguments)]
    page = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            for label in ("version", "model_path", "process"):
                if label in sample.labels:
                    found.setdefault(sample.name, {})[sample.labels[label]] = sample.value
    return found


def test_each_process_forgets_versions_and_its_successor_goes_on(tmp_path: Path) -> None:
    scores, warmups = (
        ":recsys_attn:serving:score_count",
        ":tensorflow:serving:model_warmup_latency_count",
    )
    first = _page(tmp_path, 0, 2, 20)
    assert first[scores] == {"1": 18, "16": 1, "17": 1, "18": 1, "19": 1}
    assert set(first[warmups]) == {f"/models/ctr/{version}" for version in range(15, 20)}
    both = _page(tmp_path, 1, 18, 20)
    assert both[scores] == {"1": 20, "16": 1, "17": 1, "18": 2, "19": 2}, "the sum of both"
    after = _page(tmp_path, 0, 20, 22)
    assert after[scores] == {"1": 22, "18": 2, "19": 2, "20": 1, "21": 1}
    assert len(after[warmups]) == 5


def test_the_page_has_every_process(tmp_path: Path) -> None:
    _page(tmp_path, 1, 2, 3)
    (tmp_path / "1.pid").write_text(str(os.getpid()))  # it has ended: a process that has not
    found = _page(tmp_path, 0, 2, 3)
    for name in (
        "process_resident_memory_bytes", "process_virtual_memory_bytes", "process_open_fds",
        "process_cpu_seconds_total", "process_start_time_seconds", "process_max_fds",
    ):  # fmt: skip
        assert set(found[name]) == {"0", "1"}, name
    (tmp_path / "1.pid").write_text("999999999")
    assert set(_page(tmp_path, 0, 2, 3)["process_open_fds"]) == {"0"}, "one that died has none"


def test_numbers_that_are_taken_out_are_gone_from_the_file(tmp_path: Path) -> None:
    numbers = Numbers(tmp_path / "numbers.db")
    for i in range(3000):
        numbers.add(f"key {i}", i)
    size = (tmp_path / "numbers.db").stat().st_size
    numbers.forget({f"key {i}" for i in range(2990)})
    numbers.add("key 2995", 1)
    numbers.add("key 5", 2)
    numbers.close()
    again = Numbers(tmp_path / "numbers.db")
    assert set(again.known()) == {*(f"key {i}" for i in range(2990, 3000)), "key 5"}
    assert (again.get("key 2995"), again.get("key 5")) == (2996, 2)
    assert (tmp_path / "numbers.db").stat().st_size < size
    again.close()
    assert [file.name for file in tmp_path.iterdir()] == ["numbers.db"]
