"""A layer under test, with its inputs by letters.

`{"query": "BTE"}` is a query of `SIZES["B"]` rows, and so on. All sizes are different primes, so
that no axis can be taken for another, and B, T and S are unknown to a graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
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
        hides: By mask, the input or inputs whose masked entries must reach no output.
        zeros: Masks that turn an output to zeros where they are False throughout.
        batched: Whether axis 0 of every input is the batch.
    """

    layer: type[keras.layers.Layer]
    config: dict[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, str] = field(default_factory=lambda: {"inputs": "BTE"})
    masks: Mapping[str, str] = field(default_factory=dict)
    hides: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    zeros: tuple[str, ...] = ()
    batched: bool = True

    def make(self, **kwargs: Any) -> keras.layers.Layer:
        return self.layer(**self.config, **kwargs)

    @cached_property
    def new(self) -> tuple[keras.layers.Layer, dict[str, Any]]:
        """The layer of `example` and its config before it is built."""
        layer = self.make(name="layer")
        return layer, layer.get_config()

    @cached_property
    def example(self) -> tuple[keras.layers.Layer, Arrays]:
        """A built layer and its outputs for `arrays()`, for checks that leave its weights alone."""
        layer, _ = self.new
        return layer, outputs_of(layer, self.arrays())

    @cached_property
    def graph(self) -> keras.Model:
        """The layer as a model of symbols, for checks that set all of its weights."""
        return self.model()

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

    def hidden(self) -> list[tuple[str, str]]:
        """A mask and an input that it hides, pair by pair."""
        return [
            (mask, name)
            for mask, names in self.hides.items()
            for name in ([names] if isinstance(names, str) else names)
        ]

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


def grouped(cases: Mapping[str, Any]) -> list[Any]:
    """Cases as parameters by their names; all checks of one run in one process of several.

    So that what a backend compiles for the shapes of a case is compiled once.
    """
    return [
        pytest.param(case, id=name, marks=pytest.mark.xdist_group(name))
        for name, case in cases.items()
    ]


def outputs_of(layer: keras.layers.Layer, arrays: Mapping[str, Any], **kwargs: Any) -> Arrays:
    """The outputs of one call by their index, as float32."""
    flat = keras.tree.flatten(layer(**arrays, **kwargs))
    numpy = [keras.ops.convert_to_numpy(keras.ops.cast(output, "float32")) for output in flat]
    return {str(index): output for index, output in enumerate(numpy)}


def assert_same(actual: Arrays, expected: Arrays, atol: float = ATOL) -> None:
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol=1e-4, atol=atol, err_msg=name)


def randomise(layer: keras.layers.Layer) -> None:
    """Weights that no initializer makes: a layer that loads none of them is found out."""
    rng = np.random.default_rng(1)
    layer.set_weights(
        [rng.uniform(0.1, 0.9, weight.shape).astype("float32") for weight in layer.weights]
    )


def tensorflow() -> Any:
    """TensorFlow; the test is skipped where another backend runs."""
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only on the TensorFlow backend")
    return pytest.importorskip("tensorflow")
