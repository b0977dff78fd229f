"""The `[training.teacher]` table of an experiment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pipelines.common.toml_table import TomlTable


class TeacherOptions(TomlTable):
    """The table `teacher` of `[training]`.

    Attributes:
        run: Folder of the run of a trained model, on the same data and features; the student may
            leave features out by `model.exclude`.
        weight: Share of the teacher's probability in a label.
    """

    run: Path
    weight: float = Field(default=0.5, gt=0, le=1)
