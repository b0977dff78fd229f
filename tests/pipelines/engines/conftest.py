"""One Ray cluster for all tests of a process."""

import gc
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """The address of a cluster of two workers that this process is connected to."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: `make ray` adds it")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # Ray's first process has been seen to do nothing for all of the 30 seconds it is given.
    if not _starts(ray):
        log = _log()
        if not _starts(ray):
            pytest.fail(f"Ray did not start, twice.\n{log}\n{_log()}", pytrace=False)
    yield ray.get_runtime_context().gcs_address
    ray.shutdown()


def _starts(ray: Any) -> bool:
    options = {"include_dashboard": False, "log_to_driver": False, "logging_level": "ERROR"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it drops its handle of the process
        try:
            ray.init(num_cpus=2, **options)
        except RuntimeError:
            return False
        finally:
            gc.collect()
    return True


def _log() -> str:
    """What the process that would not start has written, which Ray's own error leaves out."""
    folder = Path(os.environ.get("RAY_TMPDIR", tempfile.gettempdir())) / "ray/session_latest/logs"
    files = sorted(folder.glob("gcs_server.*"))
    return "\n".join(f"{file}:\n{file.read_text()[-2000:]}" for file in files)
