"""The models by name."""

from __future__ import annotations

from collections.abc import Callable

from recsys_attn.checks import unknown_name
from recsys_attn.models.ranking import RankingModel
from recsys_attn.registry import NamedParts

# Names of papers whose model is an option of another one's function.
OTHER_NAMES = {
    "autoint+": "'autoint' with `mlp_units`",
    "cgc": "'ple' with `num_layers = 1`",
    "dcn_v2": "'dcn'",
    "dnn": "'mlp'",
    "dualmlp": "'finalmlp' with `gated = false`",
    "fwfm": "'fm' with `pair_weights = true`",
    "gdcn": "'dcn' with `gated = true`",
    "lr": "'logistic_regression'",
    "omoe": "'mmoe' with `one_gate = true`",
    "ppnet": "'pepnet' with `person` alone",
    "shared_bottom": "'mlp' with `tower_units`",
}

MODELS: NamedParts[Callable[..., RankingModel]] = NamedParts("model")


def get(name: str) -> Callable[..., RankingModel]:
    """Returns the function of a model.

    Raises:
        ValueError: No model has this name.

    >>> from recsys_attn import models
    >>> models.get("autoint").__name__
    'autoint'
    """
    if name in MODELS:
        return MODELS[name]
    if other := OTHER_NAMES.get(name):
        raise ValueError(f"`name` must be the name of a model: use {other}. Received: {name!r}")
    raise ValueError(f"`name` must be the name of a model. {unknown_name(name, MODELS)}")
