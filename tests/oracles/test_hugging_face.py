"""Attention of Hugging Face's models against ours."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recsys_attn.attention import (
    Dense,
    MultiHeadAttention,
    Routed,
    SegmentAttention,
    TwoStreamEncoder,
    patterns,
    presets,
)
from recsys_attn.attention.routers import Lsh
from recsys_attn.attention.scores import Dot, RelativeBuckets, RelativeDot, SharedDot
from recsys_attn.blocks import TransformerBlock, TransformerEncoder
from tests.oracles.support import agree, assign, multi_head, normal, numpy, oracle, tensor

B, N, H = 2, 3, 7
E = N * H
MODELS = "transformers.models"


WINDOW, TOKENS = 5, (0, 13)
LONGFORMERS = {
    "window, dense": (lambda: Dense(pattern=patterns.Local(WINDOW)), ()),
    "window, routed": (lambda: presets.local(WINDOW), ()),
    "global, dense": (
        lambda: Dense(pattern=patterns.Local(WINDOW) | patterns.Global(TOKENS)),
        TOKENS,
    ),
    "global, routed": (lambda: presets.longformer(WINDOW, TOKENS), TOKENS),
}


@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize(("make", "tokens"), LONGFORMERS.values(), ids=LONGFORMERS)
def test_longformer(make: Any, tokens: tuple[int, ...], padding: int) -> None:
    """Queries of global positions have projections of their own, which are copied from the others
    here: ours has one set. The length must be a multiple of the window's 2 * 5."""
    module, torch = oracle(f"{MODELS}.longformer.modeling_longformer"), oracle("torch")
    torch.manual_seed(0)
    config = module.LongformerConfig(
        hidden_size=E,
        num_attention_heads=N,
        attention_window=[2 * WINDOW],
        attention_probs_dropout_prob=0.0,
    )
    theirs = module.LongformerSelfAttention(config, layer_id=0)
    linear = {name: getattr(theirs, name) for name in ("query", "key", "value")}
    for name, projection in linear.items():
        getattr(theirs, f"{name}_global").load_state_dict(projection.state_dict())
    events = 2 * normal(1, B, 30, E)
    present = np.ones((B, 30), bool)
    present[0, 30 - padding :] = False
    state = np.where(present, 0.0, -1e4)  # below 0: padding, above 0: global
    state[:, list(tokens)] = 1e4
    state = tensor(state)
    expected = theirs(
        tensor(events),
        attention_mask=state,
        is_index_masked=state < 0,
        is_index_global_attn=state > 0,
        is_global_attn=bool(tokens),
    )[0]
    ours = multi_head(make(), N, H, (events,), **linear, output=None)
    agree("Hugging Face Longformer", ours(events, query_mask=present), expected)


SIZE, BLOCKS, RANDOM = 5, 17, 2


