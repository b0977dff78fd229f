"""The `[export]` table of an experiment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipelines.common.toml_table import TomlTable

Storage = Literal["float32", "float16", "int8"]


class ExportOptions(TomlTable):
    """The `[export]` table.

    Attributes:
        name: Name of the model's folder. None: the name of the experiment.
        parity_rows: Rows whose scores are compared between training and export.
        tolerance: Largest difference of a score in that comparison.
        warmup_requests: Requests of the warm-up file in the export.
        tables: Storage of the embedding tables. `"float16"` halves them and changes little;
            `"int8"`, with a scale for each row, makes them a third to a quarter as large.
        tower: Storage of the matrices of the tower, which are made float32 again in each call. Set
            it only where the tower is much of the export.
        weights_tolerance: Largest change of a score by `tables` and `tower`, in the evaluated rows.
    """

    name: str | None = None
    parity_rows: int = Field(default=512, ge=1)
    tolerance: float = Field(default=1e-5, gt=0)
    warmup_requests: int = Field(default=5, ge=0, le=500)
    tables: Storage = "float32"
    tower: Storage = "float32"
    weights_tolerance: float = Field(default=0.02, gt=0)

    @property
    def has_small_weights(self) -> bool:
        """Whether weights are stored in fewer bits than the trained ones."""
        return (self.tables, self.tower) != ("float32", "float32")
