"""The checks of models whose tasks have an order: the schema's."""

from __future__ import annotations

from recsys_attn.schema import Schema

_WAY_OUT = "Or use the model aitm with order_penalty = 0, which does not compare the tasks"


def require_several(model: str, schema: Schema) -> None:
    """Raises unless a schema has several tasks, in the order of what happens: click, cart, buy."""
    if len(schema.tasks) < 2:
        raise ValueError(
            f"{model} needs at least two tasks in their order, such as click and buy. Received: "
            f"{[task.name for task in schema.tasks]}. Add a task, or use the model mlp"
        )


def require_comparable(model: str, schema: Schema) -> None:
    """Raises unless the outputs of all tasks are probabilities over the same rows.

    Args:
        model: Name of the model.
        schema: Its tasks.

    Raises:
        ValueError: A task has a loss that gives no probabilities before calibration, or tasks have
            different masks.
    """
    for task in schema.tasks:
        if not task.has_probabilities or task.loss_options.needs_calibration:
            raise ValueError(
                f"{model} compares probabilities, which the losses 'cross_entropy' without "
                f"smoothing and 'jrc' give. Received for the task {task.name!r}: "
                f"loss={task.loss!r}. Give it one of these. {_WAY_OUT}"
            )
    masks = {task.name: task.mask for task in schema.tasks}
    if len(set(masks.values())) > 1:
        raise ValueError(
            f"{model} compares the tasks of the same impressions: `mask` must be the same for all "
            "of them, and the label of a later task 0 where an earlier one did not happen. "
            f"Received: {masks}. {_WAY_OUT}"
        )