def big_bird(training: bool, plan: Any = None) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Their layer, its events, its output and its random blocks (N, 15, 2), or with those given."""
    module, torch = oracle(f"{MODELS}.big_bird.modeling_big_bird"), oracle("torch")
    torch.manual_seed(0)
    config = module.BigBirdConfig(
        hidden_size=E, num_attention_heads=N, block_size=SIZE, num_random_blocks=RANDOM
    )
    theirs = module.BigBirdBlockSparseAttention(config, seed=0).train(training)
    draw, plans = theirs._bigbird_block_rand_mask_with_head, []

    def remember(**sizes: Any) -> Any:
        plans.append(np.array(draw(**sizes) if plan is None else plan))
        return plans[-1]

    theirs._bigbird_block_rand_mask_with_head = remember
    events = 2 * normal(1, B, SIZE * BLOCKS, E)
    masks = module.BigBirdModel.create_masks_for_block_sparse_attn
    blocks, band, rows, columns = masks(torch.ones(events.shape[:2]), SIZE)
    output, _ = theirs(tensor(events), band, rows, columns, blocks, blocks)
    return theirs, events, output, plans[0]


def in_ours(theirs: Any, mechanism: Any, events: np.ndarray) -> Any:
    linear = {name: getattr(theirs, name) for name in ("query", "key", "value")}
    return multi_head(mechanism, N, H, (events,), **linear, output=None)


def meetings(plan: np.ndarray) -> np.ndarray:
    """How often they count each pair of a query and a key: (N, S, S)."""
    counts = np.zeros((N, BLOCKS, BLOCKS))
    index = np.arange(BLOCKS)
    counts[:, np.abs(index[:, None] - index) <= 1] = 1
    counts[:, :, [0, -1]] = 1
    for head, row, block in np.ndindex(plan.shape):
        counts[head, row + 1, plan[head, row, block]] += 1
    counts[:, [0, -1]] = 1
    return counts.repeat(SIZE, axis=1).repeat(SIZE, axis=2)


@pytest.mark.parametrize("training", [True, False], ids=["in training", "in inference"])
def test_big_bird_with_their_blocks(training: bool) -> None:
    """They draw random blocks in training alone, and from the first 2 * 2 + 5 blocks only. In
    inference the first block stands in the place of each, and counts 1 + 2 times."""
    theirs, events, expected, plan = big_bird(training)
    assert plan.max() < 2 * RANDOM + 5
    assert training or not plan.any()
    counts = meetings(plan)[None]
    ours = in_ours(theirs, "transformer", events)
    bias = np.log(np.maximum(counts, 1)).astype("float32")
    actual = ours(events, attention_mask=counts > 0, attention_bias=bias)
    agree("Hugging Face BigBird, their blocks", actual, expected)


def test_big_bird_with_our_blocks() -> None:
    """A random block that is in the band or at an end too counts twice in theirs, once in ours."""
    plan = numpy(patterns.random_plan(np.arange(BLOCKS), BLOCKS, RANDOM, seed=2))
    theirs, events, expected, plan = big_bird(True, np.stack([plan[1:-1]] * N))
    once = meetings(plan).max(axis=(0, 2)) == 1
    assert SIZE * 6 <= once.sum() < SIZE * BLOCKS
    pattern = patterns.Block(SIZE, 1) | patterns.EdgeBlocks(SIZE)
    pattern |= patterns.RandomBlocks(SIZE, RANDOM, seed=2)
    routed = presets.bigbird(SIZE, RANDOM, seed=2)
    for name, mechanism in (("dense", Dense(pattern=pattern)), ("routed", routed)):
        actual = numpy(in_ours(theirs, mechanism, events)(events))
        agree(f"Hugging Face BigBird, {name}", actual[:, once], numpy(expected)[:, once])


def reformer(**config: Any) -> Any:
    module, torch = oracle(f"{MODELS}.reformer.modeling_reformer"), oracle("torch")
    torch.manual_seed(0)
    sizes = {"hidden_size": E, "num_attention_heads": N, "attention_head_size": H}
    config = {"is_decoder": False, "lsh_attention_probs_dropout_prob": 0.0, **sizes, **config}
    return module.LSHSelfAttention(module.ReformerConfig(**config), layer_idx=0)


REFORMERS = {
    "dense": lambda score: Dense(score),
    "causal": lambda score: Dense(score, "causal"),
    "one bucket": lambda score: Routed(Lsh(31, buckets=1), score),
}


@pytest.mark.parametrize("name", REFORMERS)
def test_reformer_in_one_chunk(name: str) -> None:
    """As in the authors' code, nothing is divided by sqrt(H), unlike in the paper."""
    theirs = reformer(is_decoder=name == "causal", lsh_attn_chunk_length=31)
    events = 3 * normal(2, B, 31, E)
    expected = theirs(tensor(events)).hidden_states
    linear = {"query": theirs.query_key, "value": theirs.value, "output": None}
    mechanism = REFORMERS[name](SharedDot(scale=False))
    ours = multi_head(mechanism, N, H, (events,), **linear)
    agree("Hugging Face Reformer, one chunk", ours(events), expected)


