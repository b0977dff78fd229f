"""The `[refresh]` table of an experiment: what a refreshed model must keep before it serves."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from pipelines.common.toml_table import TomlTable
from pipelines.experiment.gate_options import GateOptions
from recsys_attn.schema import Task

_LOSS = 0.002  # of AUC or logloss, on the newest rows


class RefreshOptions(TomlTable):
    """The `[refresh]` table: when a refreshed model becomes the canary, and the canary stable.

    Attributes:
        gates: Limits of a refreshed model's metrics less those of the serving one, on the same
            newest rows, as in `[[evaluation.gates]]` with `against`. None: AUC may be lower, and
            logloss higher, by at most 0.002.
        rows: Labelled rows of the canary after which it is decided, once. More rows find smaller
            faults, and take longer. 0: a refreshed model that passes `gates` is stable at once.
        max_lag: Seconds by which the state of the canary's answers may be behind its log.
        max_degraded: Share of the canary's answers that the store may leave without its values.
    """

    gates: tuple[GateOptions, ...] | None = None
    rows: int = Field(default=20_000, ge=0)
    max_lag: float = Field(default=300.0, gt=0)
    max_degraded: float = Field(default=0.01, ge=0, lt=1)

    def gates_of(self, tasks: Sequence[Task]) -> tuple[GateOptions, ...]:
        """The gates, or those of the default."""
        if self.gates is not None:
            return self.gates
        gates = [GateOptions(task=task.name, metric="auc", at_least=-_LOSS) for task in tasks]
        gates += [
            GateOptions(task=task.name, metric="logloss", at_most=_LOSS)
            for task in tasks
            if task.has_probabilities
        ]
        return tuple(gates)
