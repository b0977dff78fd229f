"""Applies a model config file that changes versions and labels at once.

A label may only move to a version that is loaded. So the versions load first, while the labels
stay where they are and keep their versions; then the labels move, and the other versions go. The
label `canary` does not stay on a version that the file no longer has: that one was rolled back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from serving.config.canary import CANARY
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
    if present is None:
        return replace(config, version_labels={})
    labels, kept, policy = dict[str, int](), set[int](), config.policy
    for label, number in config.version_labels.items():
        before = present.labels.get(label)
        if present.available(number) is not None:
            labels[label] = number
        elif before is None or present.available(before) is None:
            continue
        elif label != CANARY or before in policy.candidates([before]):  # it was not rolled back
            labels[label] = before
            kept.add(before)
    if isinstance(policy, Specific):
        policy = Specific({*policy.versions, *kept})
    return replace(config, policy=policy, version_labels=labels)
