"""Stamps of the files that an experiment reads."""

from __future__ import annotations

from pipelines.experiment.config import Experiment
from pipelines.storage.filesystem import stamps_of


def source_stamps(experiment: Experiment) -> dict[str, str]:
    """Size and modification time of the source files; a change makes ingest run again."""
    stamps: dict[str, str] = {}
    items = experiment.data.items
    for place in [*experiment.data.places(), *(items.places() if items else [])]:
        stamps |= stamps_of(place)
    return stamps
