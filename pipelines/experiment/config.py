"""Reads and checks an experiment's TOML file."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, create_model, model_validator

from pipelines.common.artifacts import EXPERIMENT, read_json
from pipelines.common.errors import PipelineError, check_known
from pipelines.common.own_parts import OwnParts
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.evaluation_options import EvaluationOptions, check_gates, check_slices
from pipelines.experiment.export_options import ExportOptions
from pipelines.experiment.loop_options import LoopOptions
from pipelines.experiment.made_columns import check_made_columns, fill_histories
from pipelines.experiment.model_options import (
    DEFAULT_MODEL,
    ModelOptions,
    any_model,
    any_named_model,
    default_model,
)
from pipelines.experiment.monitor import Monitor
from pipelines.experiment.names import check_feature_names, check_task_names
from pipelines.experiment.negative_options import NegativeOptions
from pipelines.experiment.own_options import (
    check_own_options,
    import_parts,
    iso_text,
    own_transform,
)
from pipelines.experiment.ranked_tasks import check_ranked_tasks
from pipelines.experiment.teacher_options import TeacherOptions
from pipelines.experiment.validation_errors import explain
from pipelines.experiment.weight_options import TaskWeightOptions, check_tasks
from pipelines.features.transforms import TRANSFORMS
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.item_features import check_key
from recsys_attn.id_transforms import OwnTransform
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence, Task


class TrainingOptions(LoopOptions):
    """The `[training]` table.

    Attributes:
        epochs: Maximum number of epochs; training ends before by `patience`. 0 only with `prune`.
        batch_size: Requests of each shard in a step. None: so many that an epoch has about 256
            steps, at least 32 and at most 1024: few rows in large batches would take few steps.
        shards: Parts of the data, each of which gives a batch to each step. None: one for each
            replica. One worker with two shards takes the same steps as two workers.
        learning_rate: Learning rate; with a row-wise optimizer, of all weights but the tables.
        embeddings_learning_rate: Learning rate of the tables with a row-wise optimizer. None:
            `learning_rate`.
        optimizer: `"lazy_adam"`, `"lazy_adagrad"` and `"row_wise_adagrad"` are row-wise: they
            update the rows of the tables that a batch looks up, and Adam the rest. `"adam"`,
            `"adagrad"` and `"sgd"` are Keras' own, whose steps update the whole tables.
        weight_decay: Decoupled weight decay; with a row-wise optimizer, only of the table rows
            that are looked up.
        clip_norm: Maximum global norm of the gradients.
        warmup_steps: Steps of linear warm-up of the learning rate.
        cosine_steps: Steps of cosine decay to zero after the warm-up; 0 for none.
        penalty_warmup: Two numbers of steps. The penalties that layers add to the loss, those of
            `gates`, `disagreement` and `balance`, are zero before the first and grow linearly until
            the second. Raise both with `gates`, so that the model learns before they close.
        learning_rate_decay: Factor of the learning rate after each epoch.
        reduce_on_plateau: Factor of the learning rate after an epoch that is no better; 1 keeps it.
            Epochs before the first with an AUC above chance do not count.
        patience: Epochs without a better one after which training stops. Epochs before the first
            with an AUC above chance do not count.
        keep: Which weights are the result: those of the best epoch, or of the last. Set `"last"`
            with `gates`, since the best epoch is one before they close; then `patience` has no
            effect.
        monitor: Validation metric by which an epoch is better: a task (its AUC), a metric such as
            `"ndcg@10"` (the mean of all tasks), or `"click/ndcg@10"`. None: the mean over all tasks
            of AUC, or of NDCG@10 where a task's loss gives no probabilities.
        precision: `"mixed_bfloat16"` computes in bfloat16 and keeps float32 weights.
        jit_compile: Compile the tower with XLA. None: false, unless the measurement at the start of
            a long training finds it faster. false also switches the measurement off.
        micro_batch_size: Candidates that the tower computes at a time, few enough to stay in a
            processor's cache; gradients are added up over the whole batch, while dropout,
            statistics of a batch and losses that layers add are those of a micro-batch, which then
            has at least 32 requests. 0: the whole batch at once. None: 64, or more for a tower of
            many weights; with a GPU the whole batch. Where this and `jit_compile` are left out and
            an epoch has 500,000 rows or more, the fastest way is measured at the start, and
            remembered for the machine.
        shuffle_rows: Rows that are shuffled together, at least a row group; twice as many are in
            memory. Raise it for sorted data.
        embeddings_l2: L2 penalty of the embedding tables. With a row-wise optimizer, of the rows
            looked up, each divided by its frequency (as in DIN), usually 1 to 50; else of all rows
            in each step, which is slow with a large vocabulary, usually 1e-6 to 0.05: numbers of
            one kind are far too large or small for the other. None: 3 with a row-wise optimizer,
            else 0.
        embeddings_stddev: Standard deviation of the initial rows of the embedding tables. Lower it
            where seeds differ much; BARS has 1e-4. None: 0.01.
        id_dropout: Share of the ids of a step that are made unknown. Set 0.1 where many users or
            items are new at serving, so that the row of unknown values is trained; the model
            learns more slowly.
        calibrate: Fit slope and offset of each task's logits on the validation rows, so that
            predicted rates are the observed ones. The order of candidates stays.
        negatives: Items drawn for each request, as further candidates. None: only those of the
            rows.
        warm_start: Folder of an older run of the same model, to start from its weights and
            optimizer; table rows are matched by value, and `gates` that it did not have are new.
        prune: Folder of a run on the same data whose model has `gates`: training starts from that
            model without what its gates closed, or with `prune_heads` of a model without gates. The
            table `model` must be that of the run.
        prune_heads: Number of heads that `prune` keeps of a model without gates, of all places of
            attention with several heads together, at least one in each: the highest on the
            validation rows. None: what the gates say.
        prune_by: What heads are ranked by: `"relevance"`, the size of gradient times output, or
            `"confidence"`, the mean of the largest weight. None: relevance.
        teacher: An older run whose probabilities are part of the labels (distillation), so that a
            smaller model learns more than from the labels alone.
        task_weights: Learned weights of the tasks' losses, in place of their `weight`, by name or
            with options: `"uncertainty"`, by the size of each loss, or `"gradnorm"`, so that the
            tasks' gradients are alike. Set it where one task learns and another does not. None:
            the `weight` of each task.
        checkpoint_every: Steps between checkpoints; 0: only at the end of each epoch.
        keep_checkpoints: Number of last checkpoints to keep, besides the best.
    """

    penalty_warmup: tuple[int, int] = (0, 0)
    monitor: str | None = None
    embeddings_stddev: float | None = Field(default=None, gt=0)
    jit_compile: bool | None = None
    micro_batch_size: int | None = Field(default=None, ge=0)
    id_dropout: float = Field(default=0.0, ge=0, lt=1)
    calibrate: bool = True
    negatives: NegativeOptions | None = None
    warm_start: Path | None = None
    prune: Path | None = None
    prune_heads: int | None = Field(default=None, ge=1)
    prune_by: Literal["relevance", "confidence"] | None = None
    teacher: TeacherOptions | None = None
    task_weights: TaskWeightOptions | None = None

    @property
    def penalty_steps(self) -> tuple[int, int]:
        return self.penalty_warmup

    @model_validator(mode="after")
    def _check(self) -> TrainingOptions:
        if self.prune is None and not self.epochs:
            raise ValueError("`epochs` must be at least 1 without `prune`. Received: epochs=0")
        if self.prune is not None and self.warm_start is not None:
            raise ValueError("`prune` and `warm_start` are two models to start from. Keep one")
        if self.prune is None and self.prune_heads is not None:
            raise ValueError(
                "`prune_heads` is a number of heads of the run that `prune` names. Add `prune`, or "
                f"remove it. Received: prune_heads={self.prune_heads}"
            )
        if self.prune_heads is None and self.prune_by is not None:
            raise ValueError(
                "`prune_by` ranks heads of which `prune_heads` are kept. Add `prune_heads`, or "
                f"remove it. Received: prune_by={self.prune_by!r}"
            )
        first, last = self.penalty_warmup
        if not 0 <= first <= last:
            raise ValueError(
                "`penalty_warmup` has the step at which the penalties start to grow, then the step "
                f"from which they are whole. Received: penalty_warmup=[{first}, {last}]"
            )
        return self


_Feature = Annotated[Categorical | Numeric | Sequence, Field(discriminator="kind")]


class Experiment(TomlTable):
    """The whole experiment file.

    Attributes:
        name: Name of the run folder (`runs/<name>`) and of the export: letters, digits, `_`, `.`
            and `-`.
        seed: Fixes the split, the order of rows, the initial weights and dropout.
        imports: Python modules whose parts this file names, beside it or on PYTHONPATH.
        imports_from: Folder of these modules. None: that of the experiment file.
        data: The rows: source, split and histories.
        features: The inputs of the model.
        tasks: The predicted labels.
        model: The model. None: `attention_ranker`.
        training: The training.
        evaluation: The evaluation.
        export: The export.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")
    seed: int = Field(default=0, ge=0, lt=2**32)
    imports: tuple[str, ...] = ()
    imports_from: str | None = None
    data: DataOptions
    features: tuple[_Feature, ...]
    tasks: tuple[Task, ...] = Field(min_length=1)
    model: ModelOptions = ModelOptions(name=DEFAULT_MODEL)
    training: TrainingOptions = TrainingOptions()
    evaluation: EvaluationOptions = EvaluationOptions()
    export: ExportOptions = ExportOptions()

    @property
    def schema_(self) -> Schema:
        """The schema of features and tasks (pydantic reserves the name `schema`)."""
        return Schema(self.features, self.tasks)

    @model_validator(mode="after")
    def _check_names(self) -> Experiment:
        features = [feature.name for feature in self.schema_.features]
        check_feature_names(features)
        for feature in self.features:
            if isinstance(feature.transform, OwnTransform):
                key = f"transform` of `{feature.name}"
                check_known(key, [feature.transform.name], list(TRANSFORMS))
        tasks = [task.name for task in self.tasks]
        check_task_names(tasks)
        check_made_columns(self.data, self.schema_)
        check_known("model.exclude", self.model.exclude, features)
        check_known("evaluation.ceiling", self.evaluation.ceiling, tasks)
        check_gates(self.evaluation, self.tasks)
        check_slices(self.evaluation, self.tasks)
        check_tasks(self.tasks, self.training.task_weights, self.training.calibrate)
        self._check_items()
        try:
            used = {feature.name for feature in self.model_schema.features}
        except ValueError as error:
            raise ValueError(f"Without the features that `model.exclude` names: {error}") from None
        for task in self.tasks:
            if task.label_column in used:
                raise ValueError(
                    f"The label {task.label_column!r} of the task {task.name!r} is also a feature "
                    "of the model, which would learn to copy it. Remove the feature, or name it "
                    "in `model.exclude`."
                )
        check_ranked_tasks(self.model_schema, self.data, self.monitor)
        return self

    def _check_items(self) -> None:
        if self.data.items is not None:
            check_key(self.data.items, self.schema_)
        elif self.training.negatives is not None:
            raise ValueError(
                "`training.negatives` are drawn from a catalogue. Add the table `data.items` with "
                'the `key` of an item, such as `items = { key = "item_id" }`'
            )

    @property
    def own_parts(self) -> OwnParts:
        """The user's modules."""
        return OwnParts(self.imports, self.imports_from or "")

    @property
    def monitor(self) -> Monitor:
        """The validation metric that decides which epoch is the best."""
        return Monitor.of(self.training.monitor, self.tasks)

    @property
    def model_schema(self) -> Schema:
        """The schema without the excluded features."""
        kept = tuple(f for f in self.features if f.name not in self.model.exclude)
        return Schema(kept, self.tasks)


