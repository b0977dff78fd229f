"""The gates of `benchmarks/gates.py`, as models of equal numbers of weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recsys_attn import models
from recsys_attn.schema import Schema

EXPERTS, UNITS, TOWER, WIDTH = 4, (32, 16), (16,), 8
SHARED_BOTTOM = "no gate"


def _attention(mechanism: Any) -> dict[str, Any]:
    return {"gate": "attention", "gate_attention": mechanism}


def _score(class_name: str, **config: Any) -> dict[str, Any]:
    score = {"class_name": class_name, "config": config}
    return _attention({"class_name": "dense", "config": {"score": score}})


# The others are compared with the first.
GATES: Mapping[str, Mapping[str, Any]] = {
    "softmax": {"gate": "softmax"},
    "transformer": _attention("transformer"),
    "han": _attention("han"),
    "additive": _attention("additive"),
    "luong": _score("general"),
    "both": {"gate": "both"},
    "cosine": _score("temperature", score="cosine", initial=0.25),
    SHARED_BOTTOM: {},
}


def model_arguments(gate: str, schema: Schema) -> dict[str, Any]:
    """Returns the name and the arguments of a model with as many weights as that of the first gate.

    Where a gate has fewer or more weights, the first layer of each expert is larger or smaller;
    without a gate there is one expert, a shared bottom.

    Args:
        gate: A name of `GATES`.
        schema: The features.
    """
    wanted, one, two = (
        weights(_of_size(*model), schema)
        for model in ((next(iter(GATES)), UNITS[0]), (gate, 1), (gate, 2))
    )
    return _of_size(gate, 1 + round((wanted - one) / (two - one)))


def weights(arguments: Mapping[str, Any], schema: Schema) -> int:
    """Returns the number of weights of a model."""
    options = dict(arguments)
    return int(models.get(options.pop("name"))(schema, **options).count_params())


def _of_size(gate: str, size: int) -> dict[str, Any]:
    units, shared = [size, *UNITS[1:]], {"width": WIDTH, "tower_units": list(TOWER)}
    if gate == SHARED_BOTTOM:
        return {"name": "mlp", "units": units, **shared}
    experts = {"number": EXPERTS, "units": units}
    options = dict(GATES[gate])
    if "gate_attention" in options:
        experts["gate_attention"] = options.pop("gate_attention")
    return {"name": "mmoe", "experts": experts, **options, **shared}
