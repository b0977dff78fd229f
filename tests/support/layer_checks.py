"""Checks that every layer passes, each of a `LayerCase`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path

import keras
import numpy as np

from tests.support.layer_case import (
    SIZES,
    LayerCase,
    assert_same,
    outputs_of,
    randomise,
    tensorflow,
)


def config_survives_building_and_json(case: LayerCase, folder: Path) -> None:
    (_, before), (layer, _) = case.new, case.example
    assert layer.get_config() == before
    revived = case.layer.from_config(json.loads(json.dumps(before)))
    assert json.dumps(revived.get_config()) == json.dumps(before)
    # Read from the config of a built layer, a layer builds itself and runs.
    outputs_of(case.layer.from_config(layer.get_config()), case.arrays())


def every_part_is_built(case: LayerCase, folder: Path) -> None:
    """What no call reaches has no use, and `quantize` of Keras refuses it."""
    layer, _ = case.example
    assert [part.path for part in layer._flatten_layers() if not part.built] == []


def saved_model_loads(case: LayerCase, folder: Path) -> None:
    model, arrays = case.graph, case.arrays()
    randomise(model)
    expected = outputs_of(model, {"inputs": arrays})
    model.save(folder / "model.keras")
    loaded = keras.saving.load_model(folder / "model.keras")
    assert_same(outputs_of(loaded, {"inputs": arrays}), expected)


def training_step_changes_weights(case: LayerCase, folder: Path) -> None:
    (layer, _), whole = case.example, case.graph
    model = keras.Model(whole.input, keras.tree.flatten(whole.output))
    if not model.trainable_variables:
        return
    whole.set_weights(layer.get_weights())
    # Tracing a graph takes TensorFlow longer than one step; JAX is slow without.
    model.compile("sgd", "mse", run_eagerly=keras.backend.backend() == "tensorflow")
    before = [keras.ops.convert_to_numpy(weight) for weight in model.trainable_variables]
    arrays = case.arrays()
    # Not a constant, which a layer normalisation at the end could only meet with its bias.
    outputs = outputs_of(model, {"inputs": arrays}).values()
    rng = np.random.default_rng(2)
    targets = [rng.normal(size=output.shape).astype("float32") for output in outputs]
    assert np.isfinite(model.train_on_batch(arrays, targets)).all()
    for weight, old in zip(model.trainable_variables, before, strict=True):
        new = keras.ops.convert_to_numpy(weight)
        assert np.isfinite(new).all(), weight.path
        # Logits under a softmax may all move alike without any effect.
        assert weight.path.endswith("bias") or not np.array_equal(new, old), weight.path


def symbolic_output_is_the_real_one(case: LayerCase, folder: Path) -> None:
    spec = keras.tree.flatten(case.graph.output)
    actual = keras.tree.flatten(case.example[0](**case.arrays()))
    assert len(spec) == len(actual)
    for symbol, tensor in zip(spec, actual, strict=True):
        assert keras.backend.standardize_dtype(tensor.dtype) == symbol.dtype
        known = [
            wanted if wanted is not None else size
            for wanted, size in zip(symbol.shape, tensor.shape, strict=True)
        ]
        assert tuple(tensor.shape) == tuple(known)


def shapes_are_computed(case: LayerCase, folder: Path) -> None:
    """From those of the inputs alone, as `TimeDistributed` asks for them."""
    layer, given = case.example[0], {name: x.shape for name, x in case.symbols().items()}
    names = inspect.signature(layer.compute_output_shape).parameters
    if "kwargs" in names:
        shapes = layer.compute_output_shape(**{f"{n}_shape": shape for n, shape in given.items()})
    else:  # without masks, which it does not need
        inputs = [given[name] for name in case.inputs]
        shapes = layer.compute_output_shape(*inputs[: len(names)])
    assert repr(shapes) == repr(
        keras.tree.map_structure(lambda x: x if x is None else tuple(x.shape), case.graph.output)
    )


def mixed_precision_keeps_float32_weights(case: LayerCase, folder: Path) -> None:
    (exact, expected), arrays = case.example, case.arrays()
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
    (layer, together), arrays = case.example, case.arrays()
    others = case.arrays(seed=1)
    for row in (0, SIZES["B"] - 1):
        one = slice(row, row + 1)
        expected = {name: output[one] for name, output in together.items()}
        # JAX compiles every operation for every shape: there, other rows stand beside this one.
        if keras.backend.backend() == "jax":
            replaced = {name: array.copy() for name, array in others.items()}
            for name, array in replaced.items():
                array[one] = arrays[name][one]
            outputs = outputs_of(layer, replaced)
            assert_same({name: output[one] for name, output in outputs.items()}, expected)
        else:
            alone = {name: array[one] for name, array in arrays.items()}
            assert_same(outputs_of(layer, alone), expected)


def padding_reaches_no_output(case: LayerCase, folder: Path) -> None:
    (layer, expected), arrays = case.example, case.arrays()
    rng = np.random.default_rng(2)
    for mask, hidden in case.hidden():
        masked = np.broadcast_to(~arrays[mask], arrays[hidden].shape[: arrays[mask].ndim])
        assert masked.any()
        changed = arrays[hidden].copy()
        changed[masked] += rng.choice([-1e3, 1e3], size=changed[masked].shape)
        assert_same(outputs_of(layer, {**arrays, hidden: changed}), expected)


def nothing_allowed_gives_zeros(case: LayerCase, folder: Path) -> None:
    (layer, _), arrays = case.example, case.arrays()
    for mask in case.zeros:
        nothing = {**arrays, mask: np.zeros_like(arrays[mask])}
        for output in outputs_of(layer, nothing).values():
            np.testing.assert_array_equal(output, 0)


def padding_gets_no_gradient(case: LayerCase, folder: Path) -> None:
    tf = tensorflow()
    (layer, _), arrays = case.example, case.arrays()
    nothing = [{mask: np.zeros_like(arrays[mask])} for mask in case.hides]
    for masks in [{}, *nothing] if case.hides else []:
        inputs = {name: tf.constant(array) for name, array in {**arrays, **masks}.items()}
        with tf.GradientTape() as tape:
            watched = {hidden: inputs[hidden] for _, hidden in case.hidden()}
            tape.watch(watched)
            outputs = keras.tree.flatten(layer(**inputs))
            loss = sum(tf.reduce_sum(tf.square(output)) for output in outputs)
        gradients = tape.gradient(loss, watched, unconnected_gradients="zero")
        for mask, hidden in case.hidden():
            gradient, allowed = gradients[hidden].numpy(), inputs[mask].numpy()
            masked = np.broadcast_to(~allowed, gradient.shape[: allowed.ndim])
            np.testing.assert_array_equal(gradient[masked], 0)
            assert np.isfinite(gradient).all()


CHECKS: tuple[Callable[[LayerCase, Path], None], ...] = (
    config_survives_building_and_json,
    every_part_is_built,
    saved_model_loads,
    training_step_changes_weights,
    symbolic_output_is_the_real_one,
    shapes_are_computed,
    mixed_precision_keeps_float32_weights,
    rows_are_independent,
    padding_reaches_no_output,
    nothing_allowed_gives_zeros,
    padding_gets_no_gradient,
)

# What the options of a layer do not change: one case of a class is enough.
OF_CLASSES = (
    config_survives_building_and_json,
    saved_model_loads,
    symbolic_output_is_the_real_one,
    mixed_precision_keeps_float32_weights,
)
