"""The check of models whose tasks have an order: the schema's."""

from __future__ import annotations

from recsys_attn.schema import Schema


def require_order(model: str, schema: Schema) -> None:
    """Raises unless the tasks of a schema can be a chain of probabilities.

    Args:
        model: Name of the model.
        schema: Its tasks are in the order of what happens: click, cart, buy.

    Raises:
        ValueError: There is one task only, or a task has another loss than `"cross_entropy"`.
    """
    tasks = schema.tasks
    if len(tasks) < 2:
        raise ValueError(
            f"{model} needs at least two tasks in their order, such as click and buy. Received: "
            f"{[task.name for task in tasks]}. Add a task, or use the model mlp"
        )
    for task in tasks:
        if not task.has_probabilities:
            raise ValueError(
                f"{model} compares probabilities, which `loss` = 'cross_entropy' teaches. Received "
                f"for the task {task.name!r}: loss={task.loss!r}"
            )
