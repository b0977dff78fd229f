"""Names of signatures, which the exporter uses too, and the task that ranks by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_SIGNATURE = "serving_default"
RANK_SIGNATURE = "rank"
NEXT_ITEMS_SIGNATURE = "next_items"
EXPLAINED_SIGNATURE = "rank_explained"  # `rank`, with weights of events, fields, experts as outputs
START, STEP = "start", "step"  # a state after the events of a user, and after further ones
RANK_FROM_STATE = "rank_from_state"  # `rank`, with the state of a user in place of events
ATTENTION_PREFIX, GATE_PREFIX, FIELD_PREFIX = "attention/", "gate/", "field/"  # of these
KNOWN_PREFIX = "known/"  # of the marks of events that the model knows, beside the attention
STATE_PREFIX = "state/"  # of the events that a store gave, beside the attention
AS_OF = "as_of"  # an input: the time of the values of a store
WITH_CONTEXT = "_with_context"  # suffix of signatures for one context and many Examples
CLASSIFY_SIGNATURE, REGRESS_SIGNATURE = "classify", "regress"  # of the first task
_EXAMPLES, _REGRESSED = "examples", "outputs"


def first_task(definitions: Mapping[str, Any]) -> str | None:
    """Returns the first task of the experiment file; None for a model of another origin.

    In an export the signature `examples` has the tensors of all tasks, and `regress` that of the
    first one.

    Args:
        definitions: SignatureDefs by name.
    """
    if _EXAMPLES not in definitions or REGRESS_SIGNATURE not in definitions:
        return None
    regressed = {
        info.name
        for name, info in definitions[REGRESS_SIGNATURE].outputs.items()
        if name == _REGRESSED
    }
    tasks = definitions[_EXAMPLES].outputs.items()
    return next((task for task, info in tasks if info.name in regressed), None)
