"""Positions, relative and two-stream attention of keras-hub against ours."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, MultiHeadAttention, masks, presets
from recsys_attn.attention.positions import SinusoidalPositions
from recsys_attn.attention.scores import Alibi, Dot, Rotary
from tests.oracles.support import agree, assign, normal, numpy, oracle

B, T, S, M, E, N, H = 2, 3, 7, 5, 22, 4, 6
QUERY, KEY = normal(0, B, T, N, H), normal(1, B, S, N, H)
CONTENT, STREAM, MEMORY = normal(2, B, S, E), normal(3, B, S, E), normal(4, B, M, E)
# Three positions of each example are context, and the others are predicted one after another.
RANKS = np.stack([np.random.default_rng(seed).permutation(S) for seed in range(B)])
RANKS = np.maximum(RANKS - 2, 0)


@pytest.mark.parametrize("width", [22, 23])
def test_sinusoidal_positions(width: int) -> None:
    layers = oracle("keras_hub.layers")
    x = normal(5, B, S, width)
    theirs = x + numpy(layers.SinePositionEncoding(max_wavelength=1000)(x))
    agree("keras-hub SinePositionEncoding", SinusoidalPositions(base=1000.0)(x), theirs)


def test_rotary_positions() -> None:
    """Its planes are channels m and m + H/2; those of the paper are 2m and 2m + 1."""
    turn = oracle("keras_hub.layers").RotaryEmbedding()
    theirs = keras.ops.einsum("btnh,bsnh->bnts", turn(QUERY, start_index=S - T), turn(KEY))
    agree("keras-hub RotaryEmbedding", Rotary("dot")(QUERY, KEY), theirs)


@pytest.mark.parametrize("heads", [4, 6])
def test_alibi(heads: int) -> None:
    """Its bias grows with the key's position, whatever the query's: right for the past alone."""
    query, key = normal(6, B, S, heads, H), normal(7, B, S, heads, H)
    logits = oracle("keras_hub.layers").AlibiBias()(Dot(scale=True)(query, key))
    theirs = keras.layers.Softmax()(logits, mask=np.tri(S, dtype=bool))
    _, ours = Dense(Dot(scale=True) + Alibi(), "causal")(query, key, key)
    agree(f"keras-hub AlibiBias, {heads} heads", ours, theirs)


def relative_attention(shape: tuple[int, ...]) -> Any:
    """Their layer, with the two biases that it takes as arguments."""
    module = oracle("keras_hub.src.models.xlnet.relative_attention")
    theirs = module.TwoStreamRelativeAttention(num_heads=N, key_dim=H)
    theirs.build(shape)
    biases = {
        "content_attention_bias": normal(10, N, H),
        "positional_attention_bias": normal(11, N, H),
    }
    return theirs, biases


def distances(queries: int, keys: int) -> np.ndarray:
    """Their encoding of all distances, from `keys` down to 1 - `queries`: (B, L, E).

    Of a single example: for a batch theirs is reshaped where it should be transposed, so that
    each example gets a part of the distances, repeated.
    """
    module = oracle("keras_hub.src.models.xlnet.xlnet_content_and_query_embedding")
    embedding = module.ContentAndQueryEmbedding(vocabulary_size=2, hidden_dim=E, dropout=0.0)
    _, encoding = embedding(np.zeros((1, queries), "int32"), mlen=keys - queries)
    return np.repeat(numpy(encoding), B, axis=0)


def in_ours(theirs: Any, biases: dict[str, Any], mechanism: Any, *inputs: Any) -> Any:
    query, key, value, output, encoding = (numpy(w) for w in theirs.trainable_weights)
    ours = MultiHeadAttention(N, H, mechanism, use_bias=False)
    ours.build(*(x.shape for x in inputs))
    assign(
        ours,
        query_kernel=query.reshape(E, N * H),
        key_kernel=key.reshape(E, N * H),
        value_kernel=value.reshape(E, N * H),
        output_kernel=output.transpose(1, 2, 0).reshape(N * H, E),
    )
    content, position = ours.mechanism.score.scores
    assign(content, query_bias=biases["content_attention_bias"])
    assign(
        position,
        kernel=encoding.transpose(1, 0, 2),
        position_bias=biases["positional_attention_bias"],
    )
    return ours


def relative_dot(pattern: Any = None, max_distance: int = 128) -> Dense:
    """Transformer-XL's, whose distances are encoded in the width of the model."""
    content = Dot(scale=True, query_bias=True)
    position = {"max_distance": max_distance, "scale": True, "units": E}
    score = {
        "class_name": "sum",
        "config": {"scores": [content, {"class_name": "relative_dot", "config": position}]},
    }
    return Dense(score, pattern)


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_relative_attention_over_a_memory(causal: bool) -> None:
    """Of keys after the query Transformer-XL's own code knows no distance; XLNet's and this do."""
    theirs, biases = relative_attention(CONTENT.shape)
    both = np.concatenate([MEMORY, CONTENT], axis=1)
    mask = np.tri(S, M + S, k=M, dtype=bool)[None] if causal else None
    expected, _ = theirs(
        CONTENT,
        relative_position_encoding=distances(S, M + S),
        state=MEMORY,
        content_attention_mask=mask,
        **biases,
    )
    ours = in_ours(theirs, biases, relative_dot("causal" if causal else None), CONTENT, both)
    agree("keras-hub relative attention, memory", ours(CONTENT, both), expected)


