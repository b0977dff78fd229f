"""Parts that any model may use."""

from recsys_attn.blocks.dice import Dice
from recsys_attn.blocks.mlp import Mlp

__all__ = ["Dice", "Mlp"]
