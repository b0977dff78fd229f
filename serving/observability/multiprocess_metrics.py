"""What several processes count, in a folder that they share; PROMETHEUS_MULTIPROC_DIR names it.

counter_0.db, histogram_0.db, ...   the client's own files: each process's numbers, for ever
histogram_by-version-0.db, ...      histograms by version, from which some are taken out
0.pid, ...                          who the process is
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, values
from prometheus_client.core import Metric
from prometheus_client.mmap_dict import MmapedDict, mmap_key
from prometheus_client.multiprocess import MultiProcessCollector

FOLDER = "PROMETHEUS_MULTIPROC_DIR"  # the client's own name for it
_VERSIONS = {"version", "model_path"}  # labels that tell versions

Labels = tuple[tuple[str, str], ...]


class Numbers:
    """Numbers by key in a file, from which some can be taken out: the client's files only grow.

    Args:
        path: The file; what its process's predecessor wrote goes on.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()  # guards the file
        self._file = MmapedDict(str(path))

    def get(self, key: str) -> float:
        """The number of a key, 0 where it is new."""
        with self._lock:
            return float(self._file.read_value(key)[0])

    def add(self, key: str, amount: float) -> None:
        """Adds to the number of a key."""
        with self._lock:
            self._file.write_value(key, self._file.read_value(key)[0] + amount, 0.0)

    def known(self) -> list[str]:
        """All keys."""
        with self._lock:
            return [key for key, _, _ in self._file.read_all_values()]

    def forget(self, keys: Collection[str]) -> None:
        """Takes keys out; who reads the file meanwhile has all of it before, or all of it after."""
        draft = self._path.with_suffix(".draft")
        draft.unlink(missing_ok=True)
        with self._lock:
            kept = MmapedDict(str(draft))
            for key, value, timestamp in self._file.read_all_values():
                if key not in keys:
                    kept.write_value(key, value, timestamp)
            draft.replace(self._path)
            self._file.close()
            self._file = kept

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._file.close()


class _Value:
    """One number of a metric, as the client wants it."""

    _multiprocess = True

    def __init__(self, numbers: Numbers, key: str) -> None:
        self._numbers, self._key = numbers, key
        numbers.get(key)

    def inc(self, amount: float) -> None:
        self._numbers.add(self._key, amount)

    def get(self) -> float:
        return self._numbers.get(self._key)


class _Shared:
    """The part of this process."""

    by_version: Numbers | None = None  # None where it shares nothing


def count_as(number: int) -> None:
    """Has this process, one of several, go on where the one that had its number before stopped.

    The client's own way is a file for each process that ever was.
    """
    folder = Path(os.environ[FOLDER])
    draft = folder / f"{number}.draft"
    draft.write_text(str(os.getpid()))
    draft.replace(folder / f"{number}.pid")
    ours = _Shared.by_version = Numbers(folder / f"histogram_by-version-{number}.db")
    theirs = values.MultiProcessValue(lambda: number)

    def value(
        typ: str, metric: str, name: str, labelnames: Any, labelvalues: Any, text: str, **more: Any
    ) -> Any:
        if _VERSIONS & set(labelnames):
            return _Value(ours, mmap_key(metric, name, labelnames, labelvalues, text))
        return theirs(typ, metric, name, labelnames, labelvalues, text, **more)

    values.ValueClass = value


def series_of(metric: str) -> dict[Labels, list[str]]:
    """The keys of a metric by version, by the labels of each series; none where it is not shared.

    Those of the process that had this one's number before are among them.
    """
    found: dict[Labels, list[str]] = {}
    if _Shared.by_version is not None:
        for key in _Shared.by_version.known():
            name, _, labels, _ = json.loads(key)
            labels.pop("le", None)
            if name == metric:
                found.setdefault(tuple(sorted(labels.items())), []).append(key)
    return found


def forget(metric: str, labels: dict[str, str]) -> None:
    """Takes a series of a metric by version out of this process's part."""
    if _Shared.by_version is not None:
        keys = series_of(metric).get(tuple(sorted(labels.items())), [])
        _Shared.by_version.forget(keys)


def everything() -> CollectorRegistry:
    """What all processes count, summed up, and each process's own memory, time and files."""
    registry = CollectorRegistry()
    registry.register(_Processes(Path(os.environ[FOLDER])))
    MultiProcessCollector(registry)
    return registry


class _Processes:
    """The client's `process_*`, by the number of the process."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def collect(self) -> Iterator[Metric]:
        found: dict[str, Metric] = {}
        for file in sorted(self._folder.glob("*.pid")):
            pid = file.read_text()
            for one in ProcessCollector(pid=partial(str, pid), registry=None).collect():
                metric = found.setdefault(one.name, Metric(one.name, one.documentation, one.type))
                for sample in one.samples:
                    metric.add_sample(sample.name, {"process": file.stem}, sample.value)
        yield from found.values()
