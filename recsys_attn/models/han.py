"""Hierarchical attention over the sessions of a user."""

from __future__ import annotations

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import require_ages, require_histories
from recsys_attn.models.option_types import Count, Mechanism, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.session_history import SessionHistory
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema


@MODELS.register("han")
def han(
    schema: Schema,
    *,
    width: Count = 16,
    units: Count = 16,
    session_gap: Count = 1800,
    max_sessions: Count = 10,
    max_events: Count = 20,
    attention: Mechanism = "han",
    mlp_units: Sizes = (128, 64),
    dropout: Share = 0.0,
) -> RankingModel:
    """Hierarchical attention: events to sessions, sessions to a user, then an MLP over all fields.

    Each level has a bidirectional GRU and attention of a learned query. `explain` has the weight of
    each event and of its session.

    Source: Yang et al., "Hierarchical Attention Networks for Document Classification", NAACL-HLT
    2016: words are events here, and sentences sessions.

    Args:
        schema: A fitted schema; each history has a sequence with the transform `"age"`.
        width: Embedding width.
        units: Size of the GRUs in each direction.
        session_gap: Seconds without an event after which a new session begins.
        max_sessions: Number of last sessions that count.
        max_events: Number of last events of a session that count.
        attention: Attention at both levels, of `recsys_attn.attention.presets`, with weights.
        mlp_units: Hidden units of the network over all fields.
        dropout: Dropout of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: The schema has no history, or one without ages.
    """
    require_histories(schema, "han")
    for sequences in schema.histories.values():
        require_ages(sequences, "han")
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories={
                name: SessionHistory(units, session_gap, max_sessions, max_events, attention)
                for name in schema.histories
            },
            interaction=FieldInteraction(mlp=Mlp(mlp_units, dropout=dropout)),
            head=TaskHeads([task.name for task in schema.tasks]),
        ),
        name="han",
    )
