"""Options of models that are parts of attention, as a TOML file says them.

Each annotation names the function that makes the part, so that a configuration can be checked
before any data is read.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeAlias

from recsys_attn.attention import gates, presets
from recsys_attn.attention.disagreement import Disagreement


def disagreement(weights: dict[str, float]) -> Disagreement:
    """The penalty with these weights.

    Raises:
        ValueError: A weight has a name that `Disagreement` does not know, or is negative.

    >>> disagreement({"outputs": 0.1}).get_config()["outputs"]
    0.1
    """
    try:
        return Disagreement(**weights)
    except TypeError:
        raise ValueError(
            "`disagreement` must be a table of the weights `subspace`, `positions` and `outputs`. "
            f"Received: {weights}"
        ) from None


Mechanism: TypeAlias = Annotated[str | dict[str, Any], presets.get]
Gate: TypeAlias = Annotated[str | dict[str, Any], gates.get]
Penalty: TypeAlias = Annotated[dict[str, float], disagreement]