def load_experiment(path: Path, overrides: dict[str, Any] | None = None) -> Experiment:
    """Reads and checks a TOML file, or the experiment saved in a run folder.

    Args:
        path: The file or the run folder.
        overrides: Values by dotted key that replace those of the file.
    """
    from recsys_attn import models

    values = read_values(path, overrides or {})
    data = values.get("data")
    if "objectives" in values or (isinstance(data, dict) and data.get("source") == "events"):
        raise PipelineError(
            f"{path} is the experiment of a sequence model. `recsys-attn pretrain` trains, "
            "evaluates and exports it, with `--step` one of these alone, and `recsys-attn serve` "
            "scores with it."
        )
    import_parts(values, path)
    return _checked(values, path, lambda: experiment_type(tuple(models.MODELS)))


def check_keys(path: Path, overrides: dict[str, Any]) -> None:
    """Checks an experiment as far as it can be without an import of TensorFlow.

    So an error takes no time: what is left are the values of the model's arguments, and all of an
    experiment with `imports` or with events.

    Raises:
        PipelineError: A key or a value is wrong.
    """
    values = read_values(path, overrides)
    data = values.get("data")
    has_events = isinstance(data, dict) and data.get("source") == "events"
    if not (has_events or "objectives" in values or "imports" in values):
        _checked(values, path, _named_type)


