"""MMoE: experts shared by tasks, with one gate per task."""

from __future__ import annotations

from typing import Literal

from recsys_attn.embeddings import FeatureEmbedding
from recsys_attn.models.building_blocks import FieldInteraction, TaskHeads
from recsys_attn.models.field_gate import field_gate
from recsys_attn.models.histories import pooled
from recsys_attn.models.option_tables import ExpertOptions, ExpertTable
from recsys_attn.models.option_types import Count, Gates, Penalties, Share, Sizes
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
    experts: ExpertTable = ExpertOptions(),
    gate: Literal["attention", "both", "softmax"] = "softmax",
    one_gate: bool = False,
    tower_units: Sizes = (32,),
    dropout: Share = 0.0,
    gates: Gates | None = None,
    disagreement: Penalties | None = None,
) -> RankingModel:
    """Multi-gate Mixture-of-Experts over the concatenated embeddings; OMoE with `one_gate`.

    Source: Ma et al., "Modeling Task Relationships in Multi-task Learning with Multi-gate
    Mixture-of-Experts", KDD 2018.

    Args:
        schema, width, history_pooling: As in `mlp`.
        experts: Experts shared by the tasks, of `ExpertOptions`: `number`, `units`,
            `gate_attention` for a gate of attention, `balance`.
        gate: `"softmax"` (the paper's), `"attention"` (a learned query per task over the
            experts' outputs) or `"both"`.
        one_gate: Whether all tasks share one gate (OMoE), to see what gates of their own are worth.
        tower_units: Hidden units of each task's tower.
        dropout: Dropout of experts and towers.
        gates: Hard-Concrete gates, which close what the model does not need, so that `prune` can
            cut it out: one for all places, or a table by place (`fields`, `experts`). Raise
            `penalty` to close more. Defaults to none.
        disagreement: Penalty on similar experts, by the factors of `Disagreement`: `{"outputs":
            0.1}`, or by place (`experts`). Defaults to none.

    Returns:
        A `RankingModel`.
    """
    tasks = [task.name for task in schema.tasks]
    by_place = placed(gates, disagreement, fields="", experts="")
    shared = Experts(experts.number, experts.units, dropout=dropout, **by_place["experts"])
    outputs = 1 if one_gate else len(tasks)
    mixture = MMoE(outputs, gate=gate, mechanism=experts.gate_attention, experts=shared)
    return RankingModel(
        FeatureEmbedding(schema, width),
        Tower(
            histories=pooled(history_pooling, schema.histories),
            interaction=FieldInteraction(),
            head=TaskHeads(
                tasks, tower_units, dropout=dropout, experts=mixture, balance=experts.balance
            ),
            field_gate=field_gate(schema, width, by_place["fields"]["gate"]),
        ),
        name="mmoe",
    )
