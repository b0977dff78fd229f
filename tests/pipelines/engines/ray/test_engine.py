"""The Ray engine gives the results and errors of the local engine."""

import sys
import time
from functools import partial
from pathlib import Path

import pytest

from pipelines.common.errors import PipelineError
from pipelines.common.own_parts import OwnParts
from pipelines.engines import LOCAL, Engine, choose_engine
from tests.support import engines, registries

pytestmark = pytest.mark.xdist_group("ray")


@pytest.fixture
def engine(cluster: str) -> Engine:
    return choose_engine("ray", cluster)


def test_few_results_are_computed_ahead(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.engines.ray import engine as ray_engine

    monkeypatch.setattr(ray_engine, "_HELD", 5_000_000)  # bytes for each of two workers
    results = engine.map_ordered(partial(engines.megabyte, tmp_path), range(97))
    next(results)
    time.sleep(1)  # without a limit, all are done after it
    done = len(list(tmp_path.iterdir()))
    results.close()
    assert done <= 20


@pytest.mark.parametrize("count", [1, 11, 139])  # 139: in blocks, the last one incomplete
def test_states_are_merged_in_the_same_tree(engine: Engine, count: int) -> None:
    done: list[int] = []
    arguments = (engines.doubling, range(count), engines.joined)
    found = engine.map_reduce(*arguments, done.append)
    assert found == LOCAL.map_reduce(*arguments, lambda batch: None)
    assert done == list(range(count))


def test_relative_path_belongs_to_the_commands_folder(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the cluster was started: another folder may hold a run of the same name."""
    for name in ("first", "second"):  # workers that stay are given work from both
        (tmp_path / name).mkdir()
        (tmp_path / name / "run").write_text(name, "utf-8")
        monkeypatch.chdir(tmp_path / name)
        assert list(engine.map_ordered(engines.reading, ["run"] * 3)) == [name] * 3


@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        ("user", PipelineError, r"^b\.parquet is damaged; make it again\.$"),
        ("system", PermissionError, "Permission denied: '/r'$"),
        ("bug", ZeroDivisionError, "division by zero"),
    ],
)
def test_worker_error_is_reraised(
    engine: Engine, batch: str, kind: type[Exception], message: str
) -> None:
    batches = ["a", batch, "b"]
    with pytest.raises(kind, match=message):
        list(engine.map_ordered(engines.failing, batches))
    with pytest.raises(kind, match=message):
        engine.map_reduce(engines.failing, batches, engines.joined, lambda batch: None)


def test_batch_that_kills_all_workers_is_an_error(engine: Engine, tmp_path: Path) -> None:
    work = partial(engines.dying, tmp_path, 99)
    with pytest.raises(PipelineError, match=r"process on the Ray cluster is gone \(WorkerCrashed"):
        list(engine.map_ordered(work, "a"))
    assert len(list(tmp_path.iterdir())) == 4  # Ray tries three times more


def test_a_killed_workers_batch_is_done_by_another(engine: Engine, tmp_path: Path) -> None:
    work = partial(engines.dying, tmp_path, 1)
    assert list(engine.map_ordered(work, "abc")) == ["a", "b", "c"]
    assert len(list(tmp_path.iterdir())) == 1


def test_workers_import_the_users_modules(cluster: str, tmp_path: Path) -> None:
    folder = tmp_path.resolve()
    (folder / "own_work.py").write_text(
        "import contextlib\n\n\n@contextlib.contextmanager\ndef tripling():\n"
        "    yield lambda batch: 3 * batch\n",
        "utf-8",
    )
    own = OwnParts(("own_work",), str(folder))
    with registries.restored(folder):
        own.load()
        work = sys.modules["own_work"].tripling
        assert list(choose_engine("ray", cluster, own).map_ordered(work, [1, 2])) == [3, 6]
