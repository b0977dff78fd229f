"""Micro-batches: combined results, sizes and threads."""

import subprocess
import sys

import pytest
import tensorflow as tf

from pipelines.scoring.microbatches import micro_batch_requests


@pytest.mark.parametrize(
    ("shape", "rows", "expected"),
    [
        ((4096, 1), 64, 64),
        ((4096, 25), 64, 2),  # 50 candidates
        ((4096, 200), 64, 1),  # a request is never cut
        ((100, 1), 4096, 50),  # both of two processors get half
        ((0, 1), 64, 1),
        ((5, 0), 64, 3),
    ],
    ids=str,
)
def test_a_part_has_whole_requests_and_each_processor_a_part(
    shape: tuple[int, int], rows: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.scoring.microbatches._processors", lambda: 2)
    assert int(micro_batch_requests(tf.ones(shape, tf.bool), rows)) == expected


SCRIPT = """
import os
import tensorflow as tf
from pipelines.scoring import microbatches

threads = tf.config.threading
microbatches._processors = lambda: 3
for name, gpu, before in [
    ("gpu", True, ""),
    ("set by a variable", False, "os.environ['TF_NUM_INTRAOP_THREADS'] = '2'"),
    ("set in Python", False, "threads.set_intra_op_parallelism_threads(2)"),
    ("cpu", False, ""),
    ("too late", False, "tf.zeros(1)"),
]:
    threads.set_intra_op_parallelism_threads(0)
    threads.set_inter_op_parallelism_threads(0)
    os.environ.pop("TF_NUM_INTRAOP_THREADS", None)
    microbatches._has_gpu = lambda: gpu
    exec(before)
    microbatches.one_thread_each()
    found = threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads()
    print(name, *found, sep=": ")
"""


@pytest.mark.thorough
def test_threads_per_operation() -> None:
    """In a process of its own, whose TensorFlow starts with the last of the cases."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.stdout.splitlines()[-5:] == [
        "gpu: 0: 0",
        "set by a variable: 0: 0",
        "set in Python: 2: 0",
        "cpu: 1: 3",
        "too late: 0: 0",
    ], done.stderr
