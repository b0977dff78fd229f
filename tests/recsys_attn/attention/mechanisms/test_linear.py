"""Linear attention equals its definition, and its causal, recurrent and chunked forms agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from keras import ops

from recsys_attn.attention import decays, feature_maps
from recsys_attn.attention.mechanisms import Dense, Linear
from tests.support.arrays import assert_close
from tests.support.layer_case import tensorflow
from tests.support.references import linear as reference
from tests.support.refusals import refusals

B, T, S, N, H, V = 2, 3, 11, 5, 7, 13
RNG = np.random.default_rng(0)
QUERY, KEY, VALUE, SELF = (
    RNG.normal(size=shape).astype("float32")
    for shape in ((B, T, N, H), (B, S, N, H), (B, S, N, V), (B, S, N, H))
)
KEY_MASK = RNG.random((B, S)) < 0.7
KEY_MASK[0, :3] = False  # nothing for the first queries, if causal
MAPS: dict[str, Callable[[], feature_maps.FeatureMap]] = {
    "elu": feature_maps.Elu,
    "softmax": feature_maps.Softmax,
    "favor": partial(feature_maps.Favor, 16),
    "favor_relu": partial(feature_maps.Favor, 16, "relu"),
    "fourier": partial(feature_maps.Fourier, 16, sigma=1.5),
    "taylor": feature_maps.Taylor,
}
RFA = {"class_name": "gate", "config": {"enters": True, "temperature": 1.0}}
FORGETFUL = {"temperature": 0.01}
every_map = pytest.mark.parametrize("make", MAPS.values(), ids=MAPS)


def features_of(layer: Any) -> reference.Features:
    match layer:
        case feature_maps.Elu():
            return reference.elu_plus_one
        case feature_maps.Taylor():
            return reference.taylor
    projection = ops.convert_to_numpy(layer.projection).astype("float64")
    match layer:
        case feature_maps.Favor(kernel="softmax"):
            return partial(reference.favor, projection=projection)
        case feature_maps.Favor():
            return partial(reference.favor_relu, projection=projection)
        case feature_maps.Fourier():
            return partial(reference.fourier, projection=projection, sigma=layer.sigma)
    raise TypeError(type(layer))


def run(layer: Linear, *inputs: np.ndarray, **masks: np.ndarray) -> np.ndarray:
    output, weights = layer(*inputs, **masks)
    assert weights is None
    return ops.convert_to_numpy(output)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("causal", [False, True], ids=["over a history", "causal"])
@every_map
def test_linear_equals_its_definition(make: Callable[[], Any], causal: bool, masked: bool) -> None:
    layer = Linear(make(), causal=causal, chunk=4)
    query = SELF if causal else QUERY
    actual = run(layer, query, KEY, VALUE, **({"key_mask": KEY_MASK} if masked else {}))
    allowed = np.ones((B, query.shape[1], S), bool) & (KEY_MASK[:, None] if masked else True)
    arrays = [array.astype("float64") for array in (query, KEY, VALUE)]
    allowed &= np.tri(S, dtype=bool) if causal else True
    if isinstance(layer.feature_map, feature_maps.Softmax):
        expected = reference.efficient_attention(*arrays, allowed)
    else:
        features = features_of(layer.feature_map)
        expected = reference.kernel_attention(*arrays, features, allowed, layer.feature_map.floor)
    # FAVOR's epsilon is the only difference, and largest beside small features.
    atol = 1e-3 if isinstance(layer.feature_map, feature_maps.Favor) else 1e-5
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=atol)
    if causal and masked:
        np.testing.assert_array_equal(actual[0, :3], 0)


def test_linear_equals_the_recurrence_of_its_paper() -> None:
    arrays = [array.astype("float64") for array in (SELF, KEY, VALUE)]
    expected = reference.recurrence(*arrays, reference.elu_plus_one)
    actual = run(Linear(causal=True, chunk=3), SELF, KEY, VALUE)
    assert_close(actual, expected)


LONG = 37  # more than two chunks
DECAYS: dict[str, Any] = {
    "fixed": "fixed",
    "a gate, RFA": RFA,
    "a gate": "gate",
    "a gate of each channel": {"class_name": "channel_gate", "config": {"temperature": 2.0}},
    "almost nothing left": {"class_name": "gate", "config": {"temperature": 0.01}},
}


def shares_of(decay: Any) -> Callable[[int, np.ndarray], np.ndarray]:
    """The equation of each decay, with weights of the layer."""
    weights = [ops.convert_to_numpy(weight).astype("float64") for weight in decay.weights]
    if isinstance(decay, decays.FixedDecay):
        return lambda n, key: np.array(1 - 2.0 ** (-5 - n))
    kernel, bias = weights

    def share(n: int, key: np.ndarray) -> np.ndarray:
        gate = 1 / (1 + np.exp(-(key @ kernel[n] + bias[n, 0])))
        return np.maximum(gate ** (1 / decay.temperature), np.exp(-5))

    return share


@pytest.mark.parametrize("masked", [False, True], ids=["free", "masked"])
@pytest.mark.parametrize("name", DECAYS)
def test_decay_equals_the_recurrence_of_its_paper(name: str, masked: bool) -> None:
    query, key, value = (
        RNG.normal(size=(B, LONG, N, size)).astype("float32") for size in (H, H, V)
    )
    mask = np.random.default_rng(2).random((B, LONG)) < (0.7 if masked else 2)
    mask[0, :3] &= not masked
    layer = Linear(causal=True, decay=DECAYS[name])
    layer.build(query.shape, key.shape, value.shape)
    rng = np.random.default_rng(3)
    if name != "fixed":
        layer.decay.set_weights([rng.normal(size=w.shape) for w in layer.decay.weights])
    actual = run(layer, query, key, value, **({"key_mask": mask} if masked else {}))
    arrays = [array.astype("float64") for array in (query, key, value)]
    share, enters = shares_of(layer.decay), layer.decay.enters
    expected = reference.decayed_recurrence(*arrays, reference.elu_plus_one, share, enters, mask)
    assert_close(actual, expected)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["elu", "softmax"])
def test_a_decay_that_leaves_everything_is_none(name: str, causal: bool) -> None:
    layer = Linear(name, causal=causal, decay="channel_gate")
    layer.build(SELF.shape, KEY.shape, VALUE.shape)
    kernel, bias = layer.decay.get_weights()
    layer.decay.set_weights([0 * kernel, 0 * bias + 100])
    expected = run(Linear(name, causal=causal), SELF, KEY, VALUE, key_mask=KEY_MASK)
    assert_close(run(layer, SELF, KEY, VALUE, key_mask=KEY_MASK), expected)


def test_a_decay_of_nearly_everything_stays_finite() -> None:
    tf = tensorflow()
    arrays = [tf.constant(10 * RNG.normal(size=(1, 67, 1, 64)), "float32") for _ in range(3)]
    layer = Linear(causal=True, decay={"class_name": "channel_gate", "config": FORGETFUL})
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        output, _ = layer(*arrays)
        loss = tf.reduce_sum(output**2)
    assert np.abs(output).max() < 100
    for gradient in tape.gradient(loss, [*arrays, *layer.trainable_weights]):
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("chunk", [1, 2, 10, S, 1000])
@pytest.mark.parametrize("name", ["elu", "softmax"])
def test_any_chunk_gives_the_same(name: str, chunk: int) -> None:
    expected = run(Linear(name, causal=True, chunk=4), SELF, KEY, VALUE, key_mask=KEY_MASK)
    actual = run(Linear(name, causal=True, chunk=chunk), SELF, KEY, VALUE, key_mask=KEY_MASK)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@every_map
def test_large_inputs_and_their_gradients_are_finite(make: Callable[[], Any], causal: bool) -> None:
    tf = tensorflow()
    arrays = [tf.constant(10 * RNG.normal(size=(1, 67, 1, 64)), "float32") for _ in range(3)]
    layer = Linear(make(), causal=causal, chunk=16)
    with tf.GradientTape() as tape:
        tape.watch(arrays)
        output, _ = layer(*arrays)
        loss = tf.reduce_sum(output**2)
    for tensor in (output, *tape.gradient(loss, arrays)):
        assert np.isfinite(tensor).all()
    assert np.abs(output).max() < 100  # an average of values, which are below 50


@pytest.mark.parametrize("regularized", [False, True])
def test_error_of_favor_falls_with_root_of_features(regularized: bool) -> None:
    rng = np.random.default_rng(1)
    query, key, value = (
        (scale * rng.normal(size=(1, 7, 2, 16))).astype("float32") for scale in (0.3, 0.3, 1)
    )
    exact, _ = Dense("scaled_dot")(query, key, value)
    counts, errors = [32, 256, 2048], []
    for count in counts:
        layer = Linear(feature_maps.Favor(count, regularized=regularized))
        layer.build(query.shape, key.shape, value.shape)
        draws = []
        for _ in range(12):
            layer.feature_map.redraw()
            draws.append(run(layer, query, key, value) - np.asarray(exact))
        errors.append(np.sqrt(np.mean(np.square(draws))))
    slope, _ = np.polyfit(np.log(counts), np.log(errors), 1)
    assert -0.6 < slope < -0.4, errors
    assert errors[-1] < 0.01


def test_causal_graph_fails_for_unequal_lengths() -> None:
    tf = tensorflow()
    layer = Linear(causal=True)
    unknown = [tf.TensorSpec((None, None, N, size)) for size in (H, H, V)]
    graph = tf.function(lambda *inputs: layer(*inputs)[0], input_signature=unknown)
    assert graph(SELF, KEY, VALUE).shape == (B, S, N, V)
    with pytest.raises(tf.errors.InvalidArgumentError):
        graph(QUERY, KEY, VALUE)


test_wrong_use_is_one_sentence = refusals(
    (lambda: Linear(chunk=0), "`chunk` must be a positive integer. Received: chunk=0"),
    (lambda: Linear("elo"), "Did you mean 'elu'"),
    (lambda: Linear(decay="fixd"), "Expected a decay .*Did you mean 'fixed'"),
    (lambda: decays.ForgetGate(temperature=0), "`temperature` must be a finite number above 0"),
    (lambda: Linear(causal=True)(QUERY, KEY, VALUE), "same length; .* 3 queries and 11 keys"),
    (lambda: Linear()(QUERY, KEY, VALUE[:, 1:]), "with the same S and N"),
    (lambda: Linear()(QUERY, KEY[..., 1:], VALUE), "query size 7, key size 6"),
    (lambda: Linear()(QUERY, KEY, VALUE, key_mask=KEY_MASK[:, 1:]), r"\(B, S\) with .*S=11"),
    (lambda: Linear()(QUERY, KEY, VALUE, query_mask=KEY_MASK), r"\(B, T\) with .*T=3"),
    (lambda: Linear()(SELF[:1].repeat(5, 0), KEY, VALUE), "batches of 5 and 2"),
    (lambda: Linear()(QUERY, KEY, VALUE, key_mask=KEY_MASK[[0, 0, 0]]), "with B=2, S=11"),
    (lambda: Linear().initial_state(1), "not known before the layer is built"),
)
