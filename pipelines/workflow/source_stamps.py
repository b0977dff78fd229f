"""Stamps of the files that an experiment reads."""

from __future__ import annotations

from pathlib import Path

from pipelines.experiment.config import Experiment
from pipelines.storage.filesystem import Storage, is_uri


def source_stamps(experiment: Experiment) -> dict[str, str]:
    """Size and modification time of the source files; a change makes ingest run again."""
    stamps: dict[str, str] = {}
    items = experiment.data.items
    for place in [*experiment.data.places(), *(items.places() if items else [])]:
        stamps |= Storage.of(place).stamps() if is_uri(place) else _local_stamps(Path(place))
    return stamps


def _local_stamps(path: Path) -> dict[str, str]:
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(file, file.stat()) for file in files if file.is_file()]
    return {str(file): f"{stat.st_size} {stat.st_mtime_ns}" for file, stat in stats}
