"""Applies a model config file that changes versions and labels at once.

A label may only move to a version that is loaded. So the versions load first, while the labels
stay where they are and keep their versions; then the labels move, and the other versions go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.config.models import ModelConfig
from serving.config.version_policy import Specific
from serving.models.manager import ModelManager
from serving.models.versions import ModelVersions


def apply_file(manager: ModelManager, models: Sequence[ModelConfig]) -> None:
    """Serves the models of a file instead; returns once its versions and labels are in place.

    Raises:
        FailedPrecondition: The version of a label could not be loaded. The label stays where it
            was, and its version is kept; all other changes are in place.
        ServingError: As `ModelManager.reload`.
    """
    manager.reload([_before_labels_move(one, manager.models.get(one.name)) for one in models])
    manager.reload(models)


def _before_labels_move(config: ModelConfig, present: ModelVersions | None) -> ModelConfig:
    """Returns a configuration without the moves of labels to versions that are not loaded."""
    labels, kept = dict[str, int](), set[int]()
    for label, number in config.version_labels.items():
        before = None if present is None else present.labels.get(label)
        if present is not None and present.available(number) is not None:
            labels[label] = number
        elif present is not None and before is not None and present.available(before) is not None:
            labels[label] = before
            kept.add(before)
    policy = config.policy
    if isinstance(policy, Specific):
        policy = Specific({*policy.versions, *kept})
    return replace(config, policy=policy, version_labels=labels)
