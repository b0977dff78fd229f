"""The engine of a Ray cluster: Ray Data streams the batches, or blocks of them, through it."""

from __future__ import annotations

import contextlib
import logging
import os
import pickle
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import ray.data

from pipelines.common.errors import PipelineError
from pipelines.engines.base import Work, tree
from pipelines.engines.ray.cluster import ENVIRONMENT, connected

_HELD = 256 * 2**20  # bytes of results for each CPU that wait for this process, at most
_TASKS = 8  # tasks for each CPU, at least, of those that merge what they make
_LARGEST_BLOCK = 64  # batches
_RETRIES = 3  # of a task whose worker was killed
_LEAVING = ExitStack()  # leaves the work that this worker process has entered
_TASK: dict[str, Callable[[Any], Any]] = {}  # what it does with an item, by the work's reference


@dataclass(frozen=True)
class Ray:
    """Runs work on a cluster; a task whose worker was killed runs again elsewhere.

    Files must be where every worker finds them: on this machine, or on shared storage.

    Args:
        address: As of `connected`.
    """

    address: str = "local"

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in their order; few are held at a time."""
        with connected(self.address):
            yield from _results(work, _apply, batches)

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results as one: a worker merges those of a block, and this process the blocks."""
        with connected(self.address):
            size = _block_size(len(batches))
            blocks = [batches[i : i + size] for i in range(0, len(batches), size)]
            results = _results(work, partial(_reduce, merge), blocks)

            def states() -> Iterator[Any]:
                for block, state in zip(blocks, results, strict=True):
                    for batch in block:
                        done(batch)
                    yield state

            incomplete = len(blocks) - 1 if len(batches) % size else None
            with contextlib.closing(results):
                return tree(states(), merge, incomplete)


def _apply(function: Callable[[Any], Any], batch: Any) -> Any:
    return function(batch)


def _reduce(
    merge: Callable[[Any, Any], Any], function: Callable[[Any], Any], block: Sequence[Any]
) -> Any:
    return tree(map(function, block), merge)


class _Failed(NamedTuple):
    """In the place of a result, the user's error that there is instead."""

    error: PipelineError | OSError


def _results(work: Work, task: Callable[..., Any], items: Sequence[Any]) -> Generator[Any]:
    """The result of a task for each item, in their order.

    Ray Data sees each item and each result as one row of bytes in a block of its own.
    """
    if not items:
        return
    with _quiet():
        rows = [{"bytes": pickle.dumps(item)} for item in items]
        results = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _run,
            fn_kwargs={"shared": [ray.put((work, task, os.getcwd()))]},
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=1,
            max_retries=_RETRIES,
            runtime_env=ENVIRONMENT,
        )
        tables = iter(results.iter_batches(batch_size=None, batch_format="pyarrow"))
    with contextlib.closing(tables):
        for table in tables:
            for result in _objects(table):
                if isinstance(result, _Failed):
                    raise result.error
                yield result


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What is made in the block keeps its order, and writes nothing on the screen."""
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current().copy()
    options = context.execution_options
    options.preserve_order = True
    options.resource_limits = ray.data.ExecutionResources(object_store_memory=_HELD * _cpus())
    context.enable_progress_bars = False
    context.raise_original_map_exception = True
    with (
        ray.data.DataContext.current(context),
        # Until Ray 2.64 there is no other way than `max_retries`: without, it tries for ever.
        warnings.catch_warnings(action="ignore", category=DeprecationWarning),
    ):
        yield


def _run(table: pa.Table, shared: list[ray.ObjectRef]) -> pa.Table:
    """Runs the task for each row of a table, in a worker."""
    results = [pickle.dumps(_result(shared[0], item)) for item in _objects(table)]
    return pa.table({"bytes": pa.array(results, pa.large_binary())})


def _objects(table: pa.Table) -> Iterator[Any]:
    return (pickle.loads(row.as_buffer()) for row in table["bytes"])


def _result(shared: ray.ObjectRef, item: Any) -> Any:
    """What the task gives; a worker process enters the work once and keeps it until the next."""
    key = shared.hex()
    try:
        if key not in _TASK:
            _TASK.clear()
            _LEAVING.close()
            work, task, folder = ray.get(shared)
            # A relative path is one of the command's folder, and of no other where that is absent.
            os.chdir(folder if os.path.isdir(folder) else os.sep)
            _TASK[key] = partial(task, _LEAVING.enter_context(work()))
        return _TASK[key](item)
    except (PipelineError, OSError) as error:  # Ray Data would add to its text
        return _Failed(error)


def _block_size(batches: int) -> int:
    """Batches for each task, a power of two: many to be worth a task, few to employ each CPU."""
    share = batches // (_TASKS * _cpus())
    return 1 << (min(max(share, 1), _LARGEST_BLOCK).bit_length() - 1)


def _cpus() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
