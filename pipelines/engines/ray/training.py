"""Training in several workers on a Ray cluster, by Ray Train.

Ray Train finds the machines, tells each worker the addresses of all in TF_CONFIG and watches over
them. What a worker runs is `recsys-attn train`, the same process as started by hand.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import ray.train
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.engines.ray.board import Board, Order
from pipelines.engines.ray.cluster import ENVIRONMENT, connected, gone
from pipelines.engines.ray.worker import Job, MultiWorker, follow

_POLL = 0.2  # seconds
_START = 120  # seconds for the cluster to make room for the workers
_SETTINGS = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_START),
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # nothing here starts again by itself
}


def train(arguments: Sequence[str], workers: int, address: str, console: Console) -> None:
    """Runs `recsys-attn` with some arguments in several workers that train together.

    Args:
        arguments: Those of `recsys-attn train` by hand. Files must be where every worker finds
            them: on this machine, or on shared storage.
        workers: How many; each on a machine of its own while there are enough.
        address: The cluster, as of `connected`.
        console: Where the first worker's lines are printed.

    Raises:
        PipelineError: A worker has failed, or the cluster has no room.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    with connected(address), tempfile.TemporaryDirectory() as storage:
        scaling = _scaling(workers)
        board = ray.remote(num_cpus=0)(Board).remote(workers)
        run = ray.train.RunConfig(
            name="training",
            storage_path=storage,  # stays empty: checkpoints are in the run folder
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0, max_preemption_failures=0
            ),
            worker_runtime_env=ENVIRONMENT,
        )
        trainer = DataParallelTrainer(
            follow,
            train_loop_config={"job": Job(arguments, os.getcwd(), board)},
            backend_config=MultiWorker(),
            scaling_config=scaling,
            run_config=run,
        )
        _watch(trainer, board, workers, console)


def _scaling(workers: int) -> ray.train.ScalingConfig:
    """The workers, each with an equal share of the cluster's GPUs."""
    resources = ray.cluster_resources()
    if resources.get("CPU", 0) < workers:
        raise PipelineError(
            "--workers: expected at most one for each CPU of the Ray cluster, which has "
            f"{resources.get('CPU', 0):.0f}. Received: {workers}"
        )
    share = int(resources.get("GPU", 0)) // workers
    return ray.train.ScalingConfig(
        num_workers=workers,
        use_gpu=share > 0,
        resources_per_worker={"CPU": 1, "GPU": share} if share else {"CPU": 1},
        placement_strategy="SPREAD",
    )


def _watch(trainer: DataParallelTrainer, board: Any, workers: int, console: Console) -> None:
    """Trains in a thread, as Ray Train would take Ctrl-C for itself in the main one."""
    ended: Future[None] = Future()
    threading.Thread(target=_fit, args=(trainer, ended), daemon=True).start()
    try:
        _print(ended, board, console)
    except KeyboardInterrupt:
        if ray.get(board.order.remote(Order.STOP)):
            _print(ended, board, console)
        raise
    finally:
        board.order.remote(Order.END)
    failure = ray.get(board.news.remote()).failure
    if failure:
        raise PipelineError(failure)
    try:
        ended.result()
    except ray.train.ControllerError as error:
        if type(error.controller_failure).__name__ == "WorkerGroupStartupTimeoutError":
            raise PipelineError(
                f"The Ray cluster has found no room for {workers} workers in {_START} seconds: its "
                "CPUs or GPUs are in use, or no machine has enough of them. Take fewer --workers."
            ) from None
        raise gone(error.controller_failure) from error
    except ray.train.WorkerGroupError as error:
        raise gone(next(iter(error.worker_failures.values()))) from error


def _fit(trainer: DataParallelTrainer, ended: Future[None]) -> None:
    try:
        trainer.fit()
        ended.set_result(None)
    except Exception as error:
        ended.set_exception(error)


def _print(ended: Future[None], board: Any, console: Console) -> None:
    """Prints the first worker's lines until the training has ended."""
    last = False
    while not last:
        last = ended.done()
        console.print(ray.get(board.news.remote()).printed, end="", markup=False, soft_wrap=True)
        time.sleep(0 if last else _POLL)
