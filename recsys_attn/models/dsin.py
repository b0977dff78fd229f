"""DSIN: interests of sessions."""

from __future__ import annotations

from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import require_ages, require_histories
from recsys_attn.models.option_types import Count, Heads, HeadSize, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.session_interests import SessionInterests
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("dsin")
def dsin(
    schema: Schema,
    *,
    width: Count = 16,
    session_gap: Count = 1800,
    max_sessions: Count = 5,
    max_events: Count = 10,
    num_heads: Heads = 8,
    head_dim: HeadSize = 8,
    units: Count = 16,
    mlp_units: Sizes = (200, 80),
    dropout: Share = 0.0,
) -> RankingModel:
    """Deep Session Interest Network: self-attention in sessions, an LSTM over them, their weights.

    Sessions, their self-attention and the LSTM are computed once for a request; a candidate weighs
    the sessions before and after the LSTM. `explain` has the weight of each event and of its
    session before it. The LSTM has no peepholes, unlike that of the paper's equations. The states
    of both directions are concatenated; the authors' code averages them.

    Source: Feng et al., "Deep Session Interest Network for Click-Through Rate Prediction",
    IJCAI 2019, arXiv 1905.06482; sizes are those of the authors' code, heads as in the Transformer.

    Args:
        schema: A fitted schema; each history has a sequence with the transform `"age"`.
        width: Embedding width.
        session_gap: Seconds without an event after which a new session begins.
        max_sessions: Number of last sessions that count.
        max_events: Number of last events of a session that count.
        num_heads, head_dim: Number and size of the heads of self-attention.
        units: Size of the LSTM in each direction.
        mlp_units: Hidden units of the network over all fields.
        dropout: Dropout of self-attention and of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: The schema has no history, or one without ages.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import dsin
    >>> from recsys_attn import Age, Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> ages = Sequence("ages", dtype="int64", transform=Age())
    >>> model = dsin(Schema((item, seen, ages), (Task("click"),)), width=4, units=3)
    >>> inputs = {"item": [[2, 3, 4]], "seen": [[5, 6]], "ages": [[7202, 12]]}
    >>> logits = model({name: np.array(values) for name, values in inputs.items()})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_histories(schema, "dsin")
    for sequences in schema.histories.values():
        require_ages(sequences, "dsin")

    def encoder() -> TransformerBlock:
        attention = MultiHeadAttention(num_heads, head_dim)
        return TransformerBlock(attention, placement="post", dropout=dropout)

    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            {
                name: SessionInterests(encoder(), units, session_gap, max_sessions, max_events)
                for name in schema.histories
            },
            FieldInteraction(mlp=Mlp(mlp_units, dropout=dropout)),
            TaskHeads([task.name for task in schema.tasks]),
        ),
        name="dsin",
    )
