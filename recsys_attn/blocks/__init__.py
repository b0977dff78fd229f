"""Building blocks of models: MLP, Dice, Transformer blocks, mixers."""

from recsys_attn.blocks.attentional_gru import AttentionalGru
from recsys_attn.blocks.control_tokens import ControlTokens
from recsys_attn.blocks.decoder import TransformerDecoder
from recsys_attn.blocks.decoder_block import TransformerDecoderBlock
from recsys_attn.blocks.dice import Dice
from recsys_attn.blocks.encoder import TransformerEncoder
from recsys_attn.blocks.factorized_dense import FactorizedDense
from recsys_attn.blocks.feed_forward import FeedForward
from recsys_attn.blocks.film import ConditionalNorm, Film
from recsys_attn.blocks.gate_unit import GateUnit
from recsys_attn.blocks.gating_mixer import GatingMixer
from recsys_attn.blocks.mlp import Mlp
from recsys_attn.blocks.position_mixers import FourierMixer, TokenMixer
from recsys_attn.blocks.segment_memory import SegmentMemory
from recsys_attn.blocks.sequence_mixers import ConvolutionMixer, RecurrentMixer
from recsys_attn.blocks.squeeze_excitation import SqueezeExcitation
from recsys_attn.blocks.transformer import TransformerBlock

__all__ = [
    "AttentionalGru",
    "ConditionalNorm",
    "ControlTokens",
    "ConvolutionMixer",
    "Dice",
    "FactorizedDense",
    "FeedForward",
    "Film",
    "FourierMixer",
    "GateUnit",
    "GatingMixer",
    "Mlp",
    "RecurrentMixer",
    "SegmentMemory",
    "SqueezeExcitation",
    "TokenMixer",
    "TransformerBlock",
    "TransformerDecoder",
    "TransformerDecoderBlock",
    "TransformerEncoder",
]
