"""The check that another run was made of the same rows, in the same splits."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.common.artifacts import DATA, MANIFEST, read_json
from pipelines.common.errors import PipelineError
from pipelines.workflow.differences import differences


def check_same_rows(run: Path, key: str, manifest: Mapping[str, Any]) -> None:
    """Checks that a run was made of the rows of this one, in the same splits.

    Args:
        run: The other run folder.
        key: The key that names it.
        manifest: What this run's step `ingest` wrote.

    Raises:
        PipelineError: Its rows differ, or it has none; the message names the settings that differ.
    """
    theirs = read_json(run / DATA / MANIFEST)
    if theirs["data_hash"] == manifest["data_hash"]:
        return
    changes = differences(theirs["settings"], manifest["settings"])
    why = changes[0] if changes else "the source files or the packages have changed since"
    raise PipelineError(
        f"`{key}`: the rows of {run} are not those of this run: {why}. Expected the same rows in "
        "the same splits: the weights of a model are fitted on validation rows, which it must not "
        "have trained on."
    )
