"""Two processes that train together on JAX do what one does alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support import jax_workers


@pytest.mark.thorough
def test_two_processes_share_each_batch(tmp_path: Path) -> None:
    """Losses, weights, random states and the optimizer's, of a model that drops out."""
    alone, *workers = jax_workers.in_processes(tmp_path)
    assert len(workers) == 2
    for worker in workers:
        assert worker.keys() == alone.keys()
        for name, expected in alone.items():
            np.testing.assert_allclose(worker[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
