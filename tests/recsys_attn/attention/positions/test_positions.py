"""Positions that are added to events: their formulas, and what must not shift them."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention.positions import (
    POSITIONS,
    AxialPositions,
    CoordinatePositions,
    EventPositions,
    LearnedPositions,
    SinusoidalPositions,
)
from tests.support.layer_case import randomise
from tests.support.refusals import refusals

B, S, E = 3, 7, 10
RNG = np.random.default_rng(2)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
PRESENT = RNG.random((B, S)) < 0.6
PRESENT[0] = False


def waves(length: int, width: int, **config: Any) -> np.ndarray:
    return np.asarray(SinusoidalPositions(**config)(np.zeros((1, length, width), "float32")))[0]


@pytest.mark.parametrize("width", [1, 5, 8])
def test_sinusoids_equal_the_formula(width: int) -> None:
    interleaved, halves = np.zeros((9, width)), np.zeros((9, width))
    for p, i in np.ndindex(9, width):
        angle = p / 100 ** (2 * (i // 2) / width)
        interleaved[p, i] = np.cos(angle) if i % 2 else np.sin(angle)
        halves[p, i // 2 + (i % 2) * ((width + 1) // 2)] = interleaved[p, i]
    np.testing.assert_allclose(waves(9, width, base=100), interleaved, atol=1e-6)
    np.testing.assert_allclose(waves(9, width, base=100, interleaved=False), halves, atol=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
def test_products_of_sinusoids_depend_on_the_distance_only(interleaved: bool) -> None:
    table = waves(300, 16, interleaved=interleaved)
    products = table @ table.T
    for distance in (0, 1, 17, 299):
        np.testing.assert_allclose(
            np.diagonal(products, distance), products[0, distance], atol=1e-4
        )
    np.testing.assert_allclose(np.diagonal(products), 8, atol=1e-4)


def test_sinusoids_are_added_and_exact_in_bfloat16() -> None:
    np.testing.assert_allclose(
        SinusoidalPositions()(INPUTS), INPUTS + waves(S, E)[None], rtol=1e-5, atol=1e-6
    )
    mixed = SinusoidalPositions(dtype="mixed_bfloat16")(np.zeros((1, 400, 8), "float32"))
    assert keras.backend.standardize_dtype(mixed.dtype) == "bfloat16"
    mixed = keras.ops.convert_to_numpy(keras.ops.cast(mixed, "float32"))
    np.testing.assert_allclose(mixed[0], waves(400, 8), atol=0.01)


def learned(layer: EventPositions, present: np.ndarray | None, length: int) -> np.ndarray:
    """What is added to each event."""
    rows = 1 if present is None else len(present)
    return np.asarray(layer(np.zeros((rows, length, E), "float32"), present=present))


@pytest.mark.parametrize("from_end", [True, False])
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
def test_learned_positions_count_the_events(from_end: bool, masked: bool) -> None:
    layer = LearnedPositions(4, from_end=from_end)
    added = learned(layer, PRESENT if masked else None, S)
    (table,) = map(keras.ops.convert_to_numpy, layer.weights)
    present = PRESENT if masked else np.ones((1, S), bool)
    for b, s in np.argwhere(present):
        others = present[b, s + 1 :] if from_end else present[b, :s]
        np.testing.assert_allclose(added[b, s], table[min(others.sum(), 3)], atol=1e-6)


@pytest.mark.parametrize("from_end", [True, False])
@pytest.mark.parametrize("summed", [True, False], ids=["sum", "concatenation"])
def test_axial_positions_are_places_of_a_grid(from_end: bool, summed: bool) -> None:
    layer = AxialPositions((2, 3), sum=summed, from_end=from_end)
    added = learned(layer, PRESENT, S)
    rows, columns = map(keras.ops.convert_to_numpy, layer.weights)
    assert (rows.shape, columns.shape) == (((2, E), (3, E)) if summed else ((2, 5), (3, 5)))
    for b, s in np.argwhere(PRESENT):
        others = PRESENT[b, s + 1 :] if from_end else PRESENT[b, :s]
        row, column = divmod(min(others.sum(), 5), 3)
        vectors = [rows[row], columns[column]]
        expected = np.sum(vectors, axis=0) if summed else np.concatenate(vectors)
        np.testing.assert_allclose(added[b, s], expected, atol=1e-6)


@pytest.mark.parametrize("length", [1, 2, 7, 12, 4096])
def test_a_grid_has_a_place_for_each_event(length: int) -> None:
    rows, columns = AxialPositions().for_history(length).shape or (0, 0)
    assert length <= rows * columns < length + columns
    assert rows + columns <= 2 * length**0.5 + 2


@pytest.mark.parametrize("gaps", [True, False])
@pytest.mark.parametrize("from_end", [True, False])
def test_coordinates_are_channels_of_the_event(from_end: bool, gaps: bool) -> None:
    layer = CoordinatePositions(5, from_end=from_end, gaps=gaps)
    seconds = 1_700_000_000 + np.cumsum(RNG.integers(0, 99, size=(B, S)), axis=1).astype("int32")
    times = {"times": seconds} if gaps else {}
    start = keras.ops.convert_to_numpy(layer(INPUTS, **times)) - INPUTS
    assert 0 < np.abs(start).max() < 0.5  # the events as they are, and a small coordinate
    randomise(layer)
    weights = [keras.ops.convert_to_numpy(w).astype("float64") for w in layer.weights]
    found = keras.ops.convert_to_numpy(layer(INPUTS, present=PRESENT, **times))
    for b, s in np.argwhere(PRESENT):
        others = PRESENT[b, s + 1 :] if from_end else PRESENT[b, :s]
        place = min(others.sum(), 4) / 4  # 0 ... 1
        channels = [1 - 2 * place if from_end else 2 * place - 1]
        follows = s > 0 and PRESENT[b, s - 1]
        if gaps:
            channels.append(np.log(1 + seconds[b, s] - seconds[b, s - 1]) if follows else 0)
        event = np.concatenate([INPUTS[b, s].astype("float64"), channels])
        np.testing.assert_allclose(found[b, s], event @ np.vstack(weights), atol=1e-4)


@pytest.mark.parametrize("name", ["learned", "axial", "coordinates"])
def test_padding_does_not_shift_positions_from_the_end(name: str) -> None:
    layer = POSITIONS.get(name).for_history(9)
    short = learned(layer, None, 3)[0]
    layouts = np.array([[0, 0, 1, 1, 1], [1, 1, 1, 0, 0], [0, 1, 1, 1, 0], [1, 0, 1, 0, 1]], bool)
    for present, added in zip(layouts, learned(layer, layouts, 5), strict=True):
        np.testing.assert_array_equal(added[present], short)
    np.testing.assert_array_equal(learned(layer, None, 7)[0, -3:], short)


test_wrong_use_is_one_sentence = refusals(
    (lambda: CoordinatePositions(gaps=True)(INPUTS), "`times` are given with gaps=True"),
    (lambda: AxialPositions((2, 3, 4)), "`shape` must be two sizes"),
    (lambda: AxialPositions()(np.zeros((1, 2, 1))), "a width of at least 2"),
    (
        lambda: LearnedPositions()(keras.Input((None, 5))),
        "`length` must be given where the number of events S is not known",
    ),
    (lambda: LearnedPositions(0), "`length` must be a positive integer"),
    (lambda: LearnedPositions(3)(INPUTS[0]), r"must have shape \(B, S, E\)"),
    (
        lambda: LearnedPositions(3)(keras.Input((3, 5)), present=keras.Input((2,), dtype="bool")),
        r"`present` must have .*, \(None, 3\)\. Received: present.shape=\(None, 2\)",
    ),
    (lambda: SinusoidalPositions(base=1), "`base` must be a finite number above 1"),
    (lambda: SinusoidalPositions()(INPUTS[0]), r"must have shape \(B, S, E\)"),
)
test_times_are_integers = refusals(
    (
        lambda: CoordinatePositions(gaps=True)(INPUTS, times=np.zeros((B, S), "float32")),
        "`times` must be integers",
    ),
    error=TypeError,
)
