"""The run that `data.behind` names: its checks, its fingerprints and its features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import DATA, FEATURES, MANIFEST, read_json
from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.ingest import log_state
from pipelines.workflow.differences import differences
from serving.state.saved import SavedState

_KEY = "data.behind"
_FOLDERS = {"ingest": DATA, "fit": FEATURES}
_OF_STATE = ("histories", "aggregates", "time_unit", "event_id", "late")
_TABLES = ("items", "users")  # whose files may differ


@dataclass(frozen=True)
class EarlierRun:
    """A run whose state and ids another run continues.

    Args:
        folder: Its run folder.
    """

    folder: Path

    def check(self, data: Mapping[str, Any], run: Path) -> None:
        """Checks that the rows of another run can follow those of this one.

        Args:
            data: The table `data` of the other run.
            run: The folder of the other run.

        Raises:
            PipelineError: This run is not fitted, is the other one, or has other definitions.
        """
        if self.folder.resolve() == run.resolve():
            raise PipelineError(f"`{_KEY}`: {self.folder} is this run; expected an earlier one.")
        self.fingerprint("fit")
        settings = self._manifest("ingest")["settings"]["data"]
        changes = differences(_definitions(settings), _definitions(data), "data")
        if changes:
            raise PipelineError(
                f"`{_KEY}`: the state of {self.folder} has other definitions: {changes[0]}. Give "
                "both runs the same ones, or read all rows in one run without `behind`."
            )
        if any(data[name] for name in ("histories", "aggregates", "users")):
            SavedState.open(self.folder / DATA / log_state.FOLDER)

    def fingerprint(self, step: str) -> dict[str, str]:
        """The fingerprint of its step `ingest` or `fit`; a change runs that of the other run.

        Raises:
            PipelineError: The step has not run.
        """
        return {f"`{_KEY}` ({self.folder})": self._manifest(step)["fingerprint"]}

    def features(self) -> FittedFeatures:
        """Its fitted features."""
        return FittedFeatures.load(self.folder / FEATURES)

    def summary(self, new: Mapping[str, int]) -> str:
        """A line on the new values of vocabularies.

        Args:
            new: Their number by feature.
        """
        of_features = ", ".join(f"{name} {count:,}" for name, count in new.items() if count)
        details = f": {of_features}" if of_features else ""
        return f"behind {self.folder}: {sum(new.values()):,} values are new{details}"

    def _manifest(self, step: str) -> dict[str, Any]:
        manifest = self.folder / _FOLDERS[step] / MANIFEST
        if not manifest.is_file():
            raise PipelineError(
                f"`{_KEY}`: {self.folder} is not the folder of a fitted run: {manifest} does not "
                "exist. Name such a run, or run `recsys-attn ingest` and `fit` there first."
            )
        return read_json(manifest)


def _definitions(data: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a table `data` that decide what a state holds."""
    tables = {name: data.get(name) for name in _TABLES}
    keys = {name: table and {"key": table["key"]} for name, table in tables.items()}
    return {name: data.get(name) for name in _OF_STATE} | keys
