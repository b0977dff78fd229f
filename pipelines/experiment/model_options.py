"""The `[model]` table: its keys are the arguments of the model's function."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from pipelines.common.function_options import options_of, short_form
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.encoder_options import EncoderFrom
from recsys_attn.model_names import Keys, arguments_by_model

DEFAULT_MODEL = "attention_ranker"


class ModelOptions(TomlTable):
    """The `[model]` table: name, options of any model, and arguments of the model's function.

    Attributes:
        exclude: Features that the model does not use; they stay in the data.
        encoder_from: A run of a sequence model, whose encoder and rows of items the training
            starts from. None: the model as it is.
        seeds: Seeds of several trainings, whose models become an ensemble; 3 to 5 are usual. They
            fix the order of rows, the initial weights and dropout in place of `seed`, which still
            fixes the split. Empty: one training.
    """

    name: str
    exclude: tuple[str, ...] = ()
    encoder_from: EncoderFrom | None = None
    seeds: tuple[int, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments of the model's function besides the schema."""
        return self.model_dump(exclude=set(ModelOptions.model_fields))

    @property
    def is_ensemble(self) -> bool:
        """Whether the model is the mean of several."""
        return bool(self.seeds)


class EnsembleOptions(ModelOptions):
    """Several trained models as one: the weighted mean of their calibrated logits.

    Attributes:
        runs: Folders of the runs of the models: trained on the same rows, features and tasks. Give
            models of different kinds, which are wrong in different rows.
    """

    name: Literal["ensemble"] = "ensemble"
    runs: tuple[Path, ...] = Field(min_length=1)

    @property
    def is_ensemble(self) -> bool:
        return True


def any_model() -> Any:
    """The type of `[model]`: the table of any model that is registered now, or of an ensemble."""
    from recsys_attn import models

    return _one_of([*(_table(name) for name in models.MODELS), EnsembleOptions])


def any_named_model() -> Any:
    """The same with values of any type: what can be checked without an import of Keras."""
    named = (_named(*model) for model in arguments_by_model().items())
    return _one_of([*named, EnsembleOptions])


def default_model() -> ModelOptions:
    """The model of an experiment that names none."""
    return _table(DEFAULT_MODEL)(name=DEFAULT_MODEL)


def _one_of(tables: Iterable[type[ModelOptions]]) -> Any:
    return Annotated[functools.reduce(operator.or_, tables), Field(discriminator="name")]


def _named(name: str, arguments: Keys) -> type[ModelOptions]:
    fields = {"name": (Literal[name], name), **_of_any_value(arguments)}
    return create_model(name, __base__=ModelOptions, **fields)


def _of_any_value(keys: Keys) -> dict[str, Any]:
    """The fields of a table; of those of an inner table only the keys are known."""
    fields: dict[str, Any] = {}
    for key, inner in keys.items():
        kind: Any = Any
        if inner is not None:
            table = create_model(key, __base__=TomlTable, **_of_any_value(inner))
            kind = short_form(table, inner) | None
        fields[key] = (kind, None)
    return fields


@functools.cache
def _table(name: str) -> type[ModelOptions]:
    from recsys_attn import models

    return options_of(models.get(name), ModelOptions, name=(Literal[name], name))
