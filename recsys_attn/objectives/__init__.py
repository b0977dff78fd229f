"""Objectives of sequence models, and losses over a catalogue of items."""

from recsys_attn.objectives.actions import Actions
from recsys_attn.objectives.attributes import Attributes
from recsys_attn.objectives.base import OBJECTIVES, Loss, Objective
from recsys_attn.objectives.contrastive import Contrastive
from recsys_attn.objectives.item_losses import ITEM_LOSSES, ItemLoss, Softmax
from recsys_attn.objectives.masked_item import MaskedItem
from recsys_attn.objectives.next_item import NextItem
from recsys_attn.objectives.permutation import Permutation
from recsys_attn.objectives.replaced_item import ReplacedItem
from recsys_attn.objectives.sampled_losses import (
    BinaryCrossEntropy,
    Bpr,
    GeneralisedBce,
    SampledSoftmax,
)
from recsys_attn.objectives.sampling import SampledLoss
from recsys_attn.objectives.segment import Segment
from recsys_attn.objectives.session_order import SessionOrder

__all__ = [
    "ITEM_LOSSES",
    "OBJECTIVES",
    "Actions",
    "Attributes",
    "BinaryCrossEntropy",
    "Bpr",
    "Contrastive",
    "GeneralisedBce",
    "ItemLoss",
    "Loss",
    "MaskedItem",
    "NextItem",
    "Objective",
    "Permutation",
    "ReplacedItem",
    "SampledLoss",
    "SampledSoftmax",
    "Segment",
    "SessionOrder",
    "Softmax",
]
