"""The base class of the definitions."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class DefinitionTable(BaseModel):
    """A TOML table of an experiment: unknown keys are errors, and values are not converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, allow_inf_nan=False, protected_namespaces=()
    )
