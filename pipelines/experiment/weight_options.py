"""How the losses of the tasks are weighted: `training.task_weights`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from pipelines.common.toml_table import TomlTable
from recsys_attn.schema import Task


class Uncertainty(TomlTable):
    """A weight for each task by the size of its loss, learned with the model."""

    name: Literal["uncertainty"] = "uncertainty"


class GradNorm(TomlTable):
    """Weights that balance the gradients of the tasks.

    Attributes:
        alpha: How much more the tasks count whose loss has fallen less than that of others, at
            least 0. 0 makes the gradients equal; lower it for tasks that are much alike.
    """

    name: Literal["gradnorm"] = "gradnorm"
    alpha: float = Field(default=1.5, ge=0)


TaskWeightOptions: TypeAlias = Literal["uncertainty", "gradnorm"] | Uncertainty | GradNorm


def with_options(given: TaskWeightOptions) -> Uncertainty | GradNorm:
    """The options of a name, or those that are given."""
    if isinstance(given, str):
        return Uncertainty() if given == "uncertainty" else GradNorm()
    return given


def check_tasks(
    tasks: Sequence[Task], task_weights: TaskWeightOptions | None, calibrate: bool
) -> None:
    """Checks losses and weights of the tasks, before any work.

    Raises:
        ValueError: There is nothing to weigh, or there are two kinds of weights, or a loss whose
            sigmoid is no probability is not calibrated.
    """
    if task_weights is not None:
        name = with_options(task_weights).name
        if len(tasks) < 2:
            raise ValueError(
                f"`training.task_weights` weighs tasks against each other, and there is one. "
                f"Remove it, or add a task. Received: {name!r}"
            )
        for index, task in enumerate(tasks):
            if task.weight != 1:
                raise ValueError(
                    f"`training.task_weights` learns the weights, so that "
                    f"`tasks[{index}].weight` would have no effect. Keep one of them. "
                    f"Received: {name!r} and weight={task.weight}"
                )
    for index, task in enumerate(tasks):
        if task.loss_options.needs_calibration and not calibrate:
            raise ValueError(
                f"`tasks[{index}].loss` ({task.loss_options.name}) teaches probabilities that are "
                "right only once they are calibrated. Remove `training.calibrate = false`, or "
                'choose the loss "cross_entropy"'
            )
