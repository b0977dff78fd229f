"""The `[model]` table: its keys are the arguments of the model's function."""

from __future__ import annotations

import functools
import operator
from typing import Annotated, Any, Literal

from pydantic import Field

from pipelines.common.function_options import options_of
from pipelines.common.toml_table import TomlTable
from recsys_attn import models

DEFAULT_MODEL = "attention_ranker"
BY_TRAINING = "embeddings_regularizer"  # an argument that training gives


class ModelOptions(TomlTable):
    """The `[model]` table: name, excluded features, and arguments of the model's function.

    Attributes:
        exclude: Features that the model does not use; they stay in the data.
    """

    name: str
    exclude: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the model's function besides the schema."""
        return self.model_dump(exclude={"name", "exclude"})


def default_model() -> ModelOptions:
    """The model of an experiment that names none."""
    return _table(DEFAULT_MODEL)(name=DEFAULT_MODEL)


def any_model() -> Any:
    """The type of `[model]`: the table of any model that is registered now."""
    tables = [_table(name) for name in models.MODELS]
    return Annotated[functools.reduce(operator.or_, tables), Field(discriminator="name")]


@functools.cache
def _table(name: str) -> type[ModelOptions]:
    own = {"name": (Literal[name], name)}
    return options_of(models.get(name), ModelOptions, {BY_TRAINING}, **own)
