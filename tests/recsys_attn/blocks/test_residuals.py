"""Residuals: their limits, their initial weights, and combinations that mean nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention.layers.attention import Attention
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks import TransformerBlock, TransformerEncoder
from recsys_attn.blocks.residuals import DeepNorm, GruGate, Plain
from tests.recsys_attn.blocks.test_transformer import INPUTS, PRESENT, E, block_of
from tests.support.layer_case import randomise


def blocks(count: int, **options: Any) -> list[TransformerBlock]:
    return [TransformerBlock(MultiHeadAttention(2, 3), 6, **options) for _ in range(count)]


def test_new_rezero_blocks_are_the_identity() -> None:
    encoder = TransformerEncoder(blocks(3, norm="none", residual="rezero"))
    np.testing.assert_array_equal(encoder(INPUTS), INPUTS)
    assert encoder.final_norm is None


def test_a_shut_gru_gate_is_the_identity() -> None:
    gate = GruGate(bias=50.0)
    np.testing.assert_allclose(gate(INPUTS, 3 * INPUTS), INPUTS, rtol=1e-6)


def test_deepnorm_weighs_the_inputs_by_the_depth() -> None:
    made = [TransformerBlock(Scaled(), 6, placement="post", residual="deepnorm") for _ in range(5)]
    encoder = TransformerEncoder(made)
    encoder(INPUTS)
    randomise(encoder)
    expected = INPUTS.astype("float64")
    for block in made:
        expected = block_of(block, expected, PRESENT, sublayers=10)
    np.testing.assert_allclose(encoder(INPUTS, present=PRESENT), expected, rtol=1e-3, atol=1e-4)


class Scaled(Attention):
    """Attention without weights, none of which needs to start smaller."""

    initial_gain = 1.0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("residual", "options", "gain"),
    [
        ("deepnorm", {"placement": "post"}, (8 * 4) ** -0.25),
        ("tfixup", {"norm": "none"}, 0.67 * 4**-0.25),
        (Plain(0.16), {}, 0.16),
    ],
)
def test_initial_weights_are_smaller_in_deep_stacks(
    residual: Any, options: dict[str, Any], gain: float
) -> None:
    encoder = TransformerEncoder(blocks(4, residual=residual, **options))
    encoder(INPUTS)
    for block in encoder.blocks:
        kernels = {weight.name: np.asarray(weight) for weight in block.attention.weights}
        first, _, second, _ = block.feed_forward.get_weights()
        scaled = [kernels["value_kernel"], kernels["output_kernel"], first, second]
        for kernel, factor in [(kernels["query_kernel"], 1), *((k, gain) for k in scaled)]:
            limit = np.sqrt(6 / sum(kernel.shape)) * factor  # of Glorot's uniform distribution
            assert 0.8 * limit < np.abs(kernel).max() <= limit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "none", "placement": "post"}, "`placement` has no effect without"),
        ({"residual": "deepnorm"}, "needs placement='post'"),
        ({"residual": "deepnorm", "norm": "none"}, "needs placement='post' and a normal"),
        ({"residual": "tfixup"}, "needs norm='none'"),
        ({"placement": "before"}, "Valid names: .*'pre'"),
        ({"norm": "laye"}, "Did you mean 'layer'"),
        ({"residual": "rezro"}, "Did you mean 'rezero'"),
        ({"residual": {"class_name": "gru", "config": {"bias": "2"}}}, "`bias` must be a finite"),
    ],
)
def test_what_means_nothing_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerBlock(Attention(), **options)


def test_deepnorm_needs_the_depth_of_its_stack() -> None:
    with pytest.raises(ValueError, match=r"leave it out. Received: depth=3, in 2 blocks"):
        TransformerEncoder(blocks(2, placement="post", residual=DeepNorm(depth=3)))


def test_weights_that_cannot_start_smaller_are_an_error() -> None:
    block = TransformerBlock(Attention(), placement="post", residual="deepnorm")
    with pytest.raises(TypeError, match="initial weights of `attention`, which Attention"):
        block.build((None, 3, E))
