"""Reversible blocks: equations in float64, gradients of the plain stack, memory, refusals."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any, ClassVar

import keras
import numpy as np
import pytest

from recsys_attn.attention import Attention, Dense, Linear, MultiHeadAttention, Recurrence, Routed
from recsys_attn.attention.routers import Blocks
from recsys_attn.backend.reversible_streams import forward
from recsys_attn.blocks import (
    RecurrentMixer,
    SegmentMemory,
    TransformerBlock,
    TransformerDecoder,
    TransformerDecoderBlock,
    TransformerEncoder,
    reversible,
)
from tests.support.arrays import assert_close, numpy
from tests.support.gradients import gradient
from tests.support.layer_case import randomise, tensorflow
from tests.support.references import blocks as reference
from tests.support.refusals import refusals

B, S, E = 3, 7, 8
RNG = np.random.default_rng(4)
INPUTS = RNG.normal(size=(B, S, E)).astype("float32")
PRESENT = np.arange(S) < np.array([[S], [5], [0]])
BIAS = RNG.normal(size=(B, S, S)).astype("float32")
CONDITION = RNG.normal(size=(B, 3)).astype("float32")
MECHANISMS = {
    "transformer_xl": "transformer_xl",
    "T5": "t5",  # with a table, whose gradient is sparse
    "linear": Linear(causal=True),
    "blocks": Routed(Blocks(3)),
}
OTHERS = ("linear", "blocks")  # in the steps of training


def blocks(count: int, mechanism: Any = "transformer", **options: Any) -> list[TransformerBlock]:
    options = {"residual": "reversible", **options}
    return [
        TransformerBlock(MultiHeadAttention(2, 4, mechanism), 6, **options) for _ in range(count)
    ]


@pytest.mark.parametrize("placement", ["pre", "sandwich"])
def test_streams_follow_the_equations(placement: str) -> None:
    options: dict[str, Any] = {"residual": "reversible", "placement": placement}
    encoder = TransformerEncoder([TransformerBlock(Attention(), 6, **options) for _ in "abc"])
    encoder(INPUTS)
    randomise(encoder)
    first = second = INPUTS.astype("float64")
    for block in encoder.blocks:
        weights = block.feed_forward.get_weights()
        around, network = (
            [reference.norm("layer", norm.get_weights()) for norm in sub.norms]
            for sub in block.sublayers
        )
        update = reference.attention(around[0](second), PRESENT)
        first = first + (update if placement == "pre" else around[1](update))
        update = reference.feed_forward(weights, network[0](first))
        second = second + (update if placement == "pre" else network[1](update))
    norm = reference.norm("layer", encoder.final_norm.get_weights())
    expected = norm((first + second) / 2) * PRESENT[..., None]
    np.testing.assert_allclose(encoder(INPUTS, present=PRESENT), expected, rtol=1e-4, atol=1e-4)


def plainly(monkeypatch: pytest.MonkeyPatch, function: Callable[[], Any]) -> Any:
    """The result of a function when everything is kept for the gradient."""
    with monkeypatch.context() as patch:
        patch.setattr(reversible, "reversible", forward)
        return function()


@pytest.mark.parametrize(
    "name", ["transformer_xl", "T5", *(pytest.param(n, marks=pytest.mark.thorough) for n in OTHERS)]
)
def test_a_training_step_is_that_of_the_plain_stack(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Two blocks, each applied twice.
    config = TransformerEncoder(blocks(2, MECHANISMS[name], activation="gelu"), 4).get_config()
    target = RNG.normal(size=INPUTS.shape).astype("float32")
    start: list[np.ndarray] = []

    def trained() -> list[np.ndarray]:
        encoder = TransformerEncoder.from_config(config)
        symbols = [keras.Input((S, E)), keras.Input((S,), dtype="bool")]
        model = keras.Model(symbols, encoder(symbols[0], present=symbols[1]))
        start[:] = start or [0.3 * RNG.normal(size=w.shape) for w in encoder.get_weights()]
        encoder.set_weights(start)
        # Tracing takes TensorFlow long: one of them is enough in a graph.
        eager = keras.backend.backend() == "tensorflow" and name != "blocks"
        model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=eager)
        model.train_on_batch([INPUTS, PRESENT], target)
        return encoder.get_weights()

    weights = trained()
    changed = [not np.array_equal(w, s) for w, s in zip(weights, start, strict=True)]
    assert sum(changed) >= len(changed) - 2  # all but the slopes
    for one, other in zip(weights, plainly(monkeypatch, trained), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("of", ["inputs", "attention_bias", "condition"])
def test_gradients_of_tensors_are_those_of_the_plain_stack(
    of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TransformerEncoder(blocks(3, norm="conditional"))
    given = {"inputs": INPUTS, "attention_bias": BIAS, "condition": CONDITION}
    encoder(**given)
    encoder.set_weights([0.3 * RNG.normal(size=w.shape) for w in encoder.get_weights()])
    fixed = {name: array for name, array in given.items() if name != of}
    weigh = RNG.normal(size=INPUTS.shape).astype("float32")

    def found() -> np.ndarray:
        return gradient(lambda x: encoder(**fixed, **{of: x}, present=PRESENT) * weigh, given[of])

    expected = plainly(monkeypatch, found)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(found(), expected, rtol=1e-5, atol=1e-5)


def test_memory_does_not_grow_with_the_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    if keras.backend.backend() != "jax":
        pytest.skip("only JAX says how much memory a program needs")
    jax = pytest.importorskip("jax")
    x = np.ones((1, 512, E), "float32")

    def needed(depth: int) -> int:
        encoder = TransformerEncoder(blocks(depth, Linear()))
        encoder(x)
        program = jax.jit(jax.grad(lambda x: encoder(x).sum()))
        return program.lower(x).compile().memory_analysis().temp_size_in_bytes

    flat = needed(4), needed(16)
    kept = plainly(monkeypatch, lambda: (needed(4), needed(16)))
    assert flat[1] < 1.2 * flat[0]
    assert kept[1] > 2.5 * kept[0]


class Seen(Attention):
    """Attention that remembers which of its outputs are still in memory."""

    outputs: ClassVar[list[weakref.ref[Any]]] = []

    def call(self, *args: Any, **kwargs: Any) -> Any:
        output = super().call(*args, **kwargs)
        self.outputs.append(weakref.ref(output))
        return output


@pytest.mark.parametrize(("residual", "kept"), [("reversible", 0), ("plain", 5)])
def test_a_tape_keeps_nothing_between_blocks(residual: str, kept: int) -> None:
    tf = tensorflow()
    Seen.outputs.clear()
    encoder = TransformerEncoder([TransformerBlock(Seen(), 6, residual=residual) for _ in range(5)])
    x = tf.constant(INPUTS)
    encoder(x)
    Seen.outputs.clear()
    with tf.GradientTape() as tape:
        tape.watch(x)
        output = encoder(x)
    gc.collect()
    assert sum(each() is not None for each in Seen.outputs) == kept
    assert tape.gradient(output, x) is not None


def test_reversible_blocks_are_saved_in_a_model(tmp_path: Any) -> None:
    events = keras.Input((None, E))
    model = keras.Model(events, TransformerEncoder(blocks(2))(events))
    model.save(tmp_path / "model.keras")
    assert_close(keras.saving.load_model(tmp_path / "model.keras")(INPUTS), model(INPUTS))


def test_half_precision_keeps_its_type() -> None:
    encoder = TransformerEncoder(blocks(2), dtype="mixed_bfloat16")
    assert np.isfinite(numpy(encoder(INPUTS))).all()


def encoder_of(**options: Any) -> TransformerEncoder:
    return TransformerEncoder(blocks(2, **options))


test_what_is_not_the_same_twice_is_refused = refusals(
    (lambda: encoder_of(dropout=0.1), "computes each block twice.*Received: dropout"),
    (lambda: encoder_of(activation="dice"), "activation='dice'"),
    (lambda: encoder_of(mechanism=Dense(dropout=0.1)), "dropout of attention"),
    (lambda: encoder_of(mechanism="routing_transformer")(INPUTS), "centroids.*a call changes"),
    (lambda: encoder_of(placement="post"), "needs placement='pre' or 'sandwich'"),
    (
        lambda: TransformerEncoder([*blocks(1), *blocks(1, residual="plain")]),
        "All blocks of an encoder are reversible or none",
    ),
    (
        lambda: TransformerEncoder([TransformerBlock(RecurrentMixer(), 0, residual="reversible")]),
        "needs a feed-forward network",
    ),
    (lambda: encoder_of()(INPUTS, return_states=True), "keep no states"),
)


def test_a_reversible_block_alone_is_refused() -> None:
    with pytest.raises(TypeError, match="only a TransformerEncoder has"):
        blocks(1)[0](INPUTS)
    causal = Dense(pattern="causal")
    block = TransformerDecoderBlock(
        MultiHeadAttention(2, 4, causal), MultiHeadAttention(2, 4), residual="reversible"
    )
    with pytest.raises(TypeError, match="only a TransformerEncoder has"):
        TransformerDecoder([block])
    with pytest.raises(TypeError, match="two streams"):
        Recurrence(encoder_of(mechanism=causal))
    with pytest.raises(TypeError, match="keep no states"):
        SegmentMemory(encoder_of(), 3)
