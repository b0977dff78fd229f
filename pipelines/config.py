"""One TOML file describes an experiment; here it becomes checked objects."""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
    model_validator,
)

from pipelines.config_errors import explain
from pipelines.errors import PipelineError
from pipelines.ingest.options import DataOptions
from recsys_attn import models
from recsys_attn.schema import (
    Categorical,
    Hash,
    Numeric,
    Quantile,
    Schema,
    Sequence,
    Task,
    Vocabulary,
)


class Options(BaseModel):
    """A TOML table: unknown keys are errors, values keep their types."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


def _arguments_model(name: str) -> type[BaseModel]:
    """Checks a model function's keyword arguments by their annotations."""
    parameters = inspect.signature(models.get(name), eval_str=True).parameters.values()
    fields = {
        parameter.name: (parameter.annotation, parameter.default)
        for parameter in parameters
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        and parameter.name != "embeddings_regularizer"
    }
    return create_model(f"model {name}", __config__=Options.model_config, **fields)  # type: ignore[call-overload]  # mypy cannot see through **


class ModelOptions(BaseModel):
    """`name`, the features it leaves out, and the arguments of the model's function."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "attention_ranker"
    exclude: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _check_arguments(self) -> ModelOptions:
        arguments = _arguments_model(self.name)
        try:
            arguments(**self.arguments)
        except ValidationError as error:
            raise ValueError(explain(error, [arguments], f"arguments of {self.name}")) from None
        return self


class TrainingOptions(Options):
    """How the model is trained. `batch_size` counts requests."""

    epochs: int = Field(default=10, ge=1)
    batch_size: int = Field(default=1024, ge=1)
    learning_rate: float = Field(default=1e-3, gt=0)
    optimizer: Literal["adam", "adamw", "adagrad", "sgd"] = "adam"
    patience: int = Field(default=2, ge=0)
    reduce_on_plateau: float = Field(default=1.0, gt=0, le=1)
    monitor: str | None = None
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    jit_compile: bool = False
    shuffle_row_groups: int = Field(default=16, ge=1)
    embeddings_l2: float = Field(default=0.0, ge=0)


class EvaluationOptions(Options):
    """What is evaluated: GAUC's group, true probabilities and heuristics by column name."""

    split: Literal["train", "valid", "test"] = "test"
    group: str | None = None
    ceiling: dict[str, str] = {}
    baselines: dict[str, str] = {}


class ExportOptions(Options):
    """How the model is exported and checked."""

    name: str | None = None
    parity_rows: int = Field(default=512, ge=1)
    tolerance: float = Field(default=1e-5, gt=0)
    warmup_requests: int = Field(default=5, ge=0, le=1000)


_TRANSFORMS = (Vocabulary, Hash, Quantile)
_TRANSFORM: TypeAdapter[Any] = TypeAdapter(
    Annotated[Vocabulary | Hash | Quantile, Field(discriminator="kind")],
    config=ConfigDict(extra="forbid"),
)
_Feature = Annotated[Categorical | Numeric | Sequence, Field(discriminator="kind")]


class Experiment(Options):
    """A whole experiment, as in `experiments/*.toml`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0)
    data: DataOptions
    features: tuple[_Feature, ...]
    tasks: tuple[Task, ...]
    model: ModelOptions = ModelOptions()
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    export: ExportOptions = ExportOptions()

    @property
    def schema_(self) -> Schema:
        """The schema of features and tasks (pydantic keeps the plain name for itself)."""
        return Schema(self.features, self.tasks)

    @model_validator(mode="before")
    @classmethod
    def _expand_shorthands(cls, values: Any) -> Any:
        """`transform = "hash"` is `{kind = "hash"}`; a sequence has what the shared feature has."""
        if not isinstance(values, dict) or not isinstance(values.get("features"), list):
            return values
        features = [dict(f) if isinstance(f, dict) else f for f in values["features"]]
        by_name = {f.get("name"): f for f in features if isinstance(f, dict)}
        for index, feature in enumerate(features):
            if not isinstance(feature, dict) or feature.get("kind") == "numeric":
                continue
            owner = by_name.get(feature.get("shares"), {})
            for key in ("dtype", "transform", "width"):
                if key in owner and feature.get("kind") == "sequence":
                    feature.setdefault(key, owner[key])
            if isinstance(feature.get("transform"), str | dict):
                feature["transform"] = _id_transform(feature["transform"], index)
        return {**values, "features": features}

    @model_validator(mode="after")
    def _check_names(self) -> Experiment:
        names = {feature.name for feature in self.schema_.features}
        _known("model.exclude", self.model.exclude, names)
        tasks = {task.name for task in self.tasks}
        _known("evaluation.ceiling", self.evaluation.ceiling, tasks)
        if self.training.monitor is not None:
            _known("training.monitor", [self.training.monitor], tasks)
        return self

    @property
    def model_schema(self) -> Schema:
        """The schema without the features that the model leaves out."""
        kept = tuple(f for f in self.features if f.name not in self.model.exclude)
        return Schema(kept, self.tasks)


def load_experiment(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Reads and checks a TOML file; `overrides` maps dotted keys to values."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"The experiment file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"The experiment file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path} is not valid TOML: {error}.") from None
    for key, value in (overrides or {}).items():
        _set(values, key, value)
    try:
        return Experiment.model_validate(values)
    except ValidationError as error:
        raise PipelineError(explain(error, [Experiment], str(path))) from None


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    *tables, last = key.split(".")
    for table in tables:
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            raise PipelineError(f"--set {key}: {table!r} is not a table in the experiment file.")
    values[last] = value


def _id_transform(value: str | dict[str, Any], index: int) -> Any:
    table = {"kind": value} if isinstance(value, str) else {"kind": "vocabulary", **value}
    try:
        return _TRANSFORM.validate_python(table)
    except ValidationError as error:
        raise ValueError(explain(error, _TRANSFORMS, f"features[{index}].transform")) from None


def _known(key: str, names: Any, known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"`{key}` names {name!r}; expected one of {sorted(known)}")
