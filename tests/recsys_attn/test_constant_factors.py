"""What enters a layer as relevance leaves it, where the factors are constants."""

import numpy as np
import pytest
from keras import ops

from recsys_attn.blocks import FeedForward, Mlp, SqueezeExcitation
from recsys_attn.blocks.norms import NORMS, normalise
from recsys_attn.constant_factors import constant_factors, factors_are_constant, times_constant
from recsys_attn.interactions import CrossNetwork
from recsys_attn.multitask import MMoE, ProgressiveExperts
from tests.support.gradients import gradient

ROWS, WIDTH = 5, 7


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(ROWS, WIDTH)).astype("float32")


LAYERS = {
    **{name: lambda name=name: Mlp((11, 3), name) for name in ("gelu", "silu", "tanh", "dice")},
    "factorised": lambda: Mlp((10, 4), "gelu", factorized=True),
    "swiglu": lambda: FeedForward(11, "swiglu"),
    "experts": lambda: MMoE(2, 3, (5,), "softmax", activation="gelu"),
    "progressive": lambda: ProgressiveExperts(2, expert_units=(5,)),
    "cross": lambda: CrossNetwork(2),
    "cross vector": lambda: CrossNetwork(2, kind="vector"),
    "cross gated": lambda: CrossNetwork(2, gated=True),
    "cross experts": lambda: CrossNetwork(2, rank=3, num_experts=2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", LAYERS)
def test_input_times_gradient_is_the_output_of_a_layer(name, x):
    network = LAYERS[name]()
    usual = ops.convert_to_numpy(network(x))  # biases are zeros
    total = usual.reshape(ROWS, -1).sum(axis=1)

    def conserving(x):
        with constant_factors():
            return network(x)

    np.testing.assert_allclose(conserving(x), usual, rtol=1e-5, atol=1e-6)
    relevance = (x * gradient(conserving, x)).sum(axis=1)
    np.testing.assert_allclose(relevance, total, rtol=1e-4, atol=1e-5)
    plain = (x * gradient(network, x)).sum(axis=1)
    assert np.abs(plain - total).max() > 0.01


def test_weights_of_fields_are_constants():
    fields = np.random.default_rng(0).normal(size=(ROWS, 4, 3)).astype("float32")
    layer = SqueezeExcitation(reduction=2)
    total = ops.convert_to_numpy(layer(fields)).sum(axis=(1, 2))

    def conserving(x):
        with constant_factors():
            return layer(x)

    relevance = (fields * gradient(conserving, fields)).sum(axis=(1, 2))
    np.testing.assert_allclose(relevance, total, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_a_norm_keeps_the_relevance_but_that_of_its_offset(name, x):
    norm = NORMS.get(name)
    norm.build(x.shape)
    rng = np.random.default_rng(1)
    for weight in norm.weights:
        weight.assign(rng.normal(size=weight.shape))
    offset = ops.convert_to_numpy(norm.beta).sum() if name == "layer" else 0.0
    usual = ops.convert_to_numpy(norm(x))

    def conserving(x):
        with constant_factors():
            return normalise(norm, x, None, None)

    np.testing.assert_allclose(conserving(x), usual, rtol=1e-4, atol=1e-5)
    relevance = (x * gradient(conserving, x)).sum(axis=1)
    np.testing.assert_allclose(relevance, usual.sum(axis=1) - offset, rtol=1e-4, atol=1e-4)
    plain = (x * gradient(norm, x)).sum(axis=1)
    np.testing.assert_allclose(plain, 0, atol=1e-3)  # a norm forgets the size of its input


def test_factors_are_constant_inside_the_block_only(x):
    assert not factors_are_constant()
    with constant_factors():
        assert factors_are_constant()
    assert not factors_are_constant()


def test_an_output_at_zero_has_no_slope():
    x = np.array([[0.0, 2.0]], "float32")
    output = np.array([[0.5, 3.0]], "float32")
    np.testing.assert_array_equal(times_constant(x, output), output)
    np.testing.assert_array_equal(gradient(lambda x: times_constant(x, output), x), [[0, 1.5]])
