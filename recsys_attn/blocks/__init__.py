"""Building blocks of models: MLP, Dice, Transformer blocks, position embeddings."""

from recsys_attn.blocks.dice import Dice
from recsys_attn.blocks.feed_forward import FeedForward
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.position_embeddings import LearnedPositions, SinusoidalPositions
from recsys_attn.blocks.transformer import TransformerBlock, TransformerEncoder

__all__ = [
    "Dice",
    "FeedForward",
    "LearnedPositions",
    "Mlp",
    "SinusoidalPositions",
    "TransformerBlock",
    "TransformerEncoder",
]
