"""What all tables of an experiment file have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TomlTable(BaseModel):
    """A TOML table: unknown keys are errors, values keep their types."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )
