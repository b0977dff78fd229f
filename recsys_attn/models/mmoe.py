"""MMoE: experts shared by tasks, with one gate per task."""

from __future__ import annotations

from typing import Literal

from recsys_attn.checks import require_bool, require_sizes
from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_types import (
    Count,
    Factor,
    Gates,
    Mechanism,
    Penalties,
    Share,
    Sizes,
    require_with,
)
from recsys_attn.models.placements import placed
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.tower import Tower
from recsys_attn.multitask.experts import Experts
from recsys_attn.multitask.mmoe import MMoE
from recsys_attn.schema import Schema


@MODELS.register("mmoe")
def mmoe(
    schema: Schema,
    *,
    width: Count = 16,
    history_pooling: Literal["max", "mean"] = "mean",
    num_experts: Count = 8,
    expert_units: Sizes = (128, 64),
    gate: Literal["attention", "both", "softmax"] = "softmax",
    one_gate: bool = False,
    gate_attention: Mechanism | None = None,
    tower_units: Sizes = (32,),
    dropout: Share = 0.0,
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
    balance: Factor = 0.0,
) -> RankingModel:
    """Multi-gate Mixture-of-Experts over the concatenated embeddings; OMoE with `one_gate`.

    Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018.

    Args:
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel, for which
            one striking event is enough.
        num_experts: Number of experts shared by the tasks.
        expert_units: Hidden units of an expert.
        gate: `"softmax"` (the paper's), `"attention"` (a learned query per task over the
            experts' outputs) or `"both"`.
        one_gate: Whether all tasks share one gate (OMoE), to see what gates of their own are worth.
        gate_attention: Mechanism of the attention gate, of `recsys_attn.attention.presets`.
            Defaults to `"transformer"`; the gate `"softmax"` has none.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of experts and towers.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, `experts`). Raise
            `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar experts, by the factors of `Disagreement`: `{"outputs":
            0.1}`, or by place (`experts`). Defaults to none.
        balance: Factor of the penalty on experts that are used unequally. Raise it to 0.01 or 0.1
            where an expert has died. Defaults to 0: none.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has no `size` yet, or an argument is out of range.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import mmoe
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = mmoe(schema, width=4, num_experts=2, expert_units=(8,))
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_sizes("expert_units", expert_units)
    require_sizes("tower_units", tower_units)
    has_attention = gate != "softmax"
    require_with("a gate of attention", has_attention, gate_attention=gate_attention)
    tasks = [task.name for task in schema.tasks]
    own = placed(gates, disagreement, fields="", experts="")
    experts = Experts(num_experts, expert_units, dropout=dropout, **own["experts"])
    require_bool("one_gate", one_gate)
    outputs = 1 if one_gate else len(tasks)
    mixture = MMoE(outputs, gate=gate, mechanism=gate_attention, experts=experts)
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(tasks, tower_units, dropout=dropout, experts=mixture, balance=balance),
            field_gate=field_gate(schema, width, own["fields"]["gate"]),
        ),
        name="mmoe",
    )
