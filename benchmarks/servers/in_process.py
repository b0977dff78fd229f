"""The model without a server: the runtime that the server computes with, called by one thread.

    python -m benchmarks.servers.in_process FOLDER

FOLDER is that of `subjects`. For each line of the standard input, such as `["din", 200, 0.5]`,
it computes the model's requests of that size, which it has decoded before, for so many seconds,
and prints the seconds that each took, and those of the processor for all, as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tensorflow_serving.apis import predict_pb2

from serving.codec import decode
from serving.runtimes.base import Runtime
from serving.runtimes.choice import RuntimeChoice, load_runtime

TIMEOUT = 60.0
Work = Callable[[], object]


def works(runtime: Runtime, folder: Path) -> list[Work]:
    """The computations of the requests in a folder."""
    found: list[Work] = []
    for path in sorted(folder.glob("rank-*")):
        request = predict_pb2.PredictRequest.FromString(path.read_bytes())
        key = request.model_spec.signature_name
        inputs = {name: decode(name, proto) for name, proto in request.inputs.items()}
        outputs = tuple(runtime.definitions[key].outputs)
        found.append(partial(runtime.run, key, inputs, outputs, TIMEOUT))
    return found


def measure(work: list[Work], seconds: float) -> tuple[list[float], float]:
    """Seconds of each computation, and the processor's for all."""
    for one in work:
        one()
    taken: list[float] = []
    begin, processor = time.perf_counter(), time.process_time()
    for one in itertools.cycle(work):
        start = time.perf_counter()
        one()
        end = time.perf_counter()
        taken.append(end - start)
        if end - begin >= seconds:
            break
    return taken, time.process_time() - processor


def main() -> None:
    """Answers line by line."""
    folder = Path(sys.argv[1])
    models = {
        path.name: load_runtime(path / "1", RuntimeChoice())
        for path in (folder / "models").iterdir()
    }
    for line in sys.stdin:
        name, candidates, seconds = json.loads(line)
        work = works(models[name], folder / "requests" / name / str(candidates))
        print(json.dumps(measure(work, seconds)), flush=True)


if __name__ == "__main__":
    main()
