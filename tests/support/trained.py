"""What training makes of one small model, for a process that runs another backend.

KERAS_BACKEND=tensorflow python -m tests.support.trained FILE.npz
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from recsys_attn.optimizers import LazyAdagrad, LazyAdam, RowWiseAdagrad, Split, WarmUp
from tests.support.backends import environment
from tests.support.optimizers import fit, model

ROOT = Path(__file__).parents[2]
MAKERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "LazyAdagrad": lambda: LazyAdagrad(0.1, clipvalue=0.01),
    "RowWiseAdagrad": lambda: RowWiseAdagrad(0.1, weight_decay=0.3),
    "Split": lambda: Split(
        LazyAdam(WarmUp(0.03, 3), weight_decay=0.3),
        keras.optimizers.AdamW(0.01),
        global_clipnorm=0.1,
    ),
}


def weights(name: str) -> dict[str, np.ndarray]:
    """After `fit`, and once more with frozen tables and the same optimizer.

    The first weights do not depend on the backend's random numbers.
    """
    trained = model()
    rng = np.random.default_rng(5)
    trained.set_weights([rng.normal(size=w.shape) * 0.3 for w in trained.get_weights()])
    optimizer = MAKERS[name]()
    trained.compile(optimizer, "mse")
    fit(trained)
    trained.embedding.trainable = False
    trained.compile(optimizer, "mse")
    return {f"{name}/{index}": array for index, array in enumerate(fit(trained, epochs=1))}


def on(backend: str, path: Path) -> dict[str, np.ndarray]:
    """The weights of all optimizers, from a process of its own."""
    command = [sys.executable, "-m", __name__, str(path)]
    subprocess.run(command, check=True, cwd=ROOT, env=environment(backend), capture_output=True)
    with np.load(path) as found:
        return dict(found)


if __name__ == "__main__":
    np.savez(sys.argv[1], **{k: v for name in MAKERS for k, v in weights(name).items()})
