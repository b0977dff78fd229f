"""Models of torch-rechub, as they are, but for DIEN's auxiliary loss."""

from __future__ import annotations

from typing import Any

import torch
from torch_rechub.basic.features import SequenceFeature, SparseFeature
from torch_rechub.models.multi_task import MMOE, PLE
from torch_rechub.models.ranking import DIEN, DIN, AutoInt, DCNv2, DeepFM

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop


class Dien(DIEN):
    """Without the auxiliary loss: the events stand for its negatives, which nothing reads."""

    def forward(self, x: dict[str, torch.Tensor]) -> torch.Tensor:
        probability, _ = super().forward({**x, "not_seen": x["seen"]})
        return probability

    def auxiliary(self, outs: torch.Tensor, *others: Any) -> torch.Tensor:
        return outs.new_zeros(())


def make(settings: Settings) -> torch.nn.Module:
    """The model of the settings."""
    if settings.has_history:
        return _of_history(settings)
    rows = settings.table_rows
    fields = [SparseFeature(f"c{i}", rows, sizes.WIDTH) for i in range(sizes.FIELDS)]
    deep = {"dims": sizes.DEEP_UNITS}
    if settings.model == "dcnv2":
        return DCNv2(fields, sizes.CROSS_LAYERS, deep, use_low_rank_mixture=False)
    if settings.model == "deepfm":
        return DeepFM(fields, fields, deep)
    if settings.model in sizes.WITH_TASKS:
        return _of_tasks(settings, fields)
    return AutoInt(fields, None, num_layers=sizes.LAYERS, num_heads=sizes.HEADS)


def _of_history(settings: Settings) -> torch.nn.Module:
    rows, width = settings.table_rows, sizes.HISTORY_WIDTH
    user, last = SparseFeature("user", rows, width), {"dims": sizes.MLP_UNITS}
    if settings.model == "dien":
        item = SparseFeature("item", rows, width, padding_idx=0)
        seen, not_seen = (
            [SequenceFeature(name, rows, width, "concat", shared_with="item", padding_idx=0)]
            for name in ("seen", "not_seen")
        )
        return Dien([user], seen, not_seen, [item], last)
    item = SparseFeature("item", rows, width)
    seen = SequenceFeature("seen", rows, width, "concat", shared_with="item")
    attention = {"dims": sizes.ATTENTION_UNITS}
    return DIN([user], [seen], [item], mlp_params=last, attention_mlp_params=attention)


def _of_tasks(settings: Settings, fields: list[SparseFeature]) -> torch.nn.Module:
    towers = [{"dims": sizes.TOWER_UNITS} for _ in settings.tasks]
    kinds, experts = ["classification"] * len(settings.tasks), {"dims": sizes.EXPERT_UNITS}
    if settings.model == "mmoe":
        return MMOE(fields, kinds, sizes.EXPERTS, experts, towers)
    counts = sizes.EXPERT_LAYERS, sizes.TASK_EXPERTS, sizes.SHARED_EXPERTS
    return PLE(fields, kinds, *counts, experts, towers)


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make))
