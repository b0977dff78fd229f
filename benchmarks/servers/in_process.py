"""The model without a server: called by one thread, in TensorFlow's own way and in ours.

    python -m benchmarks.servers.in_process FOLDER

FOLDER is that of `subjects`. For each line of the standard input, such as
`["our runtime", "din", 200, 0.5]`, it computes the model's requests of that size, which it has
decoded before, for so many seconds, and prints the seconds that each took, and those of the
processor for all, as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import predict_pb2

from benchmarks.servers.tables import IN_PROCESS, RUNTIME
from serving.encoding.codec import decode
from serving.runtimes.load import RuntimeOptions, load_runtime

TIMEOUT = 60.0
Inputs = dict[str, np.ndarray]
Work = Callable[[], object]
Compute = Callable[[str, Inputs], object]


def of_tensorflow(version: Path) -> Compute:
    """The signatures as TensorFlow loads them, from arrays to arrays."""
    signatures = tf.saved_model.load(version).signatures

    def compute(key: str, inputs: Inputs) -> object:
        outputs = signatures[key](**{name: tf.constant(array) for name, array in inputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    return compute


def of_runtime(version: Path) -> Compute:
    """The signatures in what our server computes them with."""
    runtime = load_runtime(version, RuntimeOptions())

    def compute(key: str, inputs: Inputs) -> object:
        return runtime.run(key, inputs, tuple(runtime.definitions[key].outputs), TIMEOUT)

    return compute


WAYS = {IN_PROCESS: of_tensorflow, RUNTIME: of_runtime}


def works(compute: Compute, folder: Path) -> list[Work]:
    """The computations of the requests in a folder."""
    works: list[Work] = []
    for path in sorted(folder.glob("rank-*")):
        request = predict_pb2.PredictRequest.FromString(path.read_bytes())
        inputs = {name: decode(name, proto) for name, proto in request.inputs.items()}
        works.append(partial(compute, request.model_spec.signature_name, inputs))
    return works


def measure(work: list[Work], seconds: float) -> tuple[list[float], float]:
    """Seconds of each computation, and the processor's for all."""
    for one in work:
        one()
    times: list[float] = []
    begin, processor = time.perf_counter(), time.process_time()
    for one in itertools.cycle(work):
        start = time.perf_counter()
        one()
        end = time.perf_counter()
        times.append(end - start)
        if end - begin >= seconds:
            break
    return times, time.process_time() - processor


def main() -> None:
    """Answers line by line."""
    folder = Path(sys.argv[1])
    loaded: dict[tuple[str, str], Compute] = {}
    for line in sys.stdin:
        way, name, candidates, seconds = json.loads(line)
        if (way, name) not in loaded:
            loaded[way, name] = WAYS[way](folder / "models" / name / "1")
        work = works(loaded[way, name], folder / "requests" / name / str(candidates))
        print(json.dumps(measure(work, seconds)), flush=True)


if __name__ == "__main__":
    main()
