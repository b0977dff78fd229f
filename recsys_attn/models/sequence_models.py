"""Sequence models of papers; each function returns a `SequenceModel` for a fitted schema."""

from __future__ import annotations

from typing import Any

from recsys_attn.attention.gates.output import OutputGate
from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.attention.positions.learned import LearnedPositions
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.models.encoded_history import EncoderParts, encoder_parts
from recsys_attn.models.encoders import is_causal
from recsys_attn.models.event_encoder import EventEncoder
from recsys_attn.models.option_tables import EventEncoderOptions, EventEncoderTable
from recsys_attn.models.option_types import (
    Count,
    EncoderPositions,
    Factor,
    Share,
)
from recsys_attn.models.sequence_model import SequenceModel, only_history
from recsys_attn.models.sequence_parts import (
    SEQUENCE_MODELS,
    SMALL_START,
    attention_of,
    event_width,
    model_of,
    parts_of,
)
from recsys_attn.schema import Schema, is_age

# As in HSTU's code: the products of queries and keys start small too.
_SMALL = {"class_name": "RandomNormal", "config": {"stddev": 0.02}}


@SEQUENCE_MODELS.register("sasrec")
def sasrec(
    schema: Schema,
    *,
    width: Count = 64,
    num_layers: Count = 2,
    num_heads: Count = 1,
    dropout: Share = 0.1,
    positions: EncoderPositions | None = None,
    tied: bool = True,
    action: str | None = None,
) -> SequenceModel:
    """SASRec: causal Transformer blocks over the items, and the items' own vectors as output.

    As in the authors' code, a block starts from the normalised events and adds to them: post-norm
    blocks after a normalisation of the events. (Their keys and values are not normalised.)

    The loss decides more than the model: full softmax is SASRec+, and gBCE with a second table and
    a `dropout` of 0.5 is gSASRec.

    Sources: Kang and McAuley, "Self-Attentive Sequential Recommendation", ICDM 2018,
    arXiv 1808.09781; SASRec+: Klenitskiy and Vasilev, RecSys 2023, arXiv 2309.07602; gSASRec:
    Petrov and Macdonald, RecSys 2023, arXiv 2308.07192; TiSASRec: Li et al., WSDM 2020.

    Args:
        schema: A fitted schema of one history, without tasks.
        width: Width of an item's vector and of the blocks. 128 with many items and much data.
        num_layers: Number of blocks.
        num_heads: Number of heads, which share the width.
        dropout: Share of embeddings, weights of attention and outputs that is dropped in training.
        positions: A name or a config of `recsys_attn.attention.positions`. Defaults to `"learned"`,
            counted from the latest event. `{"class_name": "time_intervals", "config": {"values":
            true}}` is TiSASRec, for a history with times.
        tied: Whether the output has the vectors of the input; a second table is gSASRec's.
        action: A sequence whose values are events of their own, each behind its item, for the
            objective `"actions"`.

    Returns:
        A `SequenceModel`.

    Raises:
        ValueError: The schema is not one of a history alone.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import sasrec
    >>> from recsys_attn.schema import Schema, Sequence
    >>> schema = Schema((Sequence("item", size=9, max_length=5),), ())
    >>> model = sasrec(schema, width=8, num_heads=2, positions="rotary")
    >>> tuple(model({"item": np.array([[2, 3, 4, 0, 0]])}).shape)
    (1, 5, 8)
    """
    units = event_width(schema, width, action)
    block = {
        "attention": attention_of(dropout, "causal"),
        "feed_forward_units": units,
        "placement": "post",
        "residual": SMALL_START,
    }
    parts = parts_of(schema, block, num_layers, num_heads, width, dropout, positions, action)
    encoder = EventEncoder.of(parts, dropout, scale=True, normalise=True)
    return model_of(schema, width, encoder, "sasrec", action=action, tied=tied)


