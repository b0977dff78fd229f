"""The base class of all tables of an experiment file."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class TomlTable(BaseModel):
    """A TOML table: unknown keys are errors, and values are not converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )
