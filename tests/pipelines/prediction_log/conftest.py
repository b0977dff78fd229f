"""A small finished run, and a log of its served export."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pipelines.common.progress import Progress
from pipelines.prediction_log.skew import SkewOptions, measure_skew
from pipelines.workflow.steps import Steps
from tests.pipelines.prediction_log.serve import Service
from tests.support.experiments import SIMULATED, load

_MODEL = SIMULATED.partition("[model]\n")[2].partition("\n[training]")[0]


@pytest.fixture(scope="package")
def steps(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    """A finished run of the simulated experiment; not to be changed."""
    folder = tmp_path_factory.mktemp("finished")
    console = Console(file=io.StringIO(), width=120)
    quick = (_MODEL, 'name = "logistic_regression"\n')
    found = Steps.of(load(folder, quick, training__epochs=1), folder / "run", console, force=False)
    found.everything()
    return found


@pytest.fixture(scope="package")
def service(steps: Steps) -> Service:
    """The export, answering and logging requests."""
    return Service(steps)


@pytest.fixture(scope="package")
def measure(steps: Steps) -> Callable[..., dict[str, Any]]:
    """What is found in a log, by the options of `skew`; without the pictures."""
    baseline = steps.baseline()

    def found(log: Path, **options: Any) -> dict[str, Any]:
        return measure_skew(SkewOptions(log, **options), baseline, Progress(steps.console))

    return found


@pytest.fixture
def written(steps: Steps) -> Callable[[], str]:
    """What was printed since it was last asked."""
    file = steps.console.file

    def text() -> str:
        found = file.getvalue()
        file.seek(0)
        file.truncate()
        return found

    text()
    return text


@pytest.fixture(scope="package")
def log(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of the test split's requests by both signatures."""
    folder = tmp_path_factory.mktemp("log")
    with service.logging(folder) as serve:
        for number, table in enumerate(service.requests("test")):
            serve(table, "rank" if number % 2 else "serving_default", str(number))
    return folder
