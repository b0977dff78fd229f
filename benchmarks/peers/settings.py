"""What the contenders of `benchmarks/training.py` train: sizes, settings and arithmetic."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

FIELDS, WIDTH = 39, 16
LAYERS, HEADS = 2, 2
HEAD_DIMS = {"autoint": 32, "autoint8": 8}
EXPERTS, EXPERT_UNITS, TOWER_UNITS = 8, (256, 128), (64,)
HISTORY, HISTORY_WIDTH = 100, 32
ATTENTION_UNITS, MLP_UNITS = (80, 40), (200, 80)
TASKS = ("click", "like", "buy")
RESERVED = 2  # ids of padding and of unknown values

BATCHES = {"autoint": 4096, "autoint8": 4096, "din": 1024, "mmoe": 4096}
TITLES = {
    "autoint": "AutoInt: 39 fields, width 16, 2 layers, 2 heads of 32",
    "autoint8": "AutoInt: 39 fields, width 16, 2 layers, 2 heads of 8",
    "din": "DIN: history of 100, width 32, activation unit 80-40, then 200-80",
    "mmoe": "MMoE: 39 fields, width 16, 8 experts of 256-128, 3 tasks of 64",
}


@dataclass(frozen=True)
class Settings:
    """The settings of a contender, as JSON.

    Attributes:
        model: `"autoint"`, `"autoint8"`, `"din"`, `"din_encoded"` or `"mmoe"`.
        vocabulary: Rows of all tables together.
        batch: Rows of a step.
        data: Folder of the arrays.
        warm_up: Steps before those that are timed.
        steps: Steps that are timed.
        auc_steps: Steps after which the AUC is taken; 0 for no AUC.
        learning_rate: Of Adam, for everything.
        precision: `"float32"` or `"mixed_bfloat16"`.
        compiled: Whether XLA compiles the tower.
        micro_batch_size: Rows that the tower computes at a time, as in an experiment.
    """

    model: str
    vocabulary: int
    batch: int
    data: str
    warm_up: int = 3
    steps: int = 20
    auc_steps: int = 0
    learning_rate: float = 1e-3
    precision: str = "float32"
    compiled: bool = False
    micro_batch_size: int | None = None

    @property
    def has_history(self) -> bool:
        return self.model.startswith("din")

    @property
    def tasks(self) -> tuple[str, ...]:
        return TASKS if self.model == "mmoe" else TASKS[:1]

    @property
    def table_rows(self) -> int:
        """Rows of one feature's table: a field's, or the users', or the items'."""
        return self.vocabulary // (2 if self.has_history else FIELDS)


def flops(model: str) -> float:
    """Operations of the matrix products of one row, forward and backward.

    Backward are twice those of forward. DIN's activation unit is counted as factorised, the
    least that is known; to build `[q, k, q - k, q * k]` takes four times as many in its first
    layer.
    """
    if model in HEAD_DIMS:
        width, forward = HEADS * HEAD_DIMS[model], 2.0 * FIELDS * HEADS * HEAD_DIMS[model]
        for before in (WIDTH, *[width] * (LAYERS - 1)):
            forward += 4 * _chain(before, width) * FIELDS + 2 * 2 * FIELDS**2 * width
    elif model == "mmoe":
        fields = FIELDS * WIDTH
        forward = EXPERTS * _chain(fields, *EXPERT_UNITS)
        gate = _chain(fields, EXPERTS) + _chain(EXPERTS, EXPERT_UNITS[-1])
        forward += len(TASKS) * (gate + _chain(EXPERT_UNITS[-1], *TOWER_UNITS, 1))
    else:
        event = _chain(HISTORY_WIDTH, *ATTENTION_UNITS, 1) + 2 * HISTORY_WIDTH
        forward = HISTORY * event + _chain(3 * HISTORY_WIDTH, *MLP_UNITS, 1)
    return 3 * forward


def _chain(*widths: int) -> float:
    """Of the layers of a network."""
    return 2.0 * sum(a * b for a, b in pairwise(widths))