@SEQUENCE_MODELS.register("esasrec")
def esasrec(
    schema: Schema,
    *,
    width: Count = 64,
    num_layers: Count = 2,
    num_heads: Count = 1,
    dropout: Share = 0.2,
    positions: EncoderPositions | None = None,
    tied: bool = True,
) -> SequenceModel:
    """eSASRec: SASRec with LiGR's blocks, whose gates see the input before its normalisation.

    `x = x + sigmoid(x W) * dropout(F(norm(x)))`, and SwiGLU in the feed-forward network. The
    paper trains it with a sampled softmax.

    Sources: Tikhonovich et al., "eSASRec: Enhancing Transformer-based Recommendations in a Modular
    Fashion", RecSys 2025, arXiv 2508.06450; blocks: Borisyuk et al., 2025, arXiv 2502.03417.

    Args:
        schema, width, num_layers, num_heads, dropout, positions, tied: As in `sasrec`.

    Returns:
        A `SequenceModel`.
    """
    block = {
        "attention": attention_of(dropout, "causal"),
        "activation": "swiglu",
        "residual": {**SMALL_START, "class_name": "gated"},
    }
    parts = parts_of(schema, block, num_layers, num_heads, width, dropout, positions)
    encoder = EventEncoder.of(parts, dropout, scale=True)
    return model_of(schema, width, encoder, "esasrec", tied=tied)


@SEQUENCE_MODELS.register("bert4rec")
def bert4rec(
    schema: Schema,
    *,
    width: Count = 64,
    num_layers: Count = 2,
    num_heads: Count = 2,
    dropout: Share = 0.2,
    positions: EncoderPositions | None = None,
    tied: bool = True,
) -> SequenceModel:
    """BERT4Rec: blocks in both directions, which learn items that are masked.

    `score = gelu(W h + c) . e_i + b_i`, where h is the output at a learned vector that is appended
    to the history, or at a masked event in training. Train it with the objective `"masked_item"`.
    It needs several times the epochs of SASRec.

    Source: Sun et al., "BERT4Rec: Sequential Recommendation with Bidirectional Encoder
    Representations from Transformer", CIKM 2019, arXiv 1904.06690.

    Args:
        schema, width, num_layers, num_heads, dropout, positions, tied: As in `sasrec`.

    Returns:
        A `SequenceModel`.

    Example:

    >>> from recsys_attn.models import bert4rec
    >>> from recsys_attn.schema import Schema, Sequence
    >>> model = bert4rec(Schema((Sequence("item", size=9, max_length=5),), ()), width=8)
    >>> model.is_causal, model.appends
    (False, 'mask')
    """
    block = {
        "attention": attention_of(dropout),
        "activation": "gelu",
        "placement": "post",
    }
    parts = parts_of(schema, block, num_layers, num_heads, width, dropout, positions)
    encoder = EventEncoder.of(parts, dropout, normalise=True)
    head: dict[str, Any] = {"bias": True, "hidden": "gelu", "tied": tied}
    return model_of(schema, width, encoder, "bert4rec", appends="mask", **head)


@SEQUENCE_MODELS.register("xlnet")
def xlnet(
    schema: Schema,
    *,
    width: Count = 64,
    num_layers: Count = 2,
    num_heads: Count = 2,
    dropout: Share = 0.2,
    tied: bool = True,
) -> SequenceModel:
    """XLNet over items: every order of prediction, by a second stream of queries.

    Its score knows the distances of events in both directions. Train it with the objective
    `"permutation"`. A step costs twice that of BERT4Rec.

    Source: Yang et al., "XLNet: Generalized Autoregressive Pretraining for Language
    Understanding", NeurIPS 2019, arXiv 1906.08237.

    Args:
        schema, width, num_layers, num_heads, dropout, tied: As in `sasrec`.

    Returns:
        A `SequenceModel`.

    Example:

    >>> from recsys_attn.models import xlnet
    >>> from recsys_attn.schema import Schema, Sequence
    >>> model = xlnet(Schema((Sequence("item", size=9, max_length=5),), ()), width=8)
    >>> model.is_causal, model.appends
    (False, 'query')
    """
    length = only_history(schema)[1][0].max_length
    mechanism = {"class_name": "xlnet", "config": {"max_distance": length, "dropout": dropout}}
    block = {"attention": mechanism, "placement": "post", "activation": "gelu"}
    parts = parts_of(schema, block, num_layers, num_heads, width, dropout, None)
    encoder = EventEncoder.of(parts, dropout, scale=True, normalise=True)
    return model_of(schema, width, encoder, "xlnet", appends="query", tied=tied)


