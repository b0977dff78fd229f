"""The `[training.negatives]` table of an experiment."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipelines.common.toml_table import TomlTable


class NegativeOptions(TomlTable):
    """The `[training.negatives]` table: items drawn for each request of the training.

    Attributes:
        count: Items to draw for each request.
        by: `"uniform"`; `"popularity"`: by (1 + positives in the train rows) ** 0.75; `"batch"`:
            positives of the batch's other requests; `"hard"`: of `count * pool` uniform draws,
            those that the model scores highest.
        pool: With `by = "hard"`, draws for each item kept.
    """

    count: int = Field(default=20, ge=1)
    by: Literal["uniform", "popularity", "batch", "hard"] = "uniform"
    pool: int = Field(default=4, ge=2)

    @model_validator(mode="after")
    def _check_pool(self) -> NegativeOptions:
        if self.by != "hard" and self.pool != NegativeOptions.model_fields["pool"].default:
            raise ValueError(f'`pool` needs `by = "hard"`. Received: by={self.by!r}')
        return self
