"""The progress of a training as plain data."""

from __future__ import annotations

import json

from pipelines.feed import Position
from pipelines.training.state import TrainingProgress


def test_progress_is_plain_data() -> None:
    progress = TrainingProgress(7, Position(1, 3, ((2, 5),)), 0.5, 11, versions={"keras": "3"})
    assert TrainingProgress.from_dict(json.loads(json.dumps(progress.to_dict()))) == progress


def test_upgraded_packages_list_all_versions() -> None:
    progress = TrainingProgress()
    for keras, numpy in (("3.1", "2.0"), ("3.1", "2.1"), ("3.2", "2.1"), ("3.1", "2.1")):
        progress.go_on_with({"keras": keras, "numpy": numpy})
    assert progress.versions == {"keras": "3.1, 3.2", "numpy": "2.0, 2.1"}
