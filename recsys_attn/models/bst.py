"""BST: a Transformer over the events and the candidate."""

from __future__ import annotations

from recsys_attn.attention.layers.multi_head import MultiHeadAttention
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.transformer import TransformerBlock
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.encoded_history import require_histories
from recsys_attn.models.option_types import Activation, Count, Heads, HeadSize, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.target_sequence import TargetSequence
from recsys_attn.models.tower import Tower
from recsys_attn.schema import Schema, is_age


@MODELS.register("bst")
def bst(
    schema: Schema,
    *,
    width: Count = 16,
    num_layers: Count = 1,
    num_heads: Heads = 8,
    head_dim: HeadSize = 8,
    mlp_units: Sizes = (1024, 512, 256),
    activation: Activation = "leaky_relu",
    dropout: Share = 0.2,
) -> RankingModel:
    """Behavior Sequence Transformer: events and candidate in one Transformer, then an MLP.

    Each event, and the candidate after them, has a vector of its position beside it: of the time
    from the event to the request where the history has ages (a sequence with the transform
    `"age"`), else of its place counted from the candidate. The MLP gets the outputs of all
    positions side by side: those of the last `max_length` events of the history, with zeros in
    front of fewer. The Transformer runs for each candidate, so nothing of it is shared by those of
    a request: keep `max_length` short, 20 as in the paper. `explain` has the candidate's weights in
    the last block.

    Source: Chen et al., "Behavior Sequence Transformer for E-commerce Recommendation in Alibaba",
    DLP-KDD 2019, arXiv 1905.06874.

    Args:
        schema: A fitted schema with at least one `Sequence`.
        width: Embedding width, and the width of the vectors of positions.
        num_layers: Number of Transformer blocks; the paper found one the best.
        num_heads, head_dim: Number and size of the heads of a block.
        mlp_units: Hidden units of the network over all fields.
        activation: Activation of the blocks and of that network.
        dropout: Dropout of the blocks and of the network.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: The schema has no history.
    """
    require_histories(schema, "bst")

    def block() -> TransformerBlock:
        attention = MultiHeadAttention(num_heads, head_dim)
        return TransformerBlock(attention, activation=activation, placement="post", dropout=dropout)

    histories = {
        name: TargetSequence(
            TransformerEncoder([block() for _ in range(num_layers)]),
            sequences[0].max_length,
            width,
            by_time=any(map(is_age, sequences)),
        )
        for name, sequences in schema.histories.items()
    }
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories,
            FieldInteraction(mlp=Mlp(mlp_units, activation=activation, dropout=dropout)),
            TaskHeads([task.name for task in schema.tasks]),
        ),
        name="bst",
    )
