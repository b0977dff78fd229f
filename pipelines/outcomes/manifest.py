"""The manifest of a folder of served rows: its settings, the files that were read, the hours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.common.artifacts import atomic_file, fingerprint, read_json, write_json
from pipelines.common.errors import PipelineError

MANIFEST = "join.json"
_FORMAT = 1


class Part(NamedTuple):
    """What a file has in one part of an hour.

    Attributes:
        number: Of calls, or of outcomes.
        content: A text that changes with them.
    """

    number: int
    content: str


class FileIndex(NamedTuple):
    """What a file has.

    Attributes:
        stamp: Its size and the time of its last change.
        parts: By the number of the part.
    """

    stamp: str
    parts: Mapping[int, Part]


Index = dict[str, FileIndex]  # by file


def contents(index: Index, parts: Sequence[int]) -> dict[str, str]:
    """By file that has something in some parts, a text that changes with it."""
    inside = {
        name: [(part, of.parts[part]) for part in parts if part in of.parts]
        for name, of in index.items()
    }
    return {name: fingerprint(of) for name, of in inside.items() if of}


@dataclass
class Manifest:
    """The manifest of a folder of served rows.

    Attributes:
        path: Its file.
        settings: What all rows of the folder have in common.
        log, outcomes: The files that were read.
        hours: What is known of each hour that was written, by name: the numbers of `Hour`, and
            `inputs`, the contents of the files of the log and of outcomes that it was made from.
    """

    path: Path
    settings: dict[str, Any]
    log: Index = field(default_factory=dict)
    outcomes: Index = field(default_factory=dict)
    hours: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> Manifest | None:
        """Reads the manifest of a folder; None if it has none.

        Raises:
            PipelineError: It is damaged, or of another format.
        """
        path = folder / MANIFEST
        if not path.exists():
            return None
        content = read_json(path, "Remove the folder and join again.")
        if content.get("format") != _FORMAT:
            raise PipelineError(
                f"{path}: expected the format {_FORMAT}, received {content.get('format')!r}. Join "
                "into another folder."
            )
        log, outcomes = (_index(content["files"][kind]) for kind in ("log", "outcomes"))
        return cls(path, content["settings"], log, outcomes, content["hours"])

    def check_settings(self, settings: Mapping[str, Any]) -> None:
        """Checks that the rows of the folder were joined with the same settings.

        Raises:
            PipelineError: They were not.
        """
        for name in {**self.settings, **settings}:
            before, now = self.settings.get(name), settings.get(name)
            if before != now:
                raise PipelineError(
                    f"{self.path.parent} has rows that were joined with another {name}: expected "
                    f"{before}, received {now}. Join into another folder."
                )

    def unmatched(self, names: Sequence[str]) -> int:
        """The number of outcomes at times of some hours that belong to no row."""
        outcomes = sum(self.hours[name]["outcomes"] for name in names)
        matched = [hour["matched"] for hour in self.hours.values()]
        return int(outcomes - sum(of.get(name, 0) for of in matched for name in names))

    def save(self) -> None:
        """Writes the file, unless it has this content."""
        content = {
            "format": _FORMAT,
            "settings": self.settings,
            "hours": dict(sorted(self.hours.items())),
            "files": {"log": _plain(self.log), "outcomes": _plain(self.outcomes)},
        }
        if self.path.exists() and read_json(self.path) == content:
            return
        with atomic_file(self.path) as temporary:
            write_json(temporary, content)


def _plain(index: Index) -> dict[str, Any]:
    return {
        name: [of.stamp, {str(part): f"{n} {text}" for part, (n, text) in sorted(of.parts.items())}]
        for name, of in sorted(index.items())
    }


def _index(files: Mapping[str, Any]) -> Index:
    return {
        name: FileIndex(stamp, {int(part): _part(text) for part, text in parts.items()})
        for name, (stamp, parts) in files.items()
    }


def _part(text: str) -> Part:
    number, content = text.split()
    return Part(int(number), content)