CHUNK, BUCKETS, ROUNDS, SEED = 4, 4, 2, 0


def hashed(rotations: np.ndarray, padding: int) -> tuple[np.ndarray, np.ndarray]:
    """Queries (B, S, N, H), and which are real: one for each pair of buckets of the two rounds."""
    rng = np.random.default_rng(3)
    count = BUCKETS**ROUNDS
    events = rng.normal(size=(B, count + padding, N, H))
    present = np.zeros((B, count + padding), bool)
    signs = np.concatenate([np.eye(BUCKETS // 2), -np.eye(BUCKETS // 2)])
    first, second = np.divmod(np.arange(count), BUCKETS)
    wanted = 9 * np.concatenate([signs[first], signs[second]], axis=1)  # (S, all directions)
    for batch in range(B):
        present[batch, rng.permutation(count + padding)[:count]] = True
        for head in range(N):
            rotation = rotations[head].reshape(H, -1)
            missing = rng.permutation(wanted) - events[batch, present[batch], head] @ rotation
            events[batch, present[batch], head] += missing @ np.linalg.pinv(rotation)
    return events.astype("float32"), present


@pytest.mark.parametrize("padding", [0, CHUNK])
def test_reformer_with_lsh(padding: int) -> None:
    """They attend across buckets, and count twice what two rounds bring together. So here each
    bucket fills one chunk, which meets no other, and no pair meets twice."""
    torch = oracle("torch")
    theirs = reformer(
        num_buckets=BUCKETS,
        num_hashes=ROUNDS,
        lsh_attn_chunk_length=CHUNK,
        lsh_num_chunks_before=0,
        hash_seed=SEED,
    )
    theirs.query_key.weight.data = torch.eye(E)
    torch.manual_seed(SEED)
    rotations = numpy(torch.randn(N, H, ROUNDS, BUCKETS // 2))
    events, present = hashed(rotations, padding)
    events = events.reshape(*events.shape[:2], E)
    expected = theirs(tensor(events), attention_mask=tensor(present)).hidden_states
    linear = {"query": theirs.query_key, "value": theirs.value, "output": None}
    mechanism = Routed(Lsh(CHUNK, BUCKETS, ROUNDS), SharedDot(scale=False))
    ours = multi_head(mechanism, N, H, (events,), **linear)
    assign(mechanism.router, rotations=rotations.reshape(N, H, -1))
    actual = numpy(ours(events, query_mask=present))
    agree("Hugging Face Reformer, LSH", actual[present], numpy(expected)[present])


@pytest.mark.parametrize("decoder", [False, True], ids=["both sides", "past"])
def test_t5(decoder: bool) -> None:
    """Over keys from elsewhere their queries start at position 0, not at the last keys'."""
    module, torch = oracle(f"{MODELS}.t5.modeling_t5"), oracle("torch")
    torch.manual_seed(0)
    config = module.T5Config(
        d_model=E,
        d_kv=H,
        num_heads=N,
        dropout_rate=0.0,
        is_decoder=decoder,
        relative_attention_num_buckets=12,
        relative_attention_max_distance=37,
        attn_implementation="eager",
    )
    theirs = module.T5Attention(config, has_relative_attention_bias=True, layer_idx=0)
    query, value = normal(4, B, 23, E), normal(5, B, 59, E)
    expected = theirs(tensor(query), key_value_states=tensor(value))[0]
    bias = RelativeBuckets(12, 37, bidirectional=not decoder)
    names = {"query": "q", "key": "k", "value": "v", "output": "o"}
    linear = {name: getattr(theirs, short) for name, short in names.items()}
    ours = multi_head(Dense(Dot() + bias), N, H, (query, value), **linear)
    assign(bias, table=numpy(theirs.relative_attention_bias.weight).T)
    agree("Hugging Face T5", ours(query, value, query_positions=np.arange(23)), expected)


HEADS, WIDTH, LENGTH = 3, 24, 11  # their encoding of positions needs an even width


def two_streams_of(theirs: Any, x: np.ndarray, ranks: np.ndarray) -> TwoStreamEncoder:
    """Our encoder with the weights of an `XLNetModel`."""
    norm = {"class_name": "layer", "config": {"epsilon": theirs.config.layer_norm_eps}}
    blocks = []
    for layer in theirs.layer:
        score = Dot(True, query_bias=True) + RelativeDot(LENGTH, scale=True, units=WIDTH)
        own = MultiHeadAttention(HEADS, WIDTH // HEADS, Dense(score), use_bias=False)
        units = layer.ff.layer_1.out_features
        blocks.append(
            TransformerBlock(SegmentAttention(own), units, "gelu", norm=norm, placement="post")
        )
    ours = TwoStreamEncoder(TransformerEncoder(blocks))
    ours(x, ranks)
    ours.start.assign(numpy(theirs.mask_emb)[0, 0])
    for block, layer in zip(blocks, theirs.layer, strict=True):
        part, own = layer.rel_attn, block.attention.attention
        for name in ("query", "key", "value"):
            kernel = numpy(getattr(part, name[0])).reshape(WIDTH, WIDTH)
            assign(own, **{f"{name}_kernel": kernel})
        assign(own, output_kernel=numpy(part.o).transpose(1, 2, 0).reshape(WIDTH, WIDTH))
        content, place = own.mechanism.score.scores
        assign(content, query_bias=numpy(part.r_w_bias))
        assign(place, kernel=numpy(part.r).transpose(1, 0, 2), position_bias=numpy(part.r_r_bias))
        block.attention.segment_bias.assign(numpy(part.r_s_bias))
        block.attention.segments.assign(numpy(part.seg_embed))
        for sublayer, module in zip(block.sublayers, (part, layer.ff), strict=True):
            weights = module.layer_norm.weight, module.layer_norm.bias
            sublayer.exit_norm.set_weights([numpy(w) for w in weights])
        dense = layer.ff.layer_1, layer.ff.layer_2
        block.feed_forward.set_weights(
            [numpy(w) for each in dense for w in (each.weight.T, each.bias)]
        )
    return ours


def test_xlnet_over_two_streams_with_segments() -> None:
    """1 in its `perm_mask` means "must not attend"; queries of all positions are asked for."""
    module, torch = oracle(f"{MODELS}.xlnet.modeling_xlnet"), oracle("torch")
    torch.manual_seed(0)
    config = module.XLNetConfig(
        vocab_size=5, d_model=WIDTH, n_layer=2, n_head=HEADS, d_inner=30, dropout=0.0
    )
    theirs = module.XLNetModel(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
    x, rng = normal(1, B, LENGTH, WIDTH), np.random.default_rng(2)
    ranks = rng.permuted(np.tile(np.arange(LENGTH), (B, 1)), axis=1)
    segments = np.sort(rng.integers(0, 3, size=(B, LENGTH)), axis=1)
    hidden = (ranks[:, None, :] >= ranks[:, :, None]).astype("float32")
    given = {
        "inputs_embeds": tensor(x),
        "perm_mask": tensor(hidden),
        "token_type_ids": tensor(segments),
    }
    every = tensor(np.tile(np.eye(LENGTH, dtype="float32"), (B, 1, 1)))
    ours = two_streams_of(theirs, x, ranks)(x, ranks, segments=segments)
    agree("Hugging Face XLNet, content stream", ours[0], theirs(**given)[0])
    # The first of the order sees nothing: zeros here, and the mean of all values there.
    after = ranks > 0
    expected = numpy(theirs(**given, target_mapping=every)[0])
    agree("Hugging Face XLNet, query stream", numpy(ours[1])[after], expected[after])
