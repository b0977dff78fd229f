"""FinalMLP: two networks over the features that each selects, and the products of their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import unknown_name
from recsys_attn.interactions.bilinear import BilinearFusion
from recsys_attn.interactions.feature_gates import ContextGate
from recsys_attn.models.building_blocks import TaskHeads
from recsys_attn.models.field_gate import field_names
from recsys_attn.models.option_tables import FeatureGateOptions, FeatureGateTable
from recsys_attn.models.option_types import Activation, Count, Layers, Norm, Share
from recsys_attn.models.ranking import RankingModel
from recsys_attn.models.registry import MODELS
from recsys_attn.models.streams import Stream, ranker
from recsys_attn.schema import Schema


@MODELS.register("finalmlp")
def finalmlp(
    schema: Schema,
    *,
    width: Count = 10,
    history_pooling: Literal["max", "mean"] = "mean",
    first_units: Layers = (400, 400, 400),
    second_units: Layers = (400, 400, 400),
    num_heads: Count = 1,
    feature_gates: FeatureGateTable = FeatureGateOptions(),
    activation: Activation = "relu",
    norm: Norm = "none",
    dropout: Share = 0.0,
) -> RankingModel:
    """FinalMLP: two MLPs over gated embeddings, fused by a bilinear form; DualMLP with no gates.

    `logit = w_1 . o_1 + w_2 . o_2 + b + sum_h o_1^h W^h o_2^h`, `o_s = mlp_s(gate_s(v))`, with the
    equations of `ContextGate` and `BilinearFusion`. All tasks share the two networks, and each has
    a fusion of its own.

    Source: Mao et al., "FinalMLP: An Enhanced Two-Stream MLP Model for CTR Prediction", AAAI 2023,
    arXiv 2304.00902.

    Args:
        schema, width, history_pooling: As in `mlp`.
        first_units: Hidden units of the first network.
        second_units: Hidden units of the second one: networks of unequal depth and size learn
            other things.
        num_heads: Parts of the bilinear form, which divides the last size of both networks: raise
            it where these are large. 1 to 50 are usual.
        feature_gates: Gates of the inputs of each network, of `FeatureGateOptions`: `first` and
            `second`, the features that decide them, `units`, and `active = false` for DualMLP.
        activation: Activation of the two networks.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the two networks.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: With gates, a feature has another width than the model; or one that decides
            a gate is unknown.
    """
    tasks, fields = [task.name for task in schema.tasks], field_names(schema, width)
    streams = []
    for units, key in ((first_units, "first"), (second_units, "second")):
        places = _places(f"feature_gates.{key}", getattr(feature_gates, key), fields)
        gate = [ContextGate(places, feature_gates.units)] if feature_gates.active else []
        streams.append(Stream(gate, [Mlp(units, activation, dropout, norm)]))
    sizes = [first_units[-1], second_units[-1]]
    # The logits need more precision than bfloat16.
    fusion = BilinearFusion(sizes, len(tasks), num_heads, dtype="float32")
    head = TaskHeads(tasks, added=True)
    return ranker(
        "finalmlp",
        schema,
        width,
        streams,
        history_pooling=history_pooling,
        layers=[fusion],
        head=head,
    )


def _places(name: str, context: Sequence[str], fields: Sequence[str]) -> list[int]:
    """Returns the places of features among the fields."""
    for feature in context:
        if feature not in fields:
            raise ValueError(f"`{name}` must be features. {unknown_name(feature, fields)}")
    return [fields.index(feature) for feature in context]
