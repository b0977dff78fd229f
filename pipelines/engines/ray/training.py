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
from pipelines.engines.ray.cluster import ENVIRONMENT, connected, lost_process
from pipelines.engines.ray.status_board import Command, StatusBoard
from pipelines.engines.ray.worker import TfConfigBackend, WorkerJob, run_worker

_POLL = 0.2  # seconds
_START = 120  # seconds to wait for free CPUs and GPUs
_SETTINGS = {
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": str(_START),
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1",
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",
}


def train(arguments: Sequence[str], workers: int, address: str, console: Console) -> None:
    """Runs `recsys-attn` with some arguments in several workers that train together.

    Args:
        arguments: Of `recsys-attn train`. Every worker must reach the files: on this machine,
            or on shared storage.
        workers: How many; spread over the machines of the cluster.
        address: Of the cluster; see `connected`.
        console: Prints the first worker's output.

    Raises:
        PipelineError: A worker failed, or the cluster has too few free CPUs or GPUs.
    """
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    with connected(address), tempfile.TemporaryDirectory() as storage:
        scaling = _scaling(workers)
        board = ray.remote(num_cpus=0)(StatusBoard).remote(workers)
        run = ray.train.RunConfig(
            name="training",
            storage_path=storage,  # stays empty: checkpoints are in the run folder
            failure_config=ray.train.FailureConfig(
                max_failures=0, controller_failure_limit=0, max_preemption_failures=0
            ),
            worker_runtime_env=ENVIRONMENT,
        )
        trainer = DataParallelTrainer(
            run_worker,
            train_loop_config={"job": WorkerJob(arguments, os.getcwd(), board)},
            backend_config=TfConfigBackend(),
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
    """Trains in a thread: in the main thread Ray Train would handle Ctrl-C itself."""
    ended: Future[None] = Future()
    threading.Thread(target=_fit, args=(trainer, ended), daemon=True).start()
    try:
        _print(ended, board, console)
    except KeyboardInterrupt:
        if ray.get(board.send.remote(Command.STOP)):
            _print(ended, board, console)
        raise
    finally:
        board.send.remote(Command.END)
    failure = ray.get(board.take_update.remote()).failure
    if failure:
        raise PipelineError(failure)
    try:
        ended.result()
    except ray.train.ControllerError as error:
        if type(error.controller_failure).__name__ == "WorkerGroupStartupTimeoutError":
            raise PipelineError(
                f"The Ray cluster has found no room for {workers} workers in {_START} seconds: its "
                "CPUs or GPUs are in use, or no machine has enough of them. Use fewer --workers."
            ) from None
        raise lost_process(error.controller_failure) from error
    except ray.train.WorkerGroupError as error:
        raise lost_process(next(iter(error.worker_failures.values()))) from error


def _fit(trainer: DataParallelTrainer, ended: Future[None]) -> None:
    try:
        trainer.fit()
        ended.set_result(None)
    except Exception as error:
        ended.set_exception(error)


def _print(ended: Future[None], board: Any, console: Console) -> None:
    """Prints the first worker's output until the training has ended."""
    last = False
    while not last:
        last = ended.done()
        console.print(
            ray.get(board.take_update.remote()).printed, end="", markup=False, soft_wrap=True
        )
        time.sleep(0 if last else _POLL)
