"""FinalNet: one or two blocks of factorised interaction layers."""

from __future__ import annotations

from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.interactions.feature_gates import CrossFieldGate
from recsys_attn.models.averaged_heads import AveragedHeads
from recsys_attn.models.option_types import Activation, Count, Layers, Norm, Share, Sizes
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("finalnet")
def finalnet(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    first_units: Layers = (400, 400, 400),
    second_units: Sizes = (400, 400, 400),
    field_gate: bool = False,
    activation: Activation = "relu",
    norm: Norm = "batch",
    dropout: Share = 0.0,
) -> RankingModel:
    """FinalNet (FINAL): the mean of two networks of factorised layers, which learn from each other.

    `logit = (w_1 . final_1(v) + b_1 + w_2 . final_2(v) + b_2) / 2`, where each layer of `final` is
    a `FactorizedDense`; with one block, `logit = w_1 . final_1(v) + b_1`. Two blocks are trained
    with the self-distillation of `AveragedHeads`, for tasks whose loss is cross-entropy, with the
    weight of the task. It counts as a penalty, so `training.penalty_warmup` warms it up.

    Source: Zhu et al., "FINAL: Factorized Interaction Layer for CTR Prediction", SIGIR 2023.

    Args:
        schema, width, history_pooling: As in `mlp`.
        first_units: Layers of the layers of the first block, all even.
        second_units: Sizes of the layers of the second block, all even; empty for one block, which
            is half the work. Blocks of unequal depth learn other things.
        field_gate: Whether the first block also sees the fields times gates: `CrossFieldGate`.
        activation: Activation of the layers.
        norm: Normalisation before each activation.
        dropout: Dropout of the layers.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A size is odd; or, with `field_gate`, a feature has another width than the
            model.
    """
    blocks = [units for units in (first_units, second_units) if units]
    gates = [[CrossFieldGate()] if field_gate else [], []]
    streams = [
        Stream(gate, [Mlp(units, activation, dropout, norm, factorized=True)])
        for gate, units in zip(gates, blocks, strict=False)
    ]
    of_cross_entropy = [t for t in schema.tasks if t.loss_options.name == "cross_entropy"]
    taught = of_cross_entropy if second_units else []
    head = AveragedHeads(
        [task.name for task in schema.tasks],
        [units[-1] for units in blocks],
        {task.name: task.weight for task in taught},
    )
    return ranker(
        "finalnet",
        schema,
        width,
        streams,
        history_pooling=history_pooling,
        head=head,
    )
