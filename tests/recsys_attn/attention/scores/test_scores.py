"""Scores equal loops over pairs, with the batch of either side repeated where it is 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import scores
from tests.support import reference
from tests.support.gradients import gradient

B, T, S, N, H, K = 2, 3, 5, 7, 11, 13


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype("float32") for shape in shapes]


def weights(layer: keras.layers.Layer) -> list[np.ndarray]:
    return [keras.ops.convert_to_numpy(weight) for weight in layer.weights]


def reference_of(layer: Any, query: np.ndarray, key: np.ndarray) -> np.ndarray:
    match layer:
        case scores.Dot():
            return reference.dot(query, key, layer.scale)
        case scores.Cosine():
            return reference.cosine(query, key, layer.temperature)
        case scores.General():
            return reference.general(query, key, *weights(layer))
        case scores.Additive():
            query_kernel, key_kernel, vector = weights(layer)
            return reference.additive(
                query, key, query_kernel, key_kernel, vector.reshape(len(vector), -1)
            )
    raise TypeError(type(layer))


LAYERS: dict[str, tuple[Callable[[], scores.Score], int]] = {
    "dot": (lambda: scores.get("dot"), H),
    "scaled_dot": (lambda: scores.get("scaled_dot"), H),
    "cosine": (lambda: scores.Cosine(temperature=0.3), H),
    "general": (scores.General, K),
    "additive": (lambda: scores.Additive(units=4), K),
    "additive of the key's size": (scores.Additive, K),
}


@pytest.mark.parametrize(("batch", "key_batch"), [(B, B), (1, B), (B, 1)])
@pytest.mark.parametrize(("make", "key_size"), LAYERS.values(), ids=LAYERS)
def test_score_equals_a_loop_over_pairs(
    make: Callable[[], scores.Score], key_size: int, batch: int, key_batch: int
) -> None:
    query, key = arrays((batch, T, N, H), (key_batch, S, N, key_size))
    layer = make()
    logits = layer(query, key)
    both = [np.repeat(x, B // len(x), axis=0).astype("float64") for x in (query, key)]
    np.testing.assert_allclose(logits, reference_of(layer, *both), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batches", [(B, B), (1, B), (B, 1)], ids=str)
@pytest.mark.parametrize("units", [(4,), (6, 4)], ids=str)
def test_mlp_equals_a_network_on_the_concatenated_blocks(
    units: tuple[int, ...], batches: tuple[int, int]
) -> None:
    query, key = arrays((batches[0], T, N, H), (batches[1], S, N, H))
    layer = scores.Mlp(units, activation="relu")
    logits = layer(query, key)
    both = [np.repeat(x, B // len(x), axis=0).astype("float64") for x in (query, key)]
    hidden = reference.activation_unit_inputs(*both)
    kernels_and_biases = weights(layer)
    *inner, kernel, bias = kernels_and_biases
    for inner_kernel, inner_bias in zip(inner[::2], inner[1::2], strict=True):
        hidden = reference.relu(hidden @ inner_kernel + inner_bias)
    np.testing.assert_allclose(logits, (hidden @ kernel + bias)[..., 0], rtol=1e-4, atol=1e-5)


def test_mlp_blocks_start_as_one_glorot_kernel() -> None:
    query, key = arrays((B, T, 1, 64), (B, S, 1, 64))
    layer = scores.Mlp((80,))
    layer(query, key)
    blocks = np.split(weights(layer)[0], 4)
    limit = np.sqrt(6 / (4 * 64 + 80))
    for block in blocks:
        assert 0.97 * limit < np.abs(block).max() <= limit
    assert not np.allclose(blocks[0], blocks[1])


def test_mlp_with_dice_keeps_pairs_that_are_not_allowed_out_of_its_statistics() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    allowed = np.random.default_rng(5).random((B, 1, T, S)) < 0.5
    layer = scores.Mlp((4,))
    layer(query, key, allowed=allowed, training=True)
    kernel, bias, *_ = weights(layer)
    hidden = reference.activation_unit_inputs(query, key) @ kernel + bias
    mean, variance = reference.statistics(hidden, np.broadcast_to(allowed, hidden.shape[:-1]))
    np.testing.assert_allclose(layer.first_activation.moving_mean, 0.01 * mean, atol=1e-6)
    np.testing.assert_allclose(
        layer.first_activation.moving_variance, 0.99 + 0.01 * variance, rtol=1e-5
    )


def test_scaled_dot_has_unit_variance_whatever_the_size() -> None:
    rng = np.random.default_rng(0)
    query, key = (rng.normal(size=(1, 200, 1, 256)).astype("float32") for _ in range(2))
    assert np.std(scores.get("scaled_dot")(query, key)) == pytest.approx(1, abs=0.05)
    assert np.std(scores.get("dot")(query, key)) == pytest.approx(16, abs=0.8)


def test_heads_do_not_mix() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    order = np.random.default_rng(1).permutation(N)
    layer = scores.get("additive")
    logits = np.asarray(layer(query, key))
    layer.set_weights([weight[order] for weight in weights(layer)])
    permuted = layer(query[:, :, order], key[:, :, order])
    np.testing.assert_allclose(permuted, logits[:, order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["additive", "general"])
def test_every_head_starts_different_and_with_its_own_fan(name: str) -> None:
    query, key = arrays((1, T, 2, 64), (1, S, 2, 64))
    layer = scores.get(name)
    layer(query, key)
    first, second = weights(layer)[0]
    assert np.abs(first - second).max() > 0.01
    assert np.abs(first).max() == pytest.approx(np.sqrt(6 / 128), rel=0.02)


def test_cosine_of_a_zero_vector_is_zero() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    query[0] = 0
    logits = scores.Cosine()(query, key)
    np.testing.assert_array_equal(logits[0], 0)


def test_cosine_has_no_gradient_at_a_zero_vector_and_the_right_one_elsewhere() -> None:
    query, key = arrays((B, T, N, H), (B, S, N, H))
    query[0] = key[:, 0] = 0
    layer = scores.Cosine()
    by_query = gradient(lambda x: layer(x, key), query)
    by_key = gradient(lambda x: layer(query, x), key)
    np.testing.assert_array_equal(by_query[0], 0)
    np.testing.assert_array_equal(by_key[:, 0], 0)
    # d cos(q, k) / dq = (k / |k| - cos(q, k) q / |q|) / |q|
    for b, t, n in np.ndindex(B, T, N):
        expected = np.zeros(H)
        for s in range(S):
            q, k = query[b, t, n].astype("float64"), key[b, s, n].astype("float64")
            if q.any() and k.any():
                q_length, k_length = np.linalg.norm(q), np.linalg.norm(k)
                cosine = q @ k / q_length / k_length
                expected += (k / k_length - cosine * q / q_length) / q_length
        np.testing.assert_allclose(by_query[b, t, n], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["dot", "cosine", "mlp"])
def test_vectors_of_two_sizes_are_refused_where_they_cannot_be_compared(name: str) -> None:
    with pytest.raises(ValueError, match=r"vectors of one size.*query size 11, key size 13"):
        scores.get(name)(*arrays((B, T, N, H), (B, S, N, K)))


def test_heads_must_agree() -> None:
    with pytest.raises(ValueError, match="with the same N"):
        scores.get("general")(*arrays((B, T, N, H), (B, S, 2, H)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scores.Additive(units=0), "`units` must be a positive integer"),
        (lambda: scores.Cosine(temperature=0), "`temperature` must be a finite number above 0"),
        (lambda: scores.Mlp(()), "at least one hidden layer"),
        (lambda: scores.Mlp((4, 0)), r"`units\[1\]` must be a positive integer"),
        (lambda: scores.Mlp((4,), activation="rleu"), "Did you mean 'relu'"),
    ],
)
def test_arguments_are_checked(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
