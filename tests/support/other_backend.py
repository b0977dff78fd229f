"""What every composition computes on TensorFlow, for a process that runs another backend.

KERAS_BACKEND=tensorflow python -m tests.support.other_backend FILE.npz
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.support.backends import environment
from tests.support.compositions import COMPOSITIONS
from tests.support.layer_case import outputs_of, randomise

ROOT = Path(__file__).parents[2]


def output(name: str) -> np.ndarray:
    """Of a composition with weights and inputs that depend on nothing but its name."""
    case = COMPOSITIONS[name].case
    layer, arrays = case.make(), case.arrays()
    layer(**arrays)
    randomise(layer)
    return outputs_of(layer, arrays)["0"]


def on_tensorflow(folder: Path) -> None:
    """Writes the outputs of all compositions to `outputs.npz`, in a process of its own."""
    command = [sys.executable, "-m", __name__, str(folder / "outputs.npz")]
    subprocess.run(
        command, check=True, cwd=ROOT, env=environment("tensorflow"), capture_output=True
    )


if __name__ == "__main__":
    np.savez(sys.argv[1], **{name: output(name) for name in COMPOSITIONS})
