"""Two replicas, each with half of a batch, do what one device does with the whole of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.optimizers import SPARSE

if not SPARSE:
    pytest.skip("tf.distribute is TensorFlow's", allow_module_level=True)

from tests.support import replicas  # it imports TensorFlow

Trained = tuple[str, dict[str, np.ndarray]]


@pytest.fixture(
    scope="module",
    # Two workers of `tests/pipelines/training` train like one.
    params=[pytest.param(name, marks=pytest.mark.thorough) for name in replicas.MAKERS],
)
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Returns the name of an optimizer and its final weights."""
    path = tmp_path_factory.mktemp("replicas") / "trained.npz"
    return request.param, replicas.in_a_process(path, request.param)


def test_equal_one_device(trained: Trained) -> None:
    _, found = trained
    one = [key for key in found if key.startswith("one/") and key[-1].isdigit()]
    assert len(one) >= 3 + 4
    for key in one:
        two = found[key.replace("one/", "two/")]
        np.testing.assert_allclose(two, found[key], rtol=1e-5, atol=1e-6)


def test_no_step_reads_a_whole_table(trained: Trained) -> None:
    name, found = trained
    if name in replicas.BY_ROW:
        assert [found[f"{device}/whole"] for device in replicas.DEVICES] == [0, 0]
