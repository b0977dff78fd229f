"""Checks that every layer passes, each of a `LayerCase`.

A case says which layer, and by letters which shapes: `{"query": "BTE"}` is a query of
`SIZES["B"]` rows, and so on. All sizes are different primes, so that no axis can be taken for
another, and B, T and S are unknown to a graph.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

SIZES = {"B": 5, "T": 3, "S": 7, "N": 2, "H": 11, "V": 13, "F": 17, "E": 19}
UNKNOWN = "BTS"
ATOL = 1e-5

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class LayerCase:
    """A layer with its arguments, its inputs, and what padding may change.

    Args:
        layer: Its class.
        config: Its arguments.
        inputs: Shapes in letters of the float arguments of its call.
        masks: Shapes in letters of the boolean arguments of its call.
        hides: By mask, the input whose masked entries must reach no output.
        zeros: Masks that turn an output to zeros where they are False throughout.
        batched: Whether axis 0 of every input is the batch.
    """

    layer: type[keras.layers.Layer]
    config: dict[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=lambda: {"inputs": "BTE"})
    masks: Mapping[str, str] = field(default_factory=dict)
    hides: Mapping[str, str] = field(default_factory=dict)
    zeros: tuple[str, ...] = ()
    batched: bool = True

    def make(self, **kwargs: Any) -> keras.layers.Layer:
        return self.layer(**self.config, **kwargs)

    def arrays(self, seed: int = 0, **sizes: int) -> Arrays:
        """Random inputs and masks; every row has something to attend to."""
        rng = np.random.default_rng(seed)
        known = SIZES | sizes
        arrays = {
            name: rng.normal(size=[known[letter] for letter in shape]).astype("float32")
            for name, shape in self.inputs.items()
        }
        for name, shape in self.masks.items():
            arrays[name] = rng.random([known[letter] for letter in shape]) < 0.7
            arrays[name][..., 0] = True
        return arrays

    def symbols(self) -> dict[str, keras.KerasTensor]:
        shapes = {**self.inputs, **self.masks}
        return {
            name: keras.Input(
                batch_shape=[None if letter in UNKNOWN else SIZES[letter] for letter in shape],
                dtype="bool" if name in self.masks else "float32",
                name=name,
            )
            for name, shape in shapes.items()
        }

    def model(self, **kwargs: Any) -> keras.Model:
        symbols = self.symbols()
        return keras.Model(symbols, self.make(**kwargs)(**symbols))


def outputs_of(layer: keras.layers.Layer, arrays: Mapping[str, Any], **kwargs: Any) -> Arrays:
    """The outputs of one call by their index, as float32."""
    flat = keras.tree.flatten(layer(**arrays, **kwargs))
    numpy = [keras.ops.convert_to_numpy(keras.ops.cast(output, "float32")) for output in flat]
    return {str(index): output for index, output in enumerate(numpy)}


def assert_same(actual: Arrays, expected: Arrays, atol: float = ATOL) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=atol, err_msg=name)


def config_survives_building_and_json(case: LayerCase, folder: Path) -> None:
    layer = case.make(name="layer")
    before = layer.get_config()
    layer(**case.arrays())
    assert layer.get_config() == before
    revived = case.layer.from_config(json.loads(json.dumps(before)))
    assert json.dumps(revived.get_config()) == json.dumps(before)
    # Read from the config of a built layer, a layer builds itself and runs.
    outputs_of(case.layer.from_config(layer.get_config()), case.arrays())


def saved_model_loads(case: LayerCase, folder: Path) -> None:
    model = case.model()
    arrays = case.arrays()
    randomise(model)
    expected = outputs_of(model, {"inputs": arrays})
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    assert_same(outputs_of(loaded, {"inputs": arrays}), expected)


def training_step_changes_weights(case: LayerCase, folder: Path) -> None:
    symbols = case.symbols()
    output = keras.tree.flatten(case.make()(**symbols))[0]
    model = keras.Model(symbols, output)
    if not model.trainable_variables:
        return
    model.compile("sgd", "mse", jit_compile=None if keras.backend.backend() == "jax" else False)
    before = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    arrays = case.arrays()
    target = np.ones(outputs_of(model, {"inputs": arrays})["0"].shape, "float32")
    assert np.isfinite(model.train_on_batch(arrays, target))
    for weight, old in zip(model.trainable_variables, before, strict=True):
        new = keras.ops.convert_to_numpy(weight)
        assert np.isfinite(new).all(), weight.path
        # Logits under a softmax may all move alike without any effect.
        assert weight.path.endswith("bias") or not np.array_equal(new, old), weight.path


def symbolic_output_is_the_real_one(case: LayerCase, folder: Path) -> None:
    layer = case.make()
    spec = keras.tree.flatten(layer(**case.symbols()))
    actual = keras.tree.flatten(layer(**case.arrays()))
    assert len(spec) == len(actual)
    for symbol, tensor in zip(spec, actual, strict=True):
        assert keras.backend.standardize_dtype(tensor.dtype) == symbol.dtype
        known = [
            wanted if wanted is not None else size
            for wanted, size in zip(symbol.shape, tensor.shape, strict=True)
        ]
        assert tuple(tensor.shape) == tuple(known)


def mixed_precision_keeps_float32_weights(case: LayerCase, folder: Path) -> None:
    arrays = case.arrays()
    exact = case.make(name="exact")
    expected = outputs_of(exact, arrays)
    layer = case.make(name="mixed", dtype="mixed_bfloat16")
    layer(**arrays)
    layer.set_weights(exact.get_weights())
    for tensor in keras.tree.flatten(layer(**arrays)):
        assert keras.backend.standardize_dtype(tensor.dtype) == "bfloat16"
    assert {weight.dtype for weight in layer.weights} <= {"float32"}
    actual = outputs_of(layer, arrays)
    for name, value in expected.items():
        scale = np.abs(value).max() + 1e-3
        np.testing.assert_allclose(actual[name] / scale, value / scale, atol=0.06)


def rows_are_independent(case: LayerCase, folder: Path) -> None:
    if not case.batched:
        return
    layer, arrays = case.make(), case.arrays()
    together = outputs_of(layer, arrays)
    for row in range(SIZES["B"]):
        alone = outputs_of(layer, {name: array[row : row + 1] for name, array in arrays.items()})
        assert_same(alone, {name: output[row : row + 1] for name, output in together.items()})


def padding_reaches_no_output(case: LayerCase, folder: Path) -> None:
    layer, arrays = case.make(), case.arrays()
    expected = outputs_of(layer, arrays)
    for mask, hidden in case.hides.items():
        masked = np.broadcast_to(~arrays[mask], arrays[hidden].shape[: arrays[mask].ndim])
        assert masked.any()
        for shift in (1e3, -1e3):
            changed = arrays[hidden].copy()
            changed[masked] += shift
            assert_same(outputs_of(layer, {**arrays, hidden: changed}), expected)


def nothing_allowed_gives_zeros(case: LayerCase, folder: Path) -> None:
    layer, arrays = case.make(), case.arrays()
    for mask in case.zeros:
        nothing = {**arrays, mask: np.zeros_like(arrays[mask])}
        for output in outputs_of(layer, nothing).values():
            np.testing.assert_array_equal(output, 0)


def unknown_sizes_run_in_a_graph(case: LayerCase, folder: Path) -> None:
    tf = tensorflow()
    layer = case.make()
    expected = {rows: outputs_of(layer, case.arrays(**rows_of(rows))) for rows in (1, 2)}
    specs = {
        name: tf.TensorSpec(symbol.shape, symbol.dtype, name)
        for name, symbol in case.symbols().items()
    }
    graph = tf.function(lambda inputs: layer(**inputs), input_signature=[specs])
    for rows, outputs in expected.items():
        flat = keras.tree.flatten(graph(case.arrays(**rows_of(rows))))
        assert_same({str(i): output.numpy() for i, output in enumerate(flat)}, outputs)


def exported_model_serves_any_batch(case: LayerCase, folder: Path) -> None:
    tf = tensorflow()
    model = case.model()
    randomise(model)
    model.export(folder / "export", verbose=False)
    served = tf.saved_model.load(folder / "export").signatures["serving_default"]
    for rows in (1, 3, 5):
        arrays = case.arrays(seed=rows, B=rows)
        outputs = served(**{name: tf.constant(array) for name, array in arrays.items()})
        expected = outputs_of(model, {"inputs": arrays})
        actual = {str(i): outputs[name].numpy() for i, name in enumerate(sorted(outputs))}
        assert_same(actual, expected)


CHECKS: tuple[Callable[[LayerCase, Path], None], ...] = (
    config_survives_building_and_json,
    saved_model_loads,
    training_step_changes_weights,
    symbolic_output_is_the_real_one,
    mixed_precision_keeps_float32_weights,
    rows_are_independent,
    padding_reaches_no_output,
    nothing_allowed_gives_zeros,
    unknown_sizes_run_in_a_graph,
    exported_model_serves_any_batch,
)


def tensorflow() -> Any:
    """TensorFlow; the test is skipped where another backend runs."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only on the TensorFlow backend")
    return pytest.importorskip("tensorflow")


def rows_of(number: int) -> dict[str, int]:
    """Other sizes than those that a graph was traced with."""
    return {"B": number + 1, "T": number + 4, "S": number + 2}


def randomise(layer: keras.layers.Layer) -> None:
    """Weights that no initializer makes: a layer that loads none of them is found out."""
    rng = np.random.default_rng(1)
    layer.set_weights(
        [rng.uniform(0.1, 0.9, weight.shape).astype("float32") for weight in layer.weights]
    )