def visible() -> tuple[np.ndarray, np.ndarray]:
    """Where the authors' `perm_mask` is 0, for contents, which see themselves too, and queries."""
    hidden = RANKS[:, None, :] > 0
    hidden = hidden & (RANKS[:, :, None] <= RANKS[:, None, :])
    return ~hidden | np.eye(S, dtype=bool), ~hidden


def test_two_streams() -> None:
    """1 in its masks means "may attend", as here; in the paper's code it means the opposite."""
    theirs, biases = relative_attention(CONTENT.shape)
    content_mask, query_mask = visible()
    content, query = theirs(
        CONTENT,
        query_stream=STREAM,
        relative_position_encoding=distances(S, S),
        content_attention_mask=content_mask,
        query_attention_mask=query_mask,
        **biases,
    )
    ours = in_ours(theirs, biases, relative_dot(), CONTENT, CONTENT)
    content_mask, query_mask = masks.permutation(RANKS)
    agree("keras-hub content stream", ours(CONTENT, attention_mask=content_mask), content)
    predicted = RANKS > 0  # what is context has a query stream there, and zeros here
    actual = numpy(ours(STREAM, CONTENT, attention_mask=query_mask))
    agree("keras-hub query stream", actual[predicted], numpy(query)[predicted])


def test_query_stream_of_some_positions() -> None:
    """Its `target_mapping` is `query_positions` and the rows of the mask here."""
    theirs, biases = relative_attention(CONTENT.shape)
    targets = np.argsort(RANKS, axis=1)[:, -T:]  # the last T of each order
    mapping = np.eye(S, dtype="float32")[targets]
    stream = STREAM[:, :T]
    _, expected = theirs(
        CONTENT,
        query_stream=stream,
        target_mapping=mapping,
        relative_position_encoding=distances(S, S),
        query_attention_mask=visible()[1],
        **biases,
    )
    ours = in_ours(theirs, biases, relative_dot(), stream, CONTENT)
    mask = numpy(masks.permutation(RANKS)[1])
    rows = np.take_along_axis(mask, targets[..., None], axis=1)
    actual = ours(stream, CONTENT, attention_mask=rows, query_positions=targets)
    agree("keras-hub query stream, target mapping", actual, expected)


@pytest.mark.parametrize("decoder", [False, True], ids=["both sides", "past"])
def test_t5(decoder: bool) -> None:
    """The bias is that of T5's code, and 32 buckets up to 128 positions are fixed."""
    module = oracle("keras_hub.src.models.t5.t5_multi_head_attention")
    theirs = module.T5MultiHeadAttention(decoder, E, H, N, 0.0, use_relative_attention_bias=True)
    events = normal(12, B, 149, E)
    theirs.relative_attention_bias.assign(normal(13, 32, N))  # at first it hardly matters
    expected = theirs(events)[0]
    table, *kernels = (numpy(w) for w in theirs.weights)
    buckets = {"class_name": "relative_buckets", "config": {"bidirectional": not decoder}}
    score = {"class_name": "sum", "config": {"scores": ["dot", buckets]}}
    mechanism = Dense(score) if decoder else presets.t5()
    ours = MultiHeadAttention(N, H, mechanism, use_bias=False)
    ours.build(events.shape)
    names = ("query_kernel", "key_kernel", "value_kernel", "output_kernel")
    assign(ours, **dict(zip(names, kernels, strict=True)))
    assign(ours.mechanism.score.scores[1], table=table.T)
    agree("keras-hub T5MultiHeadAttention", ours(events), expected)
