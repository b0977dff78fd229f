"""The options that every training loop has."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from pipelines.common.toml_table import TomlTable
from pipelines.feed.order import SHUFFLE_ROWS

ROW_WISE = ("lazy_adam", "lazy_adagrad", "row_wise_adagrad")


class LoopOptions(TomlTable):
    """The base of the `[training]` tables, whose docstrings describe the keys."""

    epoch_steps: ClassVar[int] = 256  # of a batch size that is not set
    batch_sizes: ClassVar[tuple[int, int]] = (32, 1024)  # the smallest and the largest

    epochs: int = Field(default=30, ge=0)
    batch_size: int | None = Field(default=None, ge=1)
    shards: int | None = Field(default=None, ge=1)
    learning_rate: float = Field(default=2e-3, gt=0)
    embeddings_learning_rate: float | None = Field(default=None, gt=0)
    optimizer: Literal[
        "lazy_adam", "lazy_adagrad", "row_wise_adagrad", "adam", "adagrad", "sgd"
    ] = "lazy_adam"
    patience: int = Field(default=2, ge=0)
    weight_decay: float = Field(default=0.0, ge=0)
    clip_norm: float | None = Field(default=None, gt=0)
    warmup_steps: int = Field(default=0, ge=0)
    cosine_steps: int = Field(default=0, ge=0)
    learning_rate_decay: float = Field(default=1.0, gt=0, le=1)
    reduce_on_plateau: float = Field(default=0.3, gt=0, le=1)
    keep: Literal["best", "last"] = "best"
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    shuffle_rows: int = Field(default=SHUFFLE_ROWS, ge=1)
    embeddings_l2: float | None = Field(default=None, ge=0)
    checkpoint_every: int = Field(default=1000, ge=0)
    keep_checkpoints: int = Field(default=2, ge=1)

    def batch_of(self, count: int) -> int:
        """The requests or histories of each shard in a step.

        Args:
            count: Requests or histories of a shard in an epoch.
        """
        least, most = self.batch_sizes
        exponent = round(math.log2(max(1, count / self.epoch_steps)))
        return self.batch_size or min(max(2**exponent, least), most)

    @property
    def penalty_steps(self) -> tuple[int, int]:
        """The step at which penalties of layers start to grow, and that from which they are whole.

        The penalties of layers are zero before the first.
        """
        return (0, 0)

    @property
    def renews_tables(self) -> bool:
        """Whether tables are learned anew in each epoch once patience has ended."""
        return False

    @model_validator(mode="after")
    def _check_rates(self) -> LoopOptions:
        if self.embeddings_learning_rate is not None and self.optimizer not in ROW_WISE:
            raise ValueError(
                f"`embeddings_learning_rate` needs a row-wise optimizer: {', '.join(ROW_WISE)}. "
                f"Received: optimizer={self.optimizer!r}"
            )
        return self
