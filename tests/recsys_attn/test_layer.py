"""Mistakes in the use of a layer become one plain sentence that names what the user wrote."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import (
    Attention,
    AttentionPooling,
    Dense,
    Disagreement,
    Linear,
    MultiHeadAttention,
    PrependTokens,
    presets,
)
from recsys_attn.attention.compressors import Convolution
from recsys_attn.attention.mechanisms import Compressed, Lookup, Routed
from recsys_attn.attention.patterns import Causal
from recsys_attn.attention.positions import LearnedPositions
from recsys_attn.attention.scores import Additive, Alibi, Dot
from recsys_attn.backend.dropout import Dropout
from recsys_attn.blocks import (
    TransformerBlock,
    TransformerDecoderBlock,
    TransformerEncoder,
)
from recsys_attn.interactions import AutoInt, InteractingLayer
from recsys_attn.layer import Layer
from recsys_attn.multitask import MMoE
from recsys_attn.serialization import serialize
from recsys_attn.tensors import Config
from tests.support.gradients import gradient
from tests.support.layer_case import randomise

B, S, E = 2, 5, 8
X = np.random.default_rng(0).normal(size=(B, S, E)).astype("float32")
PRESENT = np.array([[True] * 5, [True, True, False, True, False]])

UNKNOWN = [
    (lambda: Routed("lsh", weighting="sigmoid"), "Routed has no argument `weighting`: its weights"),
    (lambda: presets.reformer(weighting="silu"), "Routed has no argument `weighting`"),
    (lambda: Lookup("lsh", weighting="silu"), "Lookup has no argument `weighting`"),
    (lambda: Linear(gate="output"), "`gate`: a gate belongs to the layer around"),
    (lambda: Linear(pattern="causal"), "`pattern`: .* causal=True is here"),
    (lambda: Dense(causal=True), "`causal`: give pattern='causal'"),
    (lambda: Compressed("pool", pattern="causal"), "`pattern`: summaries stand for many keys"),
    (lambda: AttentionPooling(gate="output"), "`gate`: it compares heads"),
    (lambda: MultiHeadAttention(2, 4, head_size=3), r"no argument `head_size`. Valid names: \["),
    (lambda: Additive(unit=3), "Did you mean 'units'"),
]


@pytest.mark.parametrize(("make", "message"), UNKNOWN, ids=[m for _, m in UNKNOWN])
def test_an_unknown_argument_says_where_it_belongs(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("layer", [MultiHeadAttention(2, 4), TransformerBlock(Attention())])
def test_a_list_of_numbers_is_no_tensor(layer: Any) -> None:
    with pytest.raises(TypeError, match=f"^{type(layer).__name__} must be called with tensors"):
        layer(X.tolist())


WRONG_CALLS = [
    (lambda: MultiHeadAttention(2, 4)(X, attention_mask=Causal()), r"Dense\(pattern=...\)"),
    (lambda: Attention()(X, X, attention_mask=Causal()), r"Dense\(pattern=...\)"),
    (lambda: MultiHeadAttention(2, 4)(X, key_mask=np.ones((B, 3), bool)), "shape \\(B, S\\)"),
    (lambda: MultiHeadAttention(2, 4, "performer")(X, attention_bias=X[:, :, :S]), "cannot honour"),
]


@pytest.mark.parametrize(("call", "message"), WRONG_CALLS, ids=[m for _, m in WRONG_CALLS])
def test_error_names_the_called_layer(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as raised:
        call()
    assert "calling Heads" not in str(raised.value)
    assert "calling Dense" not in str(raised.value)


@pytest.mark.parametrize("make", [lambda: Dot(scale=True) + Alibi(), Additive], ids=["sum", "own"])
def test_a_built_score_does_not_go_to_other_heads(make: Callable[[], Any]) -> None:
    score = make()
    MultiHeadAttention(2, 4, Dense(score))(X)
    with pytest.raises(ValueError, match="The score has weights and belongs to one layer"):
        MultiHeadAttention(4, 4, Dense(score))(X)


def test_a_built_weighting_does_not_go_to_other_heads() -> None:
    weighting = presets.get("talking_heads").weighting
    MultiHeadAttention(2, 4, Dense(weighting=weighting))(X)
    with pytest.raises(ValueError, match="The weighting has weights and belongs to one layer"):
        MultiHeadAttention(4, 4, Dense(weighting=weighting))(X)


def test_a_built_part_without_weights_goes_anywhere() -> None:
    score = Dot(scale=True)
    assert MultiHeadAttention(2, 4, Dense(score))(X).shape == X.shape
    assert MultiHeadAttention(4, 3, Dense(score))(X).shape == X.shape
    pool = Convolution(3)
    assert MultiHeadAttention(2, 4, Compressed(pool))(X).shape == X.shape


@pytest.mark.parametrize("layer", [MultiHeadAttention, InteractingLayer], ids=lambda x: x.__name__)
def test_disagreement_is_a_table_of_weights_too(layer: Any) -> None:
    config = layer(2, 4, disagreement={"outputs": 0.1}).get_config()["disagreement"]
    assert config["config"]["outputs"] == 0.1
    with pytest.raises(ValueError, match="Did you mean 'outputs'"):
        layer(2, 4, disagreement={"output": 0.1})
    with pytest.raises(TypeError, match="must be a layer such as"):
        layer(2, 4, disagreement=0.1)
    assert layer(2, 4, disagreement=Disagreement(0.2)).heads.disagreement.subspace == 0.2


MASKED = {
    "MultiHeadAttention": (lambda: MultiHeadAttention(2, 4), "query_mask"),
    "PrependTokens": (lambda: PrependTokens(2, MultiHeadAttention(2, 4)), "present"),
    "TransformerBlock": (lambda: TransformerBlock(MultiHeadAttention(2, 4)), "present"),
    "TransformerEncoder": (
        lambda: TransformerEncoder([TransformerBlock(MultiHeadAttention(2, 4))]),
        "present",
    ),
    "LearnedPositions": (lambda: LearnedPositions(7), "present"),
    "InteractingLayer": (lambda: InteractingLayer(2, 4), "field_mask"),
    "AutoInt": (lambda: AutoInt(2, 2, 4), "field_mask"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("make", "name"), MASKED.values(), ids=MASKED)
def test_mask_from_keras_is_honoured(make: Callable[[], Any], name: str) -> None:
    layer, x = make(), X * PRESENT[..., None]
    layer(x)
    randomise(layer)
    masked = keras.layers.Masking()(x)
    expected = keras.ops.convert_to_numpy(layer(x, **{name: PRESENT}))
    np.testing.assert_allclose(layer(masked), expected, rtol=1e-5, atol=1e-6)
    assert np.abs(keras.ops.convert_to_numpy(layer(x)) - expected).max() > 1e-3
    inputs = keras.Input((S, E))
    model = keras.Model(inputs, layer(keras.layers.Masking()(inputs)))
    np.testing.assert_allclose(model(x), expected, rtol=1e-5, atol=1e-6)


SHARED = {
    "mechanism": lambda part: MultiHeadAttention(2, 4, part),
    "attention": TransformerBlock,
    "block": lambda part: TransformerEncoder([part]),
}
PARTS = {
    "mechanism": lambda: Dense("additive"),
    "attention": lambda: MultiHeadAttention(2, 4),
    "block": lambda: TransformerBlock(MultiHeadAttention(2, 4)),
}


@pytest.mark.parametrize("kind", SHARED)
def test_a_part_with_weights_is_not_shared_by_layers(kind: str) -> None:
    """Keras would save a model of both, and not read the file."""
    part = PARTS[kind]()
    SHARED[kind](part)(X)
    with pytest.raises(ValueError, match=f"The {kind} has weights and belongs to one layer"):
        SHARED[kind](part)(X)


def test_a_block_twice_in_one_encoder_is_saved(tmp_path: Path) -> None:
    block = TransformerBlock(MultiHeadAttention(2, 4))
    inputs = keras.Input((S, E))
    model = keras.Model(inputs, TransformerEncoder([block, block])(inputs))
    randomise(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(loaded(X), model(X), rtol=1e-5, atol=1e-6)


KERAS = {
    "attention": lambda: MultiHeadAttention(2, 4),
    "disagreement": lambda: MultiHeadAttention(2, 4, disagreement={"outputs": 0.1}),
    "dropout": lambda: MultiHeadAttention(2, 4, Dense(dropout=0.5)),
    "autoint": lambda: AutoInt(2, 2, 4),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KERAS)
def test_rematerialised_gradients_are_the_same(name: str) -> None:
    layer = KERAS[name]()
    expected = layer(X)
    with keras.RematScope(mode="full"):
        again = KERAS[name]()
    again(X)
    again.set_weights(layer.get_weights())
    np.testing.assert_allclose(again(X), expected, rtol=1e-5, atol=1e-6)
    gradients = [gradient(lambda x, each=each: each(x), X) for each in (layer, again)]
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-4, atol=1e-5)
    inputs = keras.Input((S, E))
    model = keras.Model(inputs, again(inputs))
    model.compile("sgd", "mse")
    assert np.isfinite(model.train_on_batch(X, X))


def test_a_layer_that_is_not_built_computes_its_shape() -> None:
    layer = MultiHeadAttention(2, 4)
    assert layer.compute_output_shape((None, S, E)) == (None, S, E)
    assert not layer.built
    pooled = keras.layers.TimeDistributed(AttentionPooling())(keras.Input((3, S, E)))
    assert pooled.shape == (None, 3, E)


def test_shapes_of_a_users_layer_have_the_dtypes_it_names() -> None:
    seen = {}

    class Ranked(Layer):
        integer_arguments = ("rows",)

        def call(self, inputs: Any, ranks: Any, rows: Any) -> Any:
            seen.update(inputs=inputs.dtype, ranks=ranks.dtype, rows=rows.dtype)
            return inputs * ranks

    assert Ranked().compute_output_shape((B, S), (B, S), rows_shape=(B,)) == (B, S)
    assert seen == {"inputs": "float32", "ranks": "float32", "rows": "int32"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "make",
    [KERAS["attention"], KERAS["autoint"], lambda: MMoE(2, 3, (5, 4), gate="attention")],
    ids=["attention", "autoint", "mmoe"],
)
def test_quantize_says_what_it_leaves(make: Callable[[], Any]) -> None:
    inputs = keras.Input((S, E))
    model = keras.Model(inputs, keras.layers.Dense(3)(make()(inputs)))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.quantize("int8")
    assert any("other layers of recsys_attn as they are" in str(each.message) for each in caught)
    assert model.layers[-1].quantization_mode == "int8"
    layer = MultiHeadAttention(2, 4)
    layer.build((None, S, E))
    with pytest.raises(NotImplementedError, match="MultiHeadAttention and the other layers"):
        layer.quantize("int8")


@dataclass(frozen=True)
class Range:
    """An option of two numbers."""

    limits: tuple[int, int] = (2, 3)


class Base(Layer):
    """Has an argument that a layer of its kind hands up."""

    def __init__(self, size: int = 3, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size


def test_a_config_has_the_attributes_of_the_arguments() -> None:
    class Parts(Base):
        def __init__(
            self,
            score: Any,
            activation: Any,
            parts: Any = None,
            dropout: float = 0.0,
            pair: tuple[int, int] = (1, 1),
            option: Any = None,
            **kwargs: Any,
        ) -> None:
            super().__init__(**kwargs)
            self.score = score
            self.activation = keras.activations.get(activation)
            self.parts = parts
            self.dropout = Dropout(dropout)
            self.pair = pair
            self.option = option

    score = Additive(3)
    layer = Parts(score, "relu", {"a": [score]}, 0.25, (5, 7), Range(), size=11, name="parts")
    config = layer.get_config()
    keras_arguments = {name: config.pop(name) for name in ("name", "trainable", "dtype")}
    assert keras_arguments["name"] == "parts"
    assert config == {
        "size": 11,
        "score": serialize(score),
        "activation": "relu",
        "parts": {"a": [serialize(score)]},
        "dropout": 0.25,
        "pair": [5, 7],
        "option": {"limits": [2, 3]},
    }


def test_an_argument_without_an_attribute_is_an_error() -> None:
    class Scale(Layer):
        def __init__(self, factor: float = 2.0, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.scale = factor

    class Named(Scale):
        def get_config(self) -> Config:
            return {**super().get_config(), "factor": self.scale}

    with pytest.raises(NotImplementedError, match=r"Scale has no config: .* argument `factor`"):
        Scale(3.0).get_config()
    assert Named.from_config(Named(3.0).get_config()).scale == 3.0


def test_an_argument_that_a_block_hands_up_is_saved() -> None:
    parts = MultiHeadAttention(2, 3, Dense(pattern=Causal())), MultiHeadAttention(2, 3)
    block = TransformerDecoderBlock(*parts, feed_forward_chunks=5)
    assert TransformerDecoderBlock.from_config(block.get_config()).feed_forward_chunks == 5
