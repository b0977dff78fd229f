"""An exported model as its clients see it: raw rows in, scores and explanations out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from pipelines.common.artifacts import MANIFEST, read_json
from pipelines.common.errors import PipelineError
from pipelines.export.raw_inputs import (
    EXPLAINED_SIGNATURE,
    ROWS_SIGNATURE,
    raw_request,
    raw_rows,
)
from pipelines.scoring.scorer import Scores
from pipelines.storage.raw_columns import raw_columns
from recsys_attn.schema import Schema

AT_ONCE = 4096  # rows of a call


class ExportedModel:
    """A version of an export, called through its own signatures.

    Args:
        folder: The folder of the version, with `saved_model.pb` and `manifest.json`.

    Attributes:
        manifest: What the export says of itself.
        schema: The columns that are its inputs, and the tasks.

    Raises:
        PipelineError: The folder is no export.
    """

    def __init__(self, folder: Path) -> None:
        if not (folder / MANIFEST).is_file() or not (folder / "saved_model.pb").is_file():
            raise PipelineError(
                f"{folder} is no exported model: expected the folder of a version, such as "
                f"runs/clicks/export/clicks/1, with saved_model.pb and {MANIFEST}."
            )
        self.manifest = read_json(folder / MANIFEST)
        inputs = self.manifest["signatures"][ROWS_SIGNATURE]["inputs"]
        whole = raw_columns(Schema.from_dict(self.manifest["schema"]))
        features = tuple(feature for feature in whole.features if feature.name in inputs)
        self.schema = replace(whole, features=features)
        self._loaded = tf.saved_model.load(str(folder))  # its functions live as long as it does

    @property
    def explains(self) -> bool:
        """Whether the export returns weights of events or experts."""
        if EXPLAINED_SIGNATURE not in self._loaded.signatures:
            return False
        outputs = self._loaded.signatures[EXPLAINED_SIGNATURE].structured_outputs
        return any(name.startswith(("attention/", "gate/")) for name in outputs)

    def score(self, table: pa.Table) -> Scores:
        """Scores each row for each task."""
        call, parts = self._loaded.signatures[ROWS_SIGNATURE], []
        for begin in range(0, max(len(table), 1), AT_ONCE):
            raw = raw_rows(self.schema, table.slice(begin, AT_ONCE))
            parts.append(call(**{name: tf.constant(values) for name, values in raw.items()}))
        return {
            task.name: np.concatenate([part[task.name].numpy() for part in parts])
            for task in self.schema.tasks
        }

    def explained(self, table: pa.Table) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """The explanations of the candidates of one request, and its raw input."""
        raw = raw_request(self.schema, table)
        call: Any = self._loaded.signatures[EXPLAINED_SIGNATURE]
        outputs = call(**{name: tf.constant(values) for name, values in raw.items()})
        return {name: values.numpy() for name, values in outputs.items()}, raw
