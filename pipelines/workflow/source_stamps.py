"""Stamps of the files that an experiment reads."""

from __future__ import annotations

from pipelines.experiment.config import Experiment
from pipelines.storage.filesystem import Storage


def source_stamps(experiment: Experiment) -> dict[str, str]:
    """Size and modification time of the source files; a change makes ingest run again."""
    stamps, items = experiment.data.stamps(), experiment.data.items
    for place in items.places() if items else ():
        stamps |= Storage.of(place).stamps()
    return stamps
