"""Masks known only with the batch: True always means "may be attended", and masks meet by AND."""

from recsys_attn.attention.masks.pairs import allowed_pairs, pairwise
from recsys_attn.attention.masks.requests import candidates, recency, time_gaps
from recsys_attn.attention.masks.sequences import (
    padding,
    permutation,
    prefix,
    sequence_to_sequence,
)

__all__ = [
    "allowed_pairs",
    "candidates",
    "padding",
    "pairwise",
    "permutation",
    "prefix",
    "recency",
    "sequence_to_sequence",
    "time_gaps",
]
