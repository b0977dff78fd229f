"""The engine of a Ray cluster: Ray Data streams batches, or blocks of batches, through it."""

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
from ray import cloudpickle

from pipelines.common.errors import PipelineError
from pipelines.common.own_parts import NO_PARTS, OwnParts
from pipelines.engines.base import Work, tree
from pipelines.engines.ray.cluster import ENVIRONMENT, connected

_HELD = 256 * 2**20  # most bytes of results per CPU that wait for this process
_TASKS = 8  # fewest tasks per CPU, if a task merges a block of batches
_LARGEST_BLOCK = 64  # batches
_RETRIES = 3  # of a task whose worker was killed
_LEAVING = ExitStack()  # closes the work that this worker process has entered
_TASK: dict[str, Callable[[Any], Any]] = {}  # the entered work by its reference


@dataclass(frozen=True)
class RayEngine:
    """Runs work on a cluster; a task whose worker was killed runs again elsewhere.

    Every worker must reach the files: on this machine, or on shared storage.

    Args:
        address: Of the cluster; see `connected`.
        own: The user's modules, which each worker imports first.
    """

    address: str = "local"
    own: OwnParts = NO_PARTS

    def map_ordered(self, work: Work, batches: Sequence[Any]) -> Generator[Any]:
        """The result of each batch, in their order; few are held at a time."""
        with connected(self.address):
            yield from _results(self.own, work, _apply, batches)

    def map_reduce(
        self,
        work: Work,
        batches: Sequence[Any],
        merge: Callable[[Any, Any], Any],
        done: Callable[[Any], None],
    ) -> Any:
        """All results merged: workers merge a block of batches, this process merges the blocks."""
        with connected(self.address):
            size = _block_size(len(batches))
            blocks = [batches[i : i + size] for i in range(0, len(batches), size)]
            results = _results(self.own, work, partial(_reduce, merge), blocks)

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
    """A user's error, sent in place of a result."""

    error: PipelineError | OSError


def _results(
    parts: OwnParts, work: Work, task: Callable[..., Any], items: Sequence[Any]
) -> Generator[Any]:
    """The result of a task for each item, in order.

    For Ray Data, each item and each result is one row of bytes in its own block.
    """
    if not items:
        return
    with _quiet():
        rows = [{"bytes": pickle.dumps(item)} for item in items]
        packed = cloudpickle.dumps((work, task))
        results = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
            _run,
            fn_kwargs={"shared": [ray.put((tuple(parts), packed, os.getcwd()))]},
            batch_size=None,
            batch_format="pyarrow",
            num_cpus=1,
            max_retries=_RETRIES,
            runtime_env=ENVIRONMENT,
        )
        # Nothing is fetched ahead: a result is shown as it comes, not with the one after it.
        tables = iter(
            results.iter_batches(batch_size=None, batch_format="pyarrow", prefetch_batches=0)
        )
    with contextlib.closing(tables):
        for table in tables:
            for result in _objects(table):
                if isinstance(result, _Failed):
                    raise result.error
                yield result


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Makes Ray Data keep the order of its input and print nothing."""
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current().copy()
    options = context.execution_options
    options.preserve_order = True
    options.resource_limits = ray.data.ExecutionResources(object_store_memory=_HELD * _cpus())
    context.enable_progress_bars = False
    context.execution_no_progress_timeout_s = -1  # a task may be a training of hours
    context.raise_original_map_exception = True
    with (
        ray.data.DataContext.current(context),
        # `max_retries` is deprecated from 2.64 on; without it Ray retries forever.
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
    """Runs the task on an item; a worker process enters each work once."""
    key = shared.hex()
    try:
        if key not in _TASK:
            _TASK.clear()
            _LEAVING.close()
            parts, packed, folder = ray.get(shared)
            # Relative paths belong to the command line's folder; if it is absent, none may resolve.
            os.chdir(folder if os.path.isdir(folder) else os.sep)
            OwnParts(*parts).load()  # before work and items, which may be of their classes
            work, task = pickle.loads(packed)
            _TASK[key] = partial(task, _LEAVING.enter_context(work()))
        return _TASK[key](item)
    except (PipelineError, OSError) as error:  # Ray Data would extend its message
        return _Failed(error)


def _block_size(batches: int) -> int:
    """Batches per task, a power of two: enough to pay for a task, few enough to use every CPU."""
    share = batches // (_TASKS * _cpus())
    return 1 << (min(max(share, 1), _LARGEST_BLOCK).bit_length() - 1)


def _cpus() -> int:
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
