"""Engines run the work of a step: in this process or on a Ray cluster, with the same results."""

from pipelines.engines.base import LOCAL, Engine, LocalEngine, Work, tree
from pipelines.engines.choose import choose_engine, train_on_ray

__all__ = ["LOCAL", "Engine", "LocalEngine", "Work", "choose_engine", "train_on_ray", "tree"]
