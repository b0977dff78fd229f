"""Masks of a batch, as tensors. True means "may be attended"; masks combine by AND."""

from recsys_attn.attention.core.masks import Masks
from recsys_attn.attention.core.places import recency
from recsys_attn.attention.masks.request_masks import candidates, time_gaps
from recsys_attn.attention.masks.sequence_masks import (
    padding,
    permutation,
    prefix,
    sequence_to_sequence,
)

__all__ = [
    "Masks",
    "candidates",
    "padding",
    "permutation",
    "prefix",
    "recency",
    "sequence_to_sequence",
    "time_gaps",
]
