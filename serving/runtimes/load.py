"""Loads the runtime of a version: TensorFlow, with XLA for exports of this project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from serving.runtimes.base import Runtime
from serving.runtimes.tensorflow import saved_model
from serving.runtimes.tensorflow.compiled import CompiledRuntime
from serving.runtimes.tensorflow.padding import rank_padding
from serving.runtimes.tensorflow.session import TensorFlowSession


@dataclass(frozen=True)
class RuntimeOptions:
    """Threads of a runtime, and when it compiles.

    Args:
        compile_after: Seconds that requests of one shape have taken in TensorFlow before XLA
            compiles that shape, in exports of this project. Defaults to 2, since XLA takes about
            one; 0 never compiles.
        intra_op_threads: Threads of one operation; 0 for all cores. One thread costs the least
            processor time, all threads make a single large request fastest.
        inter_op_threads: Operations that TensorFlow computes at once; 0 for as many as cores.
    """

    compile_after: float = 2.0
    intra_op_threads: int = 0
    inter_op_threads: int = 0


def load_runtime(path: Path, options: RuntimeOptions) -> Runtime:
    """Loads a SavedModel folder.

    Raises:
        ServingError: The folder holds no SavedModel that can be loaded.
    """
    tensorflow = TensorFlowSession(
        path,
        intra_op_threads=options.intra_op_threads,
        inter_op_threads=options.inter_op_threads,
    )
    padding = rank_padding(tensorflow.definitions) if saved_model.is_ours(path) else None
    if options.compile_after and padding is not None and padding.takes_lists:
        return CompiledRuntime(path, tensorflow, padding, options.compile_after)
    return tensorflow
