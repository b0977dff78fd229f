"""Building blocks of models: MLP, Dice, Transformer blocks, position embeddings."""

from recsys_attn.blocks.dice import Dice
from recsys_attn.blocks.feed_forward import FeedForward
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.positions.axial import AxialPositions
from recsys_attn.blocks.positions.coordinates import CoordinatePositions
from recsys_attn.blocks.positions.learned import LearnedPositions
from recsys_attn.blocks.positions.sinusoidal import SinusoidalPositions
from recsys_attn.blocks.transformer import TransformerBlock, TransformerEncoder

__all__ = [
    "AxialPositions",
    "CoordinatePositions",
    "Dice",
    "FeedForward",
    "LearnedPositions",
    "Mlp",
    "SinusoidalPositions",
    "TransformerBlock",
    "TransformerEncoder",
]
