"""Starts a training from the weights of an older run, even if vocabularies have changed."""

from __future__ import annotations

import itertools
import json
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow.compute as pc

from pipelines.common.artifacts import CHECKPOINTS, FEATURES, MODEL
from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.training.checkpoint import Checkpoint, Checkpoints
from pipelines.training.load import MODEL_FILE
from pipelines.training.optimizer import kind_of
from pipelines.training.training_state import TASK_WEIGHTS, Saver, table_of
from recsys_attn.attention.gates import HardConcrete
from recsys_attn.embedding_tables import Table, plan_tables
from recsys_attn.layer import layers_in
from recsys_attn.schema import RESERVED_IDS, Schema


@dataclass(frozen=True)
class RowMapping:
    """Rows of a new table and their rows in an old one."""

    new: np.ndarray
    old: np.ndarray


@dataclass(frozen=True)
class WarmStart:
    """An older run to start from.

    Args:
        folder: Its run folder, with the model, the features and the checkpoints.
    """

    folder: Path

    def start(self, saver: Saver, fitted: FittedFeatures) -> str:
        """Restores model and optimizer from the older run's best epoch.

        Rows of tables are matched by their values; new rows keep their initial values, and the
        optimizer its learning rates. Learned weights of tasks begin anew. Where this model has
        gates and the older one none, the gates keep their initial values too.

        Args:
            saver: The saver of the new training, with a model of the same structure.
            fitted: The features of the new training.

        Returns:
            A summary line.

        Raises:
            PipelineError: The folder has no checkpoints, or its model has another structure.
        """
        schema, width = self._embedding()
        model, best = saver.model, self._best()
        self._check_parts(schema, best, saver)
        variables, new_gates = _variables(saver, best)
        features = FittedFeatures.load(self.folder / FEATURES)
        old = {table.name: table for table in plan_tables(schema, width)}
        new = {t.name: t for t in plan_tables(model.schema, model.embedding.width)}
        rows = {
            name: _same_rows(old[name], new[name], features, fitted)
            for name in old.keys() & new.keys()
        }
        for name, array in _arrays(best):
            variable = variables.pop(name, None)
            if variable is None:
                raise self._another("it has more variables")
            if variable.name == "learning_rate":
                continue
            table = table_of(variable) or ""
            if table in rows and len(array) == old[table].rows:
                value = keras.ops.convert_to_numpy(variable).copy()
                value[rows[table].new] = array[rows[table].old]
                variable.assign(value)
            elif array.shape == tuple(variable.shape):
                variable.assign(array)
            else:
                raise self._another(
                    f"{variable.path} has the shape {array.shape} there and "
                    f"{tuple(variable.shape)} here"
                )
        if variables:
            raise self._another("it has fewer variables")
        reused, known = (sum(counts) for counts in zip(*_counts(rows, new), strict=True))
        gates = f"; the gates of {new_gates} layers are new" if new_gates else ""
        return f"warm start from {self.folder}: {reused:,} of {known:,} table rows reused{gates}"

    def _check_parts(self, schema: Schema, best: Checkpoint, saver: Saver) -> None:
        """Checks tasks and optimizer, as variables are matched only by their order."""
        there, here = (
            [task.name for task in tasks] for tasks in (schema.tasks, saver.model.schema.tasks)
        )
        if there != here:
            raise self._another(f"it has the tasks {there}, in this order, and this run has {here}")
        before, now = best.state["optimizer"], kind_of(saver.optimizer)
        if before != now:
            raise self._another(f"its optimizer is {before}, and this run's is {now}")

    def _embedding(self) -> tuple[Schema, int]:
        """Schema and default width of the older model."""
        path = self.folder / MODEL / MODEL_FILE
        try:
            with zipfile.ZipFile(path) as file:
                config: Any = json.loads(file.read("config.json"))["config"]["embedding"]["config"]
            return Schema.from_dict(config["schema"]), int(config["width"])
        except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
            raise PipelineError(
                f"`training.warm_start`: {path} cannot be read as a model: {error}."
            ) from None

    def _best(self) -> Checkpoint:
        checkpoints = Checkpoints(self.folder / CHECKPOINTS)
        newest = checkpoints.newest
        if newest is None:
            raise PipelineError(
                f"`training.warm_start`: {checkpoints.folder} holds no checkpoint. Train the older "
                "run again."
            )
        best = newest.state["progress"]["best_step"]
        return newest if best is None else checkpoints.at(best)

    def _another(self, why: str) -> PipelineError:
        return PipelineError(
            f"`training.warm_start`: the model of {self.folder} does not fit: {why}. Give both "
            "runs the same model, features and optimizer; vocabularies may differ, and this model "
            "may have `gates` where the older one has none at all."
        )


