"""How fast this machine multiplies matrices: operations a second by precision.

python -m benchmarks.peers.peak tensorflow|jax|torch

A processor without instructions for bfloat16 can take minutes for one product: where a small one
shows that, the precision is skipped, and its number is null.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

ROUNDS = 12
TRIAL = 4  # the trial's matrices are so many times smaller
LIMIT = 2.0  # seconds that a product may take, by its trial; 0.1 is usual in float32
Product = Callable[[], object]


def of_tensorflow(dtype: str, part: int = 1) -> tuple[Product, bool]:
    import tensorflow as tf

    gpu = bool(tf.config.list_physical_devices("GPU"))
    tf.config.experimental.enable_tensor_float_32_execution(False)
    x = tf.cast(tf.random.stateless_normal((size(gpu) // part,) * 2, seed=(0, 0)), dtype)
    run = tf.function(lambda: tf.reduce_max(tf.matmul(x, x)))
    return lambda: run().numpy(), gpu


def of_jax(dtype: str, part: int = 1) -> tuple[Product, bool]:
    import jax

    gpu = jax.default_backend() != "cpu"
    jax.config.update("jax_default_matmul_precision", "float32")
    x = jax.random.normal(jax.random.key(0), (size(gpu) // part,) * 2, dtype)
    run = jax.jit(lambda x: x @ x)
    return lambda: run(x).block_until_ready(), gpu


def of_torch(dtype: str, part: int = 1) -> tuple[Product, bool]:
    import torch

    gpu = torch.cuda.is_available()
    device = "cuda" if gpu else "cpu"
    x = torch.randn((size(gpu) // part,) * 2, device=device).to(getattr(torch, dtype))

    def run() -> None:
        x @ x
        if gpu:
            torch.cuda.synchronize()

    return run, gpu


def size(gpu: bool) -> int:
    """Large enough to reach the peak and small enough for a processor."""
    return 8192 if gpu else 2048


def peak(make: Callable[[str, int], tuple[Product, bool]], dtype: str) -> float | None:
    """That of the fastest round; None where a product would take longer than `LIMIT`."""
    trial, _ = make(dtype, TRIAL)
    if fastest(trial, 2) * TRIAL**3 > LIMIT:  # the first round may compile
        return None
    run, gpu = make(dtype, 1)
    return 2 * size(gpu) ** 3 / fastest(run, ROUNDS)


def fastest(run: Product, rounds: int) -> float:
    """Seconds of the fastest round."""
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def main() -> None:
    """Prints one line of JSON."""
    make = {"tensorflow": of_tensorflow, "jax": of_jax, "torch": of_torch}[sys.argv[1]]
    print(json.dumps({name: peak(make, name) for name in ("float32", "bfloat16")}))


if __name__ == "__main__":
    main()
