"""FinalMLP: two networks over the features that each selects, and the products of their outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from recsys_attn.blocks.mlp import Mlp
from recsys_attn.checks import require_bool, require_positive, require_sizes, unknown_name
from recsys_attn.interactions.bilinear import BilinearFusion
from recsys_attn.interactions.feature_gates import ContextGate
from recsys_attn.models.building_blocks import TaskHeads
from recsys_attn.models.field_gate import field_names
from recsys_attn.models.option_types import Activation, Count, Norm, Share, Sizes, require_with
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
    first_units: Sizes = (400, 400, 400),
    second_units: Sizes = (400, 400, 400),
    num_heads: Count = 1,
    gated: bool = True,
    first_context: Sequence[str] = (),
    second_context: Sequence[str] = (),
    gate_units: Sizes | None = None,
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
        schema: A fitted schema.
        width: Embedding width.
        history_pooling: `"mean"` of the events of a history, or `"max"` of each channel.
        first_units: Hidden units of the first network.
        second_units: Hidden units of the second one: networks of unequal depth and size learn
            other things.
        num_heads: Parts of the bilinear form, which divides the last size of both networks: raise
            it where these are large. 1 to 50 are usual.
        gated: Whether each network has gates of its inputs.
        first_context: Features that decide the gates of the first network, such as the user.
            Defaults to none: one gate for all rows.
        second_context: The same for the second network, such as the item.
        gate_units: Hidden units of the network of a gate with a context, which they need. Defaults
            to (64,).
        activation: Activation of the two networks.
        norm: Normalisation before each activation, such as `"batch"`.
        dropout: Dropout of the two networks.

    Returns:
        A `RankingModel`.

    Raises:
        ValueError: A feature has another width than the model, with gates, or no `size` yet, a
            context is not a feature, a network has no layer, or an argument is out of range or
            has no effect with the others.

    Example:

    >>> import numpy as np
    >>> from recsys_attn.models import finalmlp
    >>> from recsys_attn.schema import Categorical, Schema, Sequence, Task
    >>> item, seen = Categorical("item", size=7), Sequence("seen", shares="item")
    >>> schema = Schema((item, seen), (Task("click"),))
    >>> model = finalmlp(schema, width=4, first_units=(8,), second_units=(6,), num_heads=2)
    >>> logits = model({"item": np.array([[2, 3, 4]]), "seen": np.array([[5, 6]])})
    >>> tuple(logits["click"].shape)
    (1, 3)
    """
    require_positive("width", width)
    require_bool("gated", gated)
    gate_sizes = require_sizes("gate_units", (64,) if gate_units is None else gate_units)
    require_with("a context", bool(first_context or second_context), gate_units=gate_units)
    tasks, streams, sizes = [task.name for task in schema.tasks], [], []
    given = {"first": (first_units, first_context), "second": (second_units, second_context)}
    for name, (units, context) in given.items():
        if not require_sizes(f"{name}_units", units):
            raise ValueError(f"The {name} network has no layer. Received: {name}_units=()")
        places = _places(f"{name}_context", context, field_names(schema, width))
        if places and not gated:
            raise ValueError(
                f"`{name}_context` decides gates; give gated=True or leave it out. Received: "
                f"{name}_context={list(context)}, gated=False"
            )
        gate = [ContextGate(places, gate_sizes)] if gated else []
        streams.append(Stream(gate, [Mlp(units, activation, dropout, norm)]))
        sizes.append(units[-1])
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
    if isinstance(context, str) or not isinstance(context, Sequence):
        raise ValueError(f"`{name}` must be a list of features. Received: {name}={context!r}")
    for feature in context:
        if feature not in fields:
            raise ValueError(f"`{name}` must be features. {unknown_name(feature, fields)}")
    return [fields.index(feature) for feature in context]
