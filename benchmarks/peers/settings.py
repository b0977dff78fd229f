"""What the contenders of `benchmarks/training.py` train: models, sizes and settings."""

from __future__ import annotations

from dataclasses import dataclass

FIELDS, WIDTH = 39, 16
LAYERS, HEADS = 2, 2
HEAD_DIMS = {"autoint": 32, "autoint8": 8}
CROSS_LAYERS, DEEP_UNITS = 3, (400, 400, 400)
EXPERTS, EXPERT_UNITS, TOWER_UNITS = 8, (256, 128), (64,)
EXPERT_LAYERS, TASK_EXPERTS, SHARED_EXPERTS = 2, 2, 2  # DeepCTR-Torch makes as many of both
HISTORY, HISTORY_WIDTH = 100, 32
ATTENTION_UNITS, MLP_UNITS = (80, 40), (200, 80)
TASKS = ("click", "like", "buy")
RESERVED = 2  # ids of padding and of unknown values

BATCHES = {
    "autoint": 4096,
    "autoint8": 4096,
    "dcnv2": 4096,
    "deepfm": 4096,
    "din": 1024,
    "dien": 1024,
    "mmoe": 4096,
    "ple": 4096,
}
TITLES = {
    "autoint": "AutoInt: 39 fields, width 16, 2 layers, 2 heads of 32",
    "autoint8": "AutoInt: 39 fields, width 16, 2 layers, 2 heads of 8",
    "dcnv2": "DCN-V2: 39 fields, width 16, 3 full matrices beside 400-400-400",
    "deepfm": "DeepFM: 39 fields, width 16, 400-400-400",
    "din": "DIN: history of 100, width 32, activation unit 80-40, then 200-80",
    "dien": "DIEN: history of 100, width 32, AUGRU, no auxiliary loss, then 200-80",
    "mmoe": "MMoE: 39 fields, width 16, 8 experts of 256-128, 3 tasks of 64",
    "ple": "PLE: 39 fields, width 16, 2 layers of 2 shared and 3 x 2 own experts of 256-128, "
    "3 tasks of 64",
}
WITH_HISTORY = ("din", "din_encoded", "dien")
WITH_TASKS = ("mmoe", "ple")


@dataclass(frozen=True)
class Settings:
    """The settings of a contender, as JSON.

    Attributes:
        model: Of `BATCHES`; or `"din_encoded"`, in the benchmark of requests.
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
        return self.model in WITH_HISTORY

    @property
    def tasks(self) -> tuple[str, ...]:
        return TASKS if self.model in WITH_TASKS else TASKS[:1]

    @property
    def table_rows(self) -> int:
        """Rows of one feature's table: a field's, or the users', or the items'."""
        return self.vocabulary // (2 if self.has_history else FIELDS)
