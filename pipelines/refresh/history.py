"""The decisions on the versions of a run, one line each, and what follows from them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, get_args

from pipelines.common.artifacts import atomic_file
from pipelines.common.errors import PipelineError

FOLDER = "refresh"  # in the run folder
FILE = "history.jsonl"
What = Literal["adopted", "refused", "published", "promoted", "rolled back"]


@dataclass(frozen=True)
class Decision:
    """One decision on one version.

    Attributes:
        version: The version.
        what: `"adopted"`: the version that the run itself exported; `"refused"`: it failed a gate
            beside the serving version, and is not exported; `"published"`: it is the canary;
            `"promoted"`: it is stable; `"rolled back"`: it is no canary any more.
        time: Time of the decision, in ISO 8601 (UTC).
        why: The numbers that decided, in words.
        behind: The version from which it was trained; None of the first one.
    """

    version: int
    what: What
    time: str
    why: tuple[str, ...] = ()
    behind: int | None = None


@dataclass(frozen=True)
class History:
    """All decisions of a run, the oldest first.

    Args:
        path: The file.
        decisions: Its lines.
    """

    path: Path
    decisions: tuple[Decision, ...] = ()

    @classmethod
    def of(cls, run: Path) -> History:
        """Reads the history of a run folder; it may be empty.

        Raises:
            PipelineError: The file is damaged.
        """
        path = run / FOLDER / FILE
        if not path.exists():
            return cls(path)
        try:
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            return cls(path, tuple(map(_decision, lines)))
        except (ValueError, TypeError, KeyError) as error:
            raise PipelineError(f"{path} is damaged: {error}. Put its backup back.") from None

    def add(
        self, version: int, what: What, why: Sequence[str] = (), behind: int | None = None
    ) -> History:
        """Writes a decision and returns the history with it; one that is there stays as it is."""
        if any((d.version, d.what) == (version, what) for d in self.decisions):
            return self
        now = datetime.now(UTC).isoformat(timespec="seconds")
        after = (*self.decisions, Decision(version, what, now, tuple(why), behind))
        with atomic_file(self.path) as file:
            file.write_text("".join(json.dumps(asdict(d)) + "\n" for d in after), encoding="utf-8")
        return History(self.path, after)

    @property
    def stable(self) -> int | None:
        """The version that serves; None before the first decision."""
        return next(
            (d.version for d in reversed(self.decisions) if d.what in ("adopted", "promoted")), None
        )

    @property
    def canary(self) -> Decision | None:
        """The publication of the version that is tried; None without one."""
        ended = {d.version for d in self.decisions if d.what in ("promoted", "rolled back")}
        published = [d for d in self.decisions if d.what == "published" and d.version not in ended]
        return published[-1] if published else None

    @property
    def newest_version(self) -> int:
        """The newest version of which there is a decision; 0 before the first."""
        return max((d.version for d in self.decisions), default=0)

    def chain(self, version: int | None) -> list[int]:
        """A version and those behind which it was trained, the newest first."""
        behind = {d.version: d.behind for d in self.decisions if d.behind is not None}
        versions = []
        while version is not None:
            versions.append(version)
            version = behind.get(version)
        return versions

    def folder(self, version: int) -> Path:
        """The run folder of a version."""
        adopted = {d.version for d in self.decisions if d.what == "adopted"}
        whole = self.path.parents[1]
        return whole if version in adopted else whole / FOLDER / str(version)


def _decision(line: Mapping[str, Any]) -> Decision:
    if line["what"] not in get_args(What):
        raise ValueError(f"{line['what']!r} is no decision")
    return Decision(**{**line, "why": tuple(line["why"])})