def _variables(saver: Saver, best: Checkpoint) -> tuple[dict[str, keras.Variable], int]:
    """The variables by their names in an older checkpoint, and the number of layers with new gates.

    Args:
        saver: The saver of the new training.
        best: The checkpoint of the older one.
    """
    variables = dict(saver.variables())
    gates = [layer for layer in layers_in(saver.model) if isinstance(layer, HardConcrete)]
    of_gates = {id(variable) for gate in gates for variable in gate.variables}
    of_gates |= {id(gate.noise.state) for gate in gates}
    slots = tuple(f"{gate.log_alpha.path.replace('/', '_')}_" for gate in gates)
    others = {
        name: variable
        for name, variable in variables.items()
        if id(variable) not in of_gates and not (slots and variable.name.startswith(slots))
    }
    if not gates or len(others) != sum(1 for _ in _arrays(best)):
        return variables, 0
    counts: dict[str, Iterator[int]] = defaultdict(itertools.count)
    parts = ((name.partition("/")[0], variable) for name, variable in others.items())
    return {f"{part}/{next(counts[part])}": variable for part, variable in parts}, len(gates)


def _arrays(best: Checkpoint) -> Iterator[tuple[str, np.ndarray]]:
    """The variables of model and optimizer; learned weights of tasks begin anew."""
    return (named for named in best.arrays() if not named[0].startswith(TASK_WEIGHTS))


def _same_rows(old: Table, new: Table, before: FittedFeatures, after: FittedFeatures) -> RowMapping:
    """The rows of the features that both tables have."""
    news, olds = [], []
    for name in new.sizes.keys() & old.sizes.keys():
        if name not in before.transforms or name not in after.transforms:
            continue  # it shares another feature's rows
        new_ids, old_ids = same_ids(before.transforms[name], after.transforms[name])
        news.append(new.offsets[name] + new_ids)
        olds.append(old.offsets[name] + old_ids)
    return RowMapping(*(np.concatenate([np.zeros(0, int), *parts]) for parts in (news, olds)))


def same_ids(before: Any, after: Any) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the same values in two fits of a feature."""
    reserved = np.arange(RESERVED_IDS)
    if isinstance(before, VocabularyTransform) and isinstance(after, VocabularyTransform):
        # Compared as text, since the type of the column may have changed.
        values, known_before = (x.values.cast("string") for x in (after, before))
        places = pc.index_in(values, value_set=known_before)
        known = np.flatnonzero(places.is_valid().to_numpy(zero_copy_only=False))
        old = places.drop_null().to_numpy(zero_copy_only=False)
        new_ids, old_ids = (np.append(reserved, RESERVED_IDS + ids) for ids in (known, old))
        return new_ids, old_ids
    if type(before) is type(after) and before.size == after.size:  # bucket numbers do not change
        return np.arange(after.size), np.arange(after.size)
    return reserved, reserved


def _counts(rows: Mapping[str, RowMapping], new: Mapping[str, Table]) -> list[tuple[int, int]]:
    return [(len(rows[name].new) if name in rows else 0, table.rows) for name, table in new.items()]
