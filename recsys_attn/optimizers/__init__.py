"""Optimizers for large embedding tables: the cost of a step grows with the batch only."""

from recsys_attn.optimizers.adagrad import LazyAdagrad, RowWiseAdagrad
from recsys_attn.optimizers.adam import LazyAdam
from recsys_attn.optimizers.loss_scale import LossScale
from recsys_attn.optimizers.row_optimizer import RowOptimizer
from recsys_attn.optimizers.schedules import InverseSqrtDecay, WarmUp
from recsys_attn.optimizers.split_optimizer import Split

__all__ = [
    "InverseSqrtDecay",
    "LazyAdagrad",
    "LazyAdam",
    "LossScale",
    "RowOptimizer",
    "RowWiseAdagrad",
    "Split",
    "WarmUp",
]
