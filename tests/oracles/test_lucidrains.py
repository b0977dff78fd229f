"""Attention of Phil Wang's packages for PyTorch against ours."""

from __future__ import annotations

import functools
from typing import Any

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense, Linear, Routed, patterns, presets
from recsys_attn.attention.feature_maps import Favor, Softmax
from recsys_attn.attention.routers import KMeans, Lsh, Sinkhorn
from recsys_attn.attention.scores import Rotary, SharedDot
from tests.oracles.support import (
    agree,
    assign,
    heads_first,
    heads_last,
    multi_head,
    normal,
    numpy,
    oracle,
    tensor,
)

B, T, S, N, H, V = 2, 5, 13, 3, 7, 11
QUERY, KEY, VALUE = normal(0, B, T, N, H), normal(1, B, S, N, H), normal(2, B, S, N, V)
MASK = np.arange(S) < np.array([[S], [9]])


def output_of(mechanism: Any, *inputs: np.ndarray, **masks: np.ndarray) -> Any:
    return mechanism(*inputs, **masks)[0]


def performer(features: int = 19, **config: Any) -> Any:
    module = oracle("performer_pytorch.performer_pytorch")
    oracle("torch").manual_seed(0)
    return module.FastAttention(H, features, **config)


def favor(theirs: Any, **config: Any) -> Favor:
    """Our feature map with their projection."""
    feature_map = Favor(theirs.nb_features, **config)
    feature_map.build((None, None, N, H), (None, None, N, H))
    assign(feature_map, projection=numpy(theirs.projection_matrix).T)
    return feature_map


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_performer(causal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the authors' JAX code, it adds 1e-4 to features of which those of a query were divided by
    exp(|q'|^2 / 2), so that long queries attend evenly, and 1e-6 to the normaliser of the causal
    form; both are left out. Ours adds 1e-6, relative to the largest feature of a query."""
    module = oracle("performer_pytorch.performer_pytorch")
    for function in ("softmax_kernel", "causal_linear_attention_noncuda"):
        exact = functools.partial(getattr(module, function), eps=0.0)
        monkeypatch.setattr(module, function, exact)
    theirs = performer(causal=causal)
    query = normal(3, B, S, N, H) if causal else QUERY
    expected = theirs(heads_first(query), heads_first(KEY), heads_first(VALUE))
    ours = Linear(favor(theirs), causal=causal, chunk=5)
    agree("performer-pytorch", output_of(ours, query, KEY, VALUE), heads_last(expected))


def test_performer_with_relu() -> None:
    """It divides queries and keys by H^(1/4), and ours by sqrt(M), as the authors' TensorFlow code
    does: beside the 0.001 that is added, that is another kernel."""
    theirs = performer(generalized_attention=True)
    expected = theirs(heads_first(QUERY), heads_first(KEY), heads_first(VALUE))
    ours = Linear(favor(theirs, kernel="relu"))
    factor = theirs.nb_features**0.5 * H**-0.25
    actual = output_of(ours, factor * QUERY, factor * KEY, VALUE)
    agree("performer-pytorch, relu", actual, heads_last(expected))


def test_performer_without_projection() -> None:
    theirs = performer(no_projection=True)
    expected = theirs(heads_first(QUERY), heads_first(KEY), heads_first(VALUE))
    actual = output_of(presets.efficient_attention(), QUERY, KEY, VALUE)
    agree("performer-pytorch, efficient attention", actual, heads_last(expected))


@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
def test_linear_attention(mask: Any) -> None:
    """It is efficient attention divided by sqrt(H), which the paper does not do."""
    module = oracle("linear_attention_transformer.linear_attention_transformer")
    query, value = normal(3, B, S, N, H), normal(4, B, S, N, H)
    inputs = map(heads_first, (query, KEY.copy(), value.copy()))  # it writes into them
    expected = module.linear_attn(*inputs, kv_mask=None if mask is None else tensor(mask))
    actual = output_of(Linear("softmax"), query, KEY, value, key_mask=mask)
    agree("linear-attention-transformer", actual, H**0.5 * heads_last(expected))


@keras.saving.register_keras_serializable(package="tests.oracles")
class SumOfWeights(Softmax):
    """Softmax features whose weights sum to one query by query, not channel by channel."""

    per_channel = False


@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
def test_causal_linear_attention(mask: Any) -> None:
    """Its causal form divides by the sum of a query's weights, and ours channel by channel, as the
    paper's softmax over positions does. Its keys come in blocks, and a query does not see its own
    block, unless that has one key as here."""
    module = oracle("linear_attention_transformer.linear_attention_transformer")
    query, value = normal(3, B, S, N, H), normal(4, B, S, N, H)
    inputs = map(heads_first, (query, KEY.copy(), value.copy()))
    mask_of_theirs = None if mask is None else tensor(mask)
    expected = module.causal_linear_attn(*inputs, kv_mask=mask_of_theirs, bucket_size=1)
    ours = Linear(SumOfWeights(), causal=True, chunk=4)
    actual = output_of(ours, query, KEY, value, key_mask=mask)
    agree("linear-attention-transformer, causal", actual, heads_last(expected))


def test_interleaved_rotary_positions() -> None:
    """Its planes are channels 2m and 2m + 1, as in the paper."""
    module = oracle("linear_attention_transformer.linear_attention_transformer")
    query, key = normal(5, B, S, N, 10), normal(6, B, S, N, 10)
    waves = module.FixedPositionalEmbedding(10, S)(tensor(query[:, :, 0]))
    turned = module.apply_rotory_pos_emb(heads_first(query), heads_first(key), waves)
    expected = np.einsum("btnh,bsnh->bnts", *map(heads_last, turned))
    agree("rotary", Rotary("dot", interleaved=True)(query, key), expected)


def test_rotary_embedding_torch() -> None:
    """The same layout of the channels."""
    turned = oracle("rotary_embedding_torch").RotaryEmbedding(10)
    query, key = normal(5, B, S, N, 10), normal(6, B, S, N, 10)
    theirs = [heads_last(turned.rotate_queries_or_keys(heads_first(x))) for x in (query, key)]
    expected = np.einsum("btnh,bsnh->bnts", *theirs)
    ours = Rotary("dot", interleaved=True)(query, key)
    agree("rotary-embedding-torch", ours, expected)


@pytest.mark.parametrize("length", [S, 8], ids=["whole", "shorter"])
def test_linformer(length: int) -> None:
    """E and F are shared by the heads, and there is no mask; with `share_kv` it shares the
    projections of keys and values too, the paper only E and F."""
    module = oracle("linformer.linformer")
    oracle("torch").manual_seed(0)
    theirs = module.LinformerSelfAttention(dim=12, seq_len=S, k=4, heads=N, dim_head=H)
    query, value = normal(7, B, T, 12), 3 * normal(8, B, length, 12)
    expected = theirs(tensor(query), context=tensor(value))
    names = ("query", "key", "value", "output")
    linear = zip(names, (theirs.to_q, theirs.to_k, theirs.to_v, theirs.to_out), strict=True)
    ours = multi_head(presets.linformer(4, S), N, H, (query, value), **dict(linear))
    projections = {"key_kernel": theirs.proj_k, "value_kernel": theirs.proj_v}
    repeated = {name: np.stack([numpy(p).T] * N) for name, p in projections.items()}
    assign(ours.mechanism.compressor, **repeated)
    agree("linformer", ours(query, value), expected)


def sort_of(module: Any, router: Sinkhorn, blocks: int) -> Any:
    """The paper's network, with the weights of ours and their way to normalise."""
    torch = oracle("torch")
    hidden, sort = (tensor(numpy(w)) for w in router.trainable_weights)

    def order(query: Any, key: Any, topk: int) -> Any:
        total = key.reshape(B, N, blocks, -1, H).sum(3)
        total = torch.relu(torch.einsum("bnch,nhu->bncu", total, hidden))
        logits = torch.einsum("bncu,nuj->bncj", total, sort).reshape(B * N, blocks, blocks)
        return module.sinkhorn_sorting_operator(logits / router.temperature, router.iterations)

    return order


def test_sinkhorn() -> None:
    """It takes sorted keys for sorted values, so here the values are the keys. Its own networks
    look at queries too, and are noisy in inference or, by default, take the best block without
    normalising columns; so the paper's is put in their place."""
    module = oracle("sinkhorn_transformer.sinkhorn_transformer")
    query, key = normal(9, B, 20, N, H), 0.5 * normal(10, B, 20, N, H)
    ours = Routed(Sinkhorn(4, iterations=6))
    ours.build(query.shape, key.shape, key.shape)
    theirs = module.SinkhornAttention(4, N * H, H, N, 20)
    del theirs.sort_net  # PyTorch takes no function in the place of a module
    theirs.sort_net = sort_of(module, ours.router, 5)
    expected = theirs(*map(heads_first, (query, key, key)))
    agree("sinkhorn-transformer", output_of(ours, query, key, key), heads_last(expected))


def test_routing_transformer() -> None:
    """It compares directions where the paper and we compare layer norms: the same for vectors
    whose channels sum to zero, as here. Padding displaces tokens there, and does not here."""
    module = oracle("routing_transformer.routing_transformer")
    oracle("torch").manual_seed(0)
    theirs = module.KmeansAttention(3, 6, N, H).eval()
    theirs.kmeans.initted.fill_(True)  # or its centroids would start from the data
    query, key = (normal(seed, B, S, N, H) for seed in (11, 12))
    query, key = (x - x.mean(axis=-1, keepdims=True) for x in (query, key))
    value = normal(13, B, S, N, H)
    expected, _ = theirs(*map(heads_first, (query, key, value)))
    ours = Routed(KMeans(3, 6))
    ours.build(query.shape, key.shape, value.shape)
    assign(ours.router, centroids=numpy(theirs.kmeans.means))
    agree("routing-transformer", output_of(ours, query, key, value), heads_last(expected))


@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_full_shared_attention(causal: bool) -> None:
    theirs = oracle("reformer_pytorch.reformer_pytorch").FullQKAttention(causal=causal)
    value = normal(4, B, S, N, H)
    flat = (heads_first(3 * x).reshape(B * N, S, H) for x in (KEY, value))
    mask = tensor(np.repeat(MASK, N, axis=0))
    expected = heads_last(theirs(*flat, input_mask=mask)[0].reshape(B, N, S, H))
    ours = Dense(SharedDot(), patterns.Causal() if causal else None)
    actual = numpy(output_of(ours, 3 * KEY, 3 * KEY, 3 * value, key_mask=MASK))
    agree("reformer-pytorch, full", actual[MASK], expected[MASK])


@pytest.mark.parametrize("rounds", [1, 3])
def test_lsh_attention(rounds: int) -> None:
    """Unless told as here it attends across buckets and counts twice what meets twice; the paper,
    and we, do neither. Its rotations are the same for all heads."""
    torch, module = oracle("torch"), oracle("reformer_pytorch.reformer_pytorch")
    length, size = 48, 6
    theirs = module.LSHAttention(
        bucket_size=size,
        n_hashes=rounds,
        attend_across_buckets=False,
        allow_duplicate_attention=False,
    ).eval()
    events, value = 3 * normal(14, B, length, N, H), normal(15, B, length, N, H)
    torch.manual_seed(1)
    rotations = numpy(torch.randn(1, H, rounds, length // size // 2))
    torch.manual_seed(1)
    flat = (heads_first(x).reshape(B * N, length, H) for x in (events, value))
    expected = theirs(*flat)[0].reshape(B, N, length, H)
    ours = Routed(Lsh(size, length // size, rounds))
    ours.build(events.shape, events.shape, value.shape)
    assign(ours.router, rotations=np.repeat(rotations.reshape(1, H, -1), N, axis=0))
    agree("reformer-pytorch, LSH", output_of(ours, events, events, value), heads_last(expected))
