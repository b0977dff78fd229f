"""AutoInt, DIN and MMOE of DeepCTR-Torch, as they are, without regularizers.

All tables and layers begin with one standard deviation; with its default of 0.0001 the networks
hardly begin to learn in the steps of a benchmark.
"""

from __future__ import annotations

import torch

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop, pretend

pretend("requests")  # with which it would look for a newer version

from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat  # noqa: E402
from deepctr_torch.models import DIN, AutoInt  # noqa: E402
from deepctr_torch.models.multitask import MMOE  # noqa: E402

START = 0.05


def make(settings: Settings) -> torch.nn.Module:
    rows, common = settings.table_rows, {"l2_reg_embedding": 0.0, "init_std": START}
    common["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    if settings.has_history:
        user, item = (SparseFeat(name, rows, sizes.HISTORY_WIDTH) for name in ("user", "item"))
        past = SparseFeat("hist_item", rows, sizes.HISTORY_WIDTH, embedding_name="item")
        seen = VarLenSparseFeat(past, sizes.HISTORY, length_name="length")
        return DIN(
            [user, item, seen],
            ["item"],
            dnn_hidden_units=sizes.MLP_UNITS,
            att_hidden_size=sizes.ATTENTION_UNITS,
            **common,
        )
    fields = [SparseFeat(f"c{i}", rows, sizes.WIDTH) for i in range(sizes.FIELDS)]
    if settings.model == "mmoe":
        return MMOE(
            fields,
            num_experts=sizes.EXPERTS,
            expert_dnn_hidden_units=sizes.EXPERT_UNITS,
            gate_dnn_hidden_units=(),
            tower_dnn_hidden_units=sizes.TOWER_UNITS,
            task_types=["binary"] * len(settings.tasks),
            task_names=settings.tasks,
            **common,
        )
    return AutoInt([], fields, sizes.LAYERS, sizes.HEADS, dnn_hidden_units=(), **common)


def inputs(ids: dict[str, torch.Tensor]) -> torch.Tensor:
    """All columns side by side, as floats: what `fit` hands to the model."""
    if "seen" not in ids:
        return torch.stack(list(ids.values()), dim=1).float()
    user, item, seen = ids["user"][:, None], ids["item"][:, None], ids["seen"]
    length = (seen != 0).sum(dim=1, keepdim=True)
    return torch.cat([user, item, seen, length], dim=1).float()


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make, inputs))
