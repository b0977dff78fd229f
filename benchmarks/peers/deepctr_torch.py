"""Models of DeepCTR-Torch, as they are, without regularizers.

All tables and layers begin with one standard deviation; with its default of 0.0001 the networks
hardly begin to learn in the steps of a benchmark.
"""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.peers import settings as sizes
from benchmarks.peers.contender import run
from benchmarks.peers.settings import Settings
from benchmarks.peers.torch_loop import EagerLoop, pretend

pretend("requests")  # with which it would look for a newer version

from deepctr_torch.inputs import SparseFeat, VarLenSparseFeat
from deepctr_torch.models import DCN, DIEN, DIN, AutoInt, DeepFM
from deepctr_torch.models.multitask import MMOE, PLE

START = 0.05


def make(settings: Settings) -> torch.nn.Module:
    """The model of the settings."""
    common: dict[str, Any] = {"l2_reg_embedding": 0.0, "init_std": START}
    common["device"] = "cuda" if torch.cuda.is_available() else "cpu"
    if settings.has_history:
        return _of_history(settings, common)
    return _of_fields(settings, common)


def _of_history(settings: Settings, common: dict[str, Any]) -> torch.nn.Module:
    rows = settings.table_rows
    user, item = (SparseFeat(name, rows, sizes.HISTORY_WIDTH) for name in ("user", "item"))
    event = SparseFeat("hist_item", rows, sizes.HISTORY_WIDTH, embedding_name="item")
    seen = VarLenSparseFeat(event, sizes.HISTORY, length_name="length")
    common = {"dnn_hidden_units": sizes.MLP_UNITS, **common}
    columns = [user, item, seen], ["item"]
    if settings.model == "dien":
        units = sizes.ATTENTION_UNITS
        return DIEN(*columns, gru_type="AUGRU", att_hidden_units=units, **common)
    return DIN(*columns, att_hidden_size=sizes.ATTENTION_UNITS, **common)


def _of_fields(settings: Settings, common: dict[str, Any]) -> torch.nn.Module:
    fields = [SparseFeat(f"c{i}", settings.table_rows, sizes.WIDTH) for i in range(sizes.FIELDS)]
    if settings.model in sizes.WITH_TASKS:
        return _of_tasks(settings, fields, common)
    if settings.model == "deepfm":
        return DeepFM(fields, fields, dnn_hidden_units=sizes.DEEP_UNITS, **common)
    if settings.model == "dcnv2":
        cross = {"cross_num": sizes.CROSS_LAYERS, "cross_parameterization": "matrix"}
        return DCN([], fields, dnn_hidden_units=sizes.DEEP_UNITS, **cross, **common)
    return AutoInt([], fields, sizes.LAYERS, sizes.HEADS, dnn_hidden_units=(), **common)


def _of_tasks(
    settings: Settings, fields: list[SparseFeat], common: dict[str, Any]
) -> torch.nn.Module:
    common = {
        "expert_dnn_hidden_units": sizes.EXPERT_UNITS,
        "gate_dnn_hidden_units": (),
        "tower_dnn_hidden_units": sizes.TOWER_UNITS,
        "task_types": ["binary"] * len(settings.tasks),
        "task_names": settings.tasks,
        **common,
    }
    if settings.model == "mmoe":
        return MMOE(fields, num_experts=sizes.EXPERTS, **common)
    return PLE(
        fields,
        shared_expert_num=sizes.SHARED_EXPERTS,
        specific_expert_num=sizes.TASK_EXPERTS,
        num_levels=sizes.EXPERT_LAYERS,
        **common,
    )


def inputs(ids: dict[str, torch.Tensor]) -> torch.Tensor:
    """All columns side by side, as floats: what `fit` hands to the model."""
    if "seen" not in ids:
        return torch.stack(list(ids.values()), dim=1).float()
    user, item, seen = ids["user"][:, None], ids["item"][:, None], ids["seen"]
    length = (seen != 0).sum(dim=1, keepdim=True)
    return torch.cat([user, item, seen, length], dim=1).float()


if __name__ == "__main__":
    run(lambda settings: EagerLoop(settings, make, inputs))
