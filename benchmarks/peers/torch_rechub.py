"""AutoInt, DIN and MMOE of torch-rechub, as they are."""

from __future__ import annotations

import torch
from torch_rechub.basic.features import SequenceFeature, SparseFeature
from torch_rechub.models.multi_task import MMOE
from torch_rechub.models.ranking import DIN, AutoInt

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop


def make(settings: Settings) -> torch.nn.Module:
    rows = settings.table_rows
    if settings.has_history:
        user, item = (SparseFeature(name, rows, sizes.HISTORY_WIDTH) for name in ("user", "item"))
        seen = SequenceFeature("seen", rows, sizes.HISTORY_WIDTH, "concat", shared_with="item")
        return DIN(
            [user],
            [seen],
            [item],
            mlp_params={"dims": sizes.MLP_UNITS},
            attention_mlp_params={"dims": sizes.ATTENTION_UNITS},
        )
    fields = [SparseFeature(f"c{i}", rows, sizes.WIDTH) for i in range(sizes.FIELDS)]
    if settings.model == "mmoe":
        towers = [{"dims": sizes.TOWER_UNITS} for _ in settings.tasks]
        kinds = ["classification"] * len(settings.tasks)
        return MMOE(fields, kinds, sizes.EXPERTS, {"dims": sizes.EXPERT_UNITS}, towers)
    return AutoInt(fields, None, num_layers=sizes.LAYERS, num_heads=sizes.HEADS)


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make))
