"""Trains a DIN on JAX, alone or as one of two processes that share each batch.

KERAS_BACKEND=jax python -m tests.support.jax_workers FILE.npz [PORT INDEX]
"""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from recsys_attn.models import RankingModel, din
from recsys_attn.optimizers import LazyAdam
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.backends import environment

ROOT = Path(__file__).parents[2]
BATCH, STEPS, WORKERS = 6, 5, 2


def in_processes(folder: Path) -> list[dict[str, np.ndarray]]:
    """What a process alone ends with, and what each of the workers does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    arguments = [[], *([port, str(index)] for index in range(WORKERS))]
    files = [str(folder / f"{number}.npz") for number in range(len(arguments))]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, file, *rest],
            cwd=ROOT,
            env=environment("jax"),
            stderr=subprocess.PIPE,
            text=True,
        )
        for file, rest in zip(files, arguments, strict=True)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
    return [dict(np.load(file)) for file in files]


def model() -> RankingModel:
    """With Dice, whose averages are over a batch, and dropout."""
    features = (
        Categorical("item", size=23),
        Categorical("user", "context", size=11),
        Sequence("seen", shares="item"),
    )
    return din(
        Schema(features, (Task("click"), Task("buy"))),
        width=4,
        target_attention={"class_name": "din", "config": {"units": [3]}},
        mlp_units=(5,),
        dropout=0.1,
    )


def data() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs and labels of all steps."""
    rng = np.random.default_rng(3)
    rows = STEPS * BATCH
    inputs = {
        "item": rng.integers(0, 23, (rows, 3)),
        "user": rng.integers(0, 11, rows),
        "seen": rng.integers(0, 23, (rows, 5)),
    }
    return inputs, {t: rng.integers(0, 2, (rows, 3)).astype("float32") for t in ("click", "buy")}


def part(array: np.ndarray, index: int) -> np.ndarray:
    """A worker's rows of each batch."""
    batches = array.reshape(STEPS, WORKERS, BATCH // WORKERS, *array.shape[1:])
    return batches[:, index].reshape(-1, *array.shape[1:])


def train(index: int | None) -> dict[str, np.ndarray]:
    """Losses, weights and the optimizer's state after two epochs."""
    batch = BATCH if index is None else BATCH // WORKERS
    inputs, labels = data()
    if index is not None:
        inputs, labels = ({k: part(x, index) for k, x in d.items()} for d in (inputs, labels))
    keras.utils.set_random_seed(2)
    trained = model()
    trained.compile(LazyAdam(0.03, clipnorm=0.1), keras.losses.BinaryCrossentropy(from_logits=True))
    done = trained.fit(inputs, labels, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    variables = (*trained.variables, *trained.optimizer.variables)
    found = {v.path: keras.ops.convert_to_numpy(v) for v in variables}
    return {"losses": np.array(done.history["loss"]), **found}


def main(file: str, port: str | None = None, index: str | None = None) -> None:
    if port is not None and index is not None:
        import jax

        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", WORKERS, int(index))
        distribution = keras.distribution.DataParallel(auto_shard_dataset=False)
        keras.distribution.set_distribution(distribution)
    np.savez(file, **{k.replace("/", "."): x for k, x in train(index and int(index)).items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
