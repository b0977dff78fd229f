"""Exports that are read by a process that has seen nothing of what made them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.support.layer_case import LayerCase, outputs_of, randomise

_SERVE = """
import pathlib, sys
import numpy as np
import tensorflow as tf

for export in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    served = tf.saved_model.load(str(export / "model")).signatures["serving_default"]
    for path in sorted(export.glob("inputs_*.npz")):
        inputs = np.load(path)
        outputs = served(**{name: tf.constant(inputs[name]) for name in inputs.files})
        output = path.with_name(path.name.replace("inputs", "output")).with_suffix(".npy")
        np.save(output, outputs[sorted(outputs)[0]].numpy())
"""


BATCHES = (1, 3, 5)


def export_all(cases: Mapping[str, LayerCase], folder: Path) -> dict[str, list[np.ndarray]]:
    """Exports each layer with inputs of several batch sizes; its outputs in this process."""
    expected: dict[str, list[np.ndarray]] = {}
    for index, (name, case) in enumerate(cases.items()):
        model = case.model()
        randomise(model)
        export = folder / f"{index:03d}"
        model.export(export / "model", verbose=False)
        (export / "name").write_text(name, encoding="utf-8")
        expected[name] = []
        for rows in BATCHES:
            arrays = case.arrays(seed=rows, B=rows)
            np.savez(export / f"inputs_{rows}.npz", **arrays)
            expected[name].append(outputs_of(model, {"inputs": arrays})["0"])
    return expected


def serve_all(folder: Path) -> dict[str, list[np.ndarray]]:
    """What another process, with TensorFlow alone, makes of all exports."""
    subprocess.run(
        [sys.executable, "-c", _SERVE, str(folder)], check=True, cwd=folder, capture_output=True
    )
    return {
        (export / "name").read_text(encoding="utf-8"): [
            np.load(export / f"output_{rows}.npy") for rows in BATCHES
        ]
        for export in sorted(folder.iterdir())
    }