def _checked(
    values: dict[str, Any], path: Path, kind_of: Callable[[], type[Experiment]]
) -> Experiment:
    inherited = _expand_shorthands(values)
    check_own_options(values, str(path))
    kind = kind_of()
    try:
        # Pydantic's strict rules for JSON fit TOML: lists are lists, whole numbers are numbers,
        # and nothing else is converted.
        text = json.dumps(values, default=iso_text)
        return kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise PipelineError(explain(error, kind, str(path), inherited, values=values)) from None


def read_values(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """Reads the values of a TOML file or a run folder, with others by dotted key in their place."""
    values = _read_kept(path) if path.is_dir() else _read_toml(path)
    for key, value in overrides.items():
        _set(values, key, value)
    return values


@functools.cache
def experiment_type(names: tuple[str, ...]) -> type[Experiment]:
    """The class of an experiment with one of the models of these names."""
    return create_model("Experiment", __base__=Experiment, model=(any_model(), default_model()))


def _named_type() -> type[Experiment]:
    default = ModelOptions(name=DEFAULT_MODEL)
    return create_model("Experiment", __base__=Experiment, model=(any_named_model(), default))


def _read_kept(folder: Path) -> dict[str, Any]:
    if not (folder / EXPERIMENT).is_file():
        raise PipelineError(
            f"The folder {folder} holds no experiment: expected an experiment's TOML file, or a "
            f"run folder with {EXPERIMENT}, which its first step writes."
        )
    return read_json(folder / EXPERIMENT, "Give the experiment's TOML file and --run-dir.")


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise PipelineError(f"The experiment file {path} does not exist.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"The experiment file {path} cannot be read: {error}.") from None
    except tomllib.TOMLDecodeError as error:
        raise PipelineError(f"{path} is not valid TOML: {error}.") from None


def _set(values: dict[str, Any], key: str, value: Any) -> None:
    """Sets a dotted key; `imports+` adds to a list."""
    *tables, last = key.removesuffix("+").split(".")
    for depth, table in enumerate(tables, 1):
        values = values.setdefault(table, {})
        if not isinstance(values, dict):
            name = ".".join(tables[:depth])
            raise PipelineError(
                f"--set {key}: `{name}` is {'a list' if isinstance(values, list) else 'a value'} "
                "in the experiment file; expected a table, such as `training`."
            )
    if key.endswith("+"):
        value = list(dict.fromkeys([*values.get(last, []), value]))
    values[last] = value


def _expand_shorthands(values: dict[str, Any]) -> list[str]:
    """Expands `transform = "hash"` and paths by split, and copies options of shared features.

    Returns:
        The keys that were copied.
    """
    data, model, features = (values.get(name) for name in ("data", "model", "features"))
    if isinstance(data, dict) and isinstance(data.get("path"), dict):
        split = data.setdefault("split", {})
        if isinstance(split, dict):
            split.setdefault("by", "provided")
    if isinstance(model, dict):
        model.setdefault("name", DEFAULT_MODEL)
        if isinstance(model.get("encoder_from"), str):
            model["encoder_from"] = {"run": model["encoder_from"]}
    tables = {
        index: feature
        for index, feature in enumerate(features if isinstance(features, list) else [])
        if isinstance(feature, dict)
    }
    owners = {}
    for feature in tables.values():
        transform = feature.get("transform")
        if feature.get("kind") != "numeric" and isinstance(transform, str | dict):
            named = {"kind": transform} if isinstance(transform, str) else transform
            feature["transform"] = own_transform(named) or {"kind": "vocabulary", **named}
        if feature.get("kind") == "categorical":
            owners[str(feature.get("name"))] = feature
    inherited = []
    for index, feature in tables.items():
        owner = owners.get(str(feature.get("shares")), {})
        for key in ("dtype", "transform", "width", "table_width"):
            if feature.get("kind") == "sequence" and key in owner and key not in feature:
                feature[key] = owner[key]
                inherited.append(f"features[{index}].{key}")
    return inherited + fill_histories(tables, values.get("data"))
