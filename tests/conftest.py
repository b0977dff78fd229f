"""What every test starts from."""

from __future__ import annotations

import gc
import os
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pipelines.calls.import_tensorflow import set_defaults
from tests.support.backends import environment
from tests.support.folder_times import FolderTimes

TESTS = Path(__file__).parent
USER_ENVIRONMENT = TESTS / "support" / "user_environment"

# Graphs are millions of objects, and looking for cycles in them as often as usual takes its time.
gc.set_threshold(100_000, 50, 100)

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
set_defaults()  # so that TensorFlow computes in the tests as in the commands
os.environ.update(environment(os.environ["KERAS_BACKEND"]))


def pytest_configure(config: pytest.Config) -> None:
    """Processes that tests start have what a user has installed, and so start sooner."""
    config.pluginmanager.register(FolderTimes())
    # But not those that pytest-xdist starts to run tests.
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        found = os.environ.get("PYTHONPATH")
        paths = [str(USER_ENVIRONMENT), *([found] if found else [])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What tests of a module or package share is made once, in one of the processes.

    Of a test with the mark `sampled(n)`, one of every n cases stays, and the others are marked
    `thorough`: the first, the second of the next n, and so on, so that every value of each
    parameter has its turn.
    """
    cases: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("sampled")) is not None:
            test = item.nodeid.partition("[")[0]
            turn, place = divmod(cases[test], mark.args[0])
            if place != turn % mark.args[0]:
                item.add_marker(pytest.mark.thorough)
            cases[test] += 1
        if not isinstance(item, pytest.Function) or item.get_closest_marker("xdist_group"):
            continue
        used = item._fixtureinfo.name2fixturedefs.values()
        scopes = {fixture.scope for fixtures in used for fixture in fixtures}
        if scopes & {"module", "package"}:
            shared = item.path.parent if "package" in scopes else item.path
            item.add_marker(pytest.mark.xdist_group(shared.relative_to(TESTS).as_posix()))


@pytest.fixture(autouse=True)
def seed(request: pytest.FixtureRequest) -> None:
    """The same numbers in every run and in any order of the tests."""
    random.seed(7)  # Keras draws the seed of each layer from it
    np.random.seed(7)
    if "oracles" in request.node.path.parts:
        import keras

        # PyTorch's too. Not everywhere: TensorFlow then looks up all of its kernels again, which
        # takes a quarter of the run.
        keras.utils.set_random_seed(7)