@SEQUENCE_MODELS.register("hstu")
def hstu(
    schema: Schema,
    *,
    width: Count = 50,
    num_layers: Count = 2,
    num_heads: Count = 1,
    head_dim: Count | None = None,
    dropout: Share = 0.2,
    temperature: Factor = 0.05,
    tied: bool = True,
    action: str | None = None,
) -> SequenceModel:
    """HSTU: blocks of one pointwise attention with a gate, and cosines as scores.

    `x = x + W_o(norm(A V) * U)`, `A = silu(Q K^T + places + times) / S`, with `U, V, Q, K` of
    `silu(W norm(x))`, S the longest history, a bias by place and, with times, one by the logarithm
    of the time between an event and the one to predict, which is that of the request for the next
    item. HSTU-large has 8 blocks of 2 heads of 25. The paper trains both with a softmax of 128
    uniform negatives, which stand close to each other in the cosine: keep the temperature.

    Source: Zhai et al., "Actions Speak Louder than Words: Trillion-Parameter Sequential
    Transducers for Generative Recommendations", ICML 2024, arXiv 2402.17152.

    Args:
        schema, width, num_layers, num_heads, dropout, tied: As in `sasrec`.
        head_dim: Size of a head. Defaults to the width divided by the heads.
        temperature: Divides the cosines.
        action: As in `sasrec`: the generative form of the paper.

    Returns:
        A `SequenceModel`.
    """
    sequences = only_history(schema)[1]
    length = sequences[0].max_length * (1 if action is None else 2)
    buckets = {"num_buckets": 4 * length, "max_distance": 2 * length}
    places = {"class_name": "relative_buckets", "config": buckets}
    by_time = any(map(is_age, sequences))
    times = {"class_name": "time_buckets", "config": {"next_event": True}}
    terms = ["dot", times, places] if by_time else ["dot", places]
    mechanism = {
        "score": {"class_name": "sum", "config": {"scores": terms}},
        "pattern": "causal",
        "weighting": {"class_name": "silu", "config": {"length": length}},
    }
    size = head_dim or max(1, event_width(schema, width, action) // num_heads)

    def block() -> TransformerBlock:
        gate = OutputGate("silu", normalise=True)
        attention = MultiHeadAttention(
            num_heads,
            size,
            {"class_name": "dense", "config": mechanism},
            value="silu",
            activation="silu",
            gate=gate,
        )
        attention.kernel_initializer = gate.kernel_initializer = _SMALL
        return TransformerBlock(attention, feed_forward_units=0, dropout=dropout)

    blocks = TransformerEncoder([block() for _ in range(num_layers)])
    parts = EncoderParts(blocks, LearnedPositions(length), False)
    encoder = EventEncoder.of(parts, dropout, scale=True)
    head: dict[str, Any] = {"temperature": temperature, "tied": tied}
    return model_of(schema, width, encoder, "hstu", action=action, **head)


@SEQUENCE_MODELS.register("sequence_encoder")
def sequence_encoder(
    schema: Schema,
    *,
    width: Count = 64,
    encoder: EventEncoderTable = EventEncoderOptions(name="gru", num_heads=2, head_dim=32),
    dropout: Share = 0.2,
    tied: bool = True,
) -> SequenceModel:
    """Any encoder of the family in the place of SASRec's blocks; by default GRU4Rec.

    An encoder whose states depend on later events needs the objective `"masked_item"`, and gets a
    learned vector behind the history, as BERT4Rec. Causal ones: `"gru"`, `"lstm"`;
    `{"class_name": "linear_transformer", "config": {"causal": true}}`, and so `"retention"` and
    `"gated_linear_attention"`; `{"class_name": "segments", ...}`, Transformer-XL with a memory.

    Sources: Hidasi et al., "Session-based Recommendations with Recurrent Neural Networks"
    (GRU4Rec), ICLR 2016, arXiv 1511.06939; those of the encoders.

    Args:
        schema, width, dropout, tied: As in `sasrec`.
        encoder: Of `EventEncoderOptions`: `name`, `num_layers`, `num_heads`, `head_dim`,
            `positions`.

    Returns:
        A `SequenceModel`.

    Example:

    >>> from recsys_attn.models import sequence_encoder
    >>> from recsys_attn.schema import Schema, Sequence
    >>> model = sequence_encoder(Schema((Sequence("item", size=9, max_length=5),), ()), width=8)
    >>> model.is_causal, model.appends
    (True, None)
    """
    parts = encoder_parts(encoder, only_history(schema)[1], (2, 32))
    event_encoder = EventEncoder.of(parts, dropout)
    appends = None if is_causal(event_encoder.encoder) else "mask"
    return model_of(schema, width, event_encoder, "sequence_encoder", appends=appends, tied=tied)
