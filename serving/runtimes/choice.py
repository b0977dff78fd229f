"""Which runtime computes a version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from serving.runtimes.base import Runtime
from serving.runtimes.onnx_runtime import OnnxRuntime, is_installed
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.session import TensorFlowSession

TENSORFLOW = "tensorflow"
ONNX = "onnx"
AUTO = "auto"


@dataclass(frozen=True)
class RuntimeChoice:
    """What computes, and with how many threads.

    Args:
        runtime: `tensorflow`, `onnx`, or `auto`: the faster of the two.
        compile_after: Seconds that a shape of an export of this project has taken to compute in
            TensorFlow, after which XLA compiles it where it has lists; 0: never. It takes about
            one.
        intra_op_threads: Threads that one operation is spread over; 0 for all cores. One makes a
            call cheapest, all make a large one fastest where few come at once.
        inter_op_threads: Operations that run at once in TensorFlow; 0 for as many as cores.
        cache_folder: Where converted models are kept; None converts at every load.
    """

    runtime: str = TENSORFLOW
    compile_after: float = 2.0
    intra_op_threads: int = 0
    inter_op_threads: int = 0
    cache_folder: Path | None = None


def load_runtime(path: Path, choice: RuntimeChoice) -> Runtime:
    """The runtime of a SavedModel folder.

    Raises:
        FailedPrecondition: ONNX Runtime is asked for and not installed; `auto` goes without it.
    """
    tensorflow = TensorFlowSession(
        path,
        intra_op_threads=choice.intra_op_threads,
        inter_op_threads=choice.inter_op_threads,
    )
    if choice.runtime == TENSORFLOW or (choice.runtime == AUTO and not is_installed()):
        if choice.compile_after and saved_model.is_ours(path):
            return CompiledRuntime(path, tensorflow, choice.compile_after)
        return tensorflow
    try:
        return OnnxRuntime(
            path,
            tensorflow,
            threads=choice.intra_op_threads,
            cache_folder=choice.cache_folder,
            faster_only=choice.runtime == AUTO,
        )
    except BaseException:
        tensorflow.close()
        raise
