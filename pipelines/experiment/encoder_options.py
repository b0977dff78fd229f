"""The `encoder_from` table of `[model]`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.toml_table import TomlTable


class EncoderFrom(TomlTable):
    """The table `encoder_from` of `[model]`, or the folder of its run alone.

    Attributes:
        run: Run folder of a sequence model, whose items have the width of this model's.
        history: The history that is encoded; its sequences are those of the sequence model, in
            their order. None: the only one.
        train: Whether training changes the encoder: `"tuned"`, or `"frozen"`, for few labels. Rows
            of items are trained either way.
        learning_rate: Learning rate of a tuned encoder. Set a tenth of the model's where the first
            epoch is the best one. None: that of the model.
    """

    run: Path
    history: str | None = None
    train: Literal["tuned", "frozen"] = "tuned"
    learning_rate: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _check(self) -> EncoderFrom:
        if self.train == "frozen" and self.learning_rate is not None:
            raise ValueError(
                'A frozen encoder has no `learning_rate`: remove it, or set train = "tuned". '
                f"Received: learning_rate={self.learning_rate:g}"
            )
        return self
