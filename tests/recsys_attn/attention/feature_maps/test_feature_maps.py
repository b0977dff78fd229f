"""Feature maps are what their papers say, on average where they are random."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import Attention, feature_maps
from recsys_attn.attention.mechanisms import Dense, Linear
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow
from tests.support.refusals import refusals

B, T, S, N, H = 2, 3, 5, 7, 11
RNG = np.random.default_rng(0)
QUERY, KEY = (RNG.normal(size=(B, size, N, H)).astype("float32") for size in (T, S))
KEY_MASK = np.array([[True, True, False, True, False], [False, True, True, True, True]])
NAMES = ("elu", "favor", "fourier", "softmax", "taylor")


def numpy(x: Any) -> np.ndarray:
    return np.array(ops.convert_to_numpy(x))


def built(layer: feature_maps.FeatureMap, size: int = H) -> Any:
    layer.build((None, None, N, size), (None, None, N, size))
    return layer


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_features_are_float32_and_zero_for_padding(name: str, streaming: bool) -> None:
    layer = feature_maps.get(name, dtype="mixed_bfloat16")
    query, key = layer(QUERY, KEY, key_mask=KEY_MASK, streaming=streaming)
    features = layer.count(H)
    assert query.shape == (B, N, T, features)
    assert key.shape == (B, N, S, features)
    for tensor in (query, key):
        assert keras.backend.standardize_dtype(tensor.dtype) == "float32"
    padding = np.broadcast_to(~KEY_MASK[:, None, :, None], key.shape)
    np.testing.assert_array_equal(numpy(key)[padding], 0)
    symbols = layer(keras.Input((T, N, H)), keras.Input((S, N, H)), streaming=streaming)
    assert [symbol.shape[1:] for symbol in symbols] == [query.shape[1:], key.shape[1:]]


@pytest.mark.parametrize("name", NAMES)
def test_streaming_features_of_a_key_depend_on_it_alone(name: str) -> None:
    layer = built(feature_maps.get(name))
    together = numpy(layer.map_key(KEY, streaming=True))
    changed = KEY.copy()
    changed[:, 2:] *= 1e3
    after = numpy(layer.map_key(changed, streaming=True))
    np.testing.assert_array_equal(after[:, :, :2], together[:, :, :2])


@pytest.mark.parametrize("name", ["softmax", "taylor", "elu"])
def test_rows_of_the_implied_weights_sum_to_one(name: str) -> None:
    identity = np.broadcast_to(np.eye(S, dtype="float32")[None, :, None], (B, S, N, S))
    weights = numpy(Linear(name)(QUERY, KEY, identity, key_mask=KEY_MASK)[0])
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)
    assert weights.min() >= 0
    hidden = np.broadcast_to(~KEY_MASK[:, None, None], weights.shape)
    np.testing.assert_array_equal(weights[hidden], 0)


def similarities(layer: Any, query: np.ndarray, key: np.ndarray, draws: int) -> np.ndarray:
    """Estimates by several draws: (draws, B, N, T, S)."""
    estimates = []
    for _ in range(draws):
        layer.redraw()
        # As keys both, since the features of queries are relative to their maximum.
        first, second = (numpy(layer.map_key(x, streaming=True)) for x in (query, key))
        estimates.append(np.einsum("bntm,bnsm->bnts", first, second))
    return np.array(estimates)


@pytest.mark.parametrize("orthogonal", [False, True])
def test_favor_estimates_the_exponential_of_the_scaled_dot(orthogonal: bool) -> None:
    # All positive: random vectors that are not symmetric about zero are found out.
    query, key = 0.4 * np.abs(QUERY[:1]), 0.4 * np.abs(KEY[:1])
    layer = built(feature_maps.Favor(2048, orthogonal=orthogonal))
    mean = similarities(layer, query, key, draws=30).mean(0) / 2048
    exact = np.exp(np.einsum("btnh,bsnh->bnts", query, key) / np.sqrt(H))
    np.testing.assert_allclose(mean, exact, rtol=0.08)


@pytest.mark.parametrize("sigma", [1.0, 2.0])
def test_fourier_estimates_the_gaussian_kernel_of_unit_vectors(sigma: float) -> None:
    layer = built(feature_maps.Fourier(1024, sigma=sigma))
    mean = similarities(layer, QUERY[:1], KEY[:1], draws=20).mean(0)
    query, key = (x[:1] / np.linalg.norm(x[:1], axis=-1, keepdims=True) for x in (QUERY, KEY))
    squared = np.square(query[:, :, None] - key[:, None]).sum(-1)  # (1, T, S, N)
    exact = np.exp(-squared / (2 * sigma**2)).transpose(0, 3, 1, 2)
    np.testing.assert_allclose(mean, exact, atol=0.02)


def test_many_fourier_features_approach_cosine_softmax() -> None:
    value = RNG.normal(size=(B, S, N, 2)).astype("float32")
    exact, _ = Dense({"class_name": "cosine", "config": {"temperature": 1.0}})(QUERY, KEY, value)
    output, _ = Linear(feature_maps.Fourier(2048))(QUERY, KEY, value)
    np.testing.assert_allclose(output, exact, atol=0.1)


def test_orthogonal_vectors_err_less() -> None:
    query, key = 0.3 * QUERY, 0.3 * KEY
    variances = [
        similarities(built(feature_maps.Favor(4 * H, **options)), query, key, draws=60).var(0)
        for options in ({"orthogonal": False}, {}, {"regularized": True})
    ]
    independent, orthogonal, regularized = (variance.mean() for variance in variances)
    assert regularized < orthogonal < independent


@pytest.mark.parametrize("regularized", [False, True])
def test_projections_are_orthogonal_in_groups(regularized: bool) -> None:
    vectors = numpy(built(feature_maps.Favor(3 * H - 2, regularized=regularized)).projection)
    assert vectors.shape == (H, 3 * H - 2)
    norms = np.linalg.norm(vectors, axis=0)
    for group in range(3):
        some = (vectors / norms)[:, group * H : (group + 1) * H]
        np.testing.assert_allclose(some.T @ some, np.eye(some.shape[1]), atol=1e-5)
    if regularized:
        np.testing.assert_allclose(norms, np.sqrt(H), rtol=1e-5)
    else:
        assert np.std(norms) > 0.2
        assert np.mean(norms**2) == pytest.approx(H, rel=0.4)


def trained(redraw_every: int | None) -> tuple[Any, Callable[[], None]]:
    """A random map in a model, and one step of its training."""
    feature_map = feature_maps.Favor(8, redraw_every=redraw_every)
    query, history = keras.Input((T, 4)), keras.Input((S, 4))
    output = keras.layers.Dense(1)(Attention(Linear(feature_map))(query, history))
    model = keras.Model([query, history], output)
    model.compile("sgd", "mse")
    arrays = [RNG.normal(size=(B, size, 4)).astype("float32") for size in (T, S)]

    def step() -> None:
        model.fit(arrays, np.ones((B, T, 1), "float32"), verbose=0)

    feature_map.predict = lambda: model.predict(arrays, verbose=0)
    return feature_map, step


def test_vectors_are_redrawn_every_few_steps_of_training() -> None:
    feature_map, step = trained(redraw_every=2)
    drawn = [numpy(feature_map.projection)]
    for _ in range(4):
        step()
        drawn.append(numpy(feature_map.projection))
    changed = [not np.array_equal(a, b) for a, b in itertools.pairwise(drawn)]
    assert changed == [False, True, False, True]
    directions = drawn[-1] / np.linalg.norm(drawn[-1], axis=0)
    np.testing.assert_allclose(directions[:, :4].T @ directions[:, :4], np.eye(4), atol=1e-5)


def test_vectors_are_kept_otherwise() -> None:
    feature_map, step = trained(redraw_every=None)
    before = numpy(feature_map.projection)
    step()
    np.testing.assert_array_equal(feature_map.projection, before)

    feature_map, step = trained(redraw_every=1)
    before, expected = numpy(feature_map.projection), feature_map.predict()
    np.testing.assert_array_equal(feature_map.predict(), expected)
    np.testing.assert_array_equal(feature_map.projection, before)
    feature_map.trainable = False
    step()
    np.testing.assert_array_equal(feature_map.projection, before)


def test_a_saved_model_holds_its_random_vectors(tmp_path: Path) -> None:
    tf = tensorflow()
    layer = Linear("favor")
    expected, _ = layer(QUERY, KEY, KEY)
    archive = keras.export.ExportArchive()
    archive.track(layer)
    archive.add_endpoint(
        "serve",
        lambda query, key: layer(query, key, key)[0],
        input_signature=[tf.TensorSpec(x.shape) for x in (QUERY, KEY)],
    )
    archive.write_out(tmp_path / "model", verbose=False)
    layer.feature_map.redraw()
    assert not np.allclose(layer(QUERY, KEY, KEY)[0], expected, atol=1e-5)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert_close(loaded.serve(QUERY, KEY), expected)


test_wrong_use_is_one_sentence = refusals(
    (lambda: feature_maps.get("favour"), "Did you mean 'favor'"),
    (lambda: feature_maps.Favor(0), "`features` must be a positive integer"),
    (lambda: feature_maps.Favor(redraw_every=0), "`redraw_every` must be a positive integer"),
    (lambda: feature_maps.Favor(kernel="gelu"), "`kernel` is not known. Valid names"),
    (lambda: feature_maps.Favor(orthogonal=False, regularized=True), "leave `orthogonal` True"),
    (
        lambda: feature_maps.Fourier(sigma=0),
        "`sigma` must be a finite number above 0. Received: sigma=0",
    ),
    (lambda: feature_maps.Elu()(QUERY, KEY[..., 1:]), "one head size H; project them to one"),
    (lambda: feature_maps.Elu()(QUERY[0], KEY), r"must have shapes \(B, T, N, H\)"),
)
