"""Exports that are read by a process that has seen nothing of what made them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from tests.support.layer_case import Arrays, LayerCase, outputs_of, randomise

# A graph is traced for unknown sizes: other batches than the weights were built with, then other
# lengths too.
OTHER_SIZES = ({"B": 1}, {"B": 2, "T": 5, "S": 3})

_SERVE = """
import pathlib, sys
import numpy as np
import tensorflow as tf

folder = pathlib.Path(sys.argv[1])
loaded = tf.saved_model.load(str(folder / "model"))
for path in sorted(folder.glob("inputs_*.npz")):
    arrays = np.load(path)
    inputs = {name: tf.constant(arrays[name]) for name in arrays.files}
    served = loaded.signatures[path.stem.split("_")[1]]
    outputs = served(**inputs)
    output = path.with_name(path.name.replace("inputs", "output"))
    np.savez(output, **{name: tensor.numpy() for name, tensor in outputs.items()})
"""


def export_all(cases: Mapping[str, LayerCase], folder: Path) -> dict[str, list[Arrays]]:
    """Exports every layer, all into one folder, with inputs of `OTHER_SIZES`.

    Returns:
        Their outputs in this process, outside a graph, by the layer's name and in that order.
    """
    module, endpoints = tf.Module(), {}
    module.kept = []
    expected: dict[str, list[Arrays]] = {}
    for index, (name, case) in enumerate(cases.items()):
        model = case.model()
        randomise(model)
        signature = {
            key: tf.TensorSpec(symbol.shape, symbol.dtype, key)
            for key, symbol in case.symbols().items()
        }
        # By its number: a signature names a node of the graph, and most names could not.
        function = tf.function(
            lambda inputs, model=model: {
                str(i): output for i, output in enumerate(tf.nest.flatten(model(inputs)))
            }
        )
        endpoints[f"layer{index}"] = function.get_concrete_function(signature)
        module.kept.append([variable.value for variable in model.variables])
        expected[name] = []
        for number, sizes in enumerate(OTHER_SIZES):
            arrays = case.arrays(seed=number, **sizes)
            np.savez(folder / f"inputs_layer{index}_{number}.npz", **arrays)
            expected[name].append(outputs_of(model, {"inputs": arrays}))
    # Not by Keras' archive, which traces every layer twice.
    tf.saved_model.save(module, str(folder / "model"), endpoints)
    return expected


def serve_all(cases: Mapping[str, LayerCase], folder: Path) -> dict[str, list[Arrays]]:
    """What another process, with TensorFlow alone, makes of all exports."""
    subprocess.run(
        [sys.executable, "-c", _SERVE, str(folder)], check=True, cwd=folder, capture_output=True
    )
    return {
        name: [
            dict(np.load(folder / f"output_layer{index}_{number}.npz"))
            for number in range(len(OTHER_SIZES))
        ]
        for index, name in enumerate(cases)
    }
