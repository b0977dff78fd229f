"""The TOML file of a board."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, model_validator

from pipelines.common.errors import PipelineError
from pipelines.common.toml_table import TomlTable
from pipelines.experiment.config import Experiment, load_experiment
from pipelines.experiment.file import read_toml, validated
from serving.state.errors import DataError, did_you_mean

FOLDER = Path("experiments/boards")  # in a clone, the working directory of `recsys-attn`


class BoardModel(TomlTable):
    """A line of a board.

    Attributes:
        name: The name that the table shows.
        set: Keys of the experiment that this model changes, such as `"model.name"`.
        reference: The model with which it is compared. None: that of the board.
        published: The published number, or one for each task. None: there is none.
        source: Where it was published.
        not_comparable: Why the published number is of another protocol, if it is.
    """

    name: str
    set: dict[str, Any] = Field(default_factory=dict)
    reference: str | None = None
    published: float | dict[str, float] | None = None
    source: str = ""
    not_comparable: str = ""

    @property
    def slug(self) -> str:
        """The name in a folder's name."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower().replace("+", " plus")).strip("-")

    def published_for(self, task: str) -> float | None:
        """The published number of a task."""
        if isinstance(self.published, dict):
            return self.published.get(task)
        return self.published


class Board(TomlTable):
    """Models on one data set, each trained with several seeds.

    Attributes:
        title: The first line of the page.
        note: What a reader must know of the data and the protocol.
        experiment: The experiment that all models share; a path from the board's file.
        set: Keys of the experiment that all models change.
        tasks: The shown tasks. Defaults to all.
        metric: The compared metric, as metrics.json names it: `auc`, `logloss`, `ndcg@10`, or one
            of your own.
        minimise: Whether smaller values of a metric of your own are better.
        tolerance: How far below the published number a mean of seeds still reproduces it.
        reference: The model with which the others are compared, in pairs of the same rows.
            Defaults to none.
        models: The models, in the order of the table.
    """

    title: str
    note: str = ""
    experiment: str
    set: dict[str, Any] = Field(default_factory=dict)
    tasks: tuple[str, ...] = ()
    metric: str = "auc"
    minimise: bool | None = None
    tolerance: float = Field(default=0.0015, ge=0)
    reference: str | None = None
    models: tuple[BoardModel, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_names(self) -> Board:
        names = [model.name for model in self.models]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"each model needs a `name` of its own. Received twice: {twice}")
        slugs = {model.slug: model.name for model in self.models}
        for model in self.models:
            if not model.slug or slugs[model.slug] != model.name:
                raise ValueError(
                    f"the models {model.name!r} and {slugs[model.slug]!r} would share the run "
                    f"folder {model.slug!r}; give one of them other letters or digits"
                )
        for reference in (self.reference, *(model.reference for model in self.models)):
            if reference is not None and reference not in names:
                raise ValueError(
                    f"`reference` names {reference!r}; expected a model of the board."
                    f"{did_you_mean(reference, names)}"
                )
        return self

    def reference_of(self, model: BoardModel) -> str | None:
        """The name of the model with which a model is compared."""
        return model.reference or self.reference


class LoadedBoard(NamedTuple):
    """A board and the place of its file, from which its experiment is read.

    Attributes:
        given: The file or the name that the user gave.
        board: The board.
        path: The file.
    """

    given: str
    board: Board
    path: Path

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.stem

    @property
    def folder(self) -> Path:
        """The folder of all runs and of the table, unless another is given."""
        return Path("runs/boards") / self.name

    def experiment(self, model: BoardModel, seed: int | None = None) -> Experiment:
        """The experiment of a model; None: with the seed of the file."""
        # A board compares its own models.
        changed = {"evaluation.baseline_models": False, **_changed(self.board.set, model.set)}
        changed |= {} if seed is None else {"seed": seed}
        try:
            return load_experiment(self.path.parent / self.board.experiment, changed)
        except DataError as error:
            raise PipelineError(f"{self.name}, model {model.name!r}: {error}") from None


def _changed(common: Mapping[str, Any], of_model: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a board's `set` and those of a model, which come first where both have one.

    A key of the board such as `model.width` also holds for a model that gives the table `model`.
    """
    tables = {key: value for key, value in of_model.items() if isinstance(value, dict)}

    def is_given(key: str) -> bool:
        table, _, options = key.partition(".")
        return options.partition(".")[0] in tables.get(table, ())

    of_board = {
        key: value for key, value in common.items() if key not in of_model and not is_given(key)
    }
    return {**tables, **of_board, **{key: of_model[key] for key in of_model if key not in tables}}


def named_boards() -> list[str]:
    """The names of the boards in the folder `experiments/boards`."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_board(given: str) -> LoadedBoard:
    """Reads a board.

    Args:
        given: A name of `named_boards`, or a TOML file.

    Raises:
        PipelineError: There is no such board, its file is wrong, or a model's experiment is.
    """
    path = Path(given) if given.endswith(".toml") else FOLDER / f"{given}.toml"
    if not path.is_file():
        names = named_boards()
        raise PipelineError(
            f"There is no board {given!r}: expected a TOML file, or in a clone of the repository "
            f"the name of one in {FOLDER}: {', '.join(names) or 'none is here'}."
            f"{did_you_mean(given, names)}"
        )
    return LoadedBoard(given, validated(Board, read_toml(path, "board"), str(path)), path)
