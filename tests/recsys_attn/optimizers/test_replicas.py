"""Two replicas, each with half of a batch, do what one device does with the whole of it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.optimizers import SPARSE

if not SPARSE:
    pytest.skip("tf.distribute is TensorFlow's", allow_module_level=True)

from tests.support import replicas  # it imports TensorFlow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    return replicas.in_a_process(tmp_path_factory.mktemp("replicas") / "trained.npz")


NAMES = pytest.mark.parametrize("name", replicas.MAKERS)


@pytest.mark.thorough
@NAMES
def test_equal_one_device(name: str, trained: dict[str, np.ndarray]) -> None:
    one = [key for key in trained if key.startswith(f"{name}/one/") and key[-1].isdigit()]
    assert len(one) >= 3 + 4
    for key in one:
        np.testing.assert_allclose(
            trained[key.replace("/one/", "/two/")], trained[key], rtol=1e-5, atol=1e-6
        )


@pytest.mark.thorough
@pytest.mark.parametrize("name", replicas.BY_ROW)
def test_no_step_reads_a_whole_table(name: str, trained: dict[str, np.ndarray]) -> None:
    assert [trained[f"{name}/{device}/whole"] for device in replicas.DEVICES] == [0, 0]
