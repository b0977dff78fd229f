"""Each main command of `recsys-attn` as a function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from pipelines.calls.opened import CONSOLE, Opening, Overrides, opened, opened_ranking
from pipelines.common.errors import PipelineError

_QUIET = Console(quiet=True)


def run(
    experiment: str | Path,
    *,
    run_dir: str | Path | None = None,
    overrides: Overrides | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Path:
    """Runs all steps of an experiment: ingest, fit, train, evaluate and export.

    Args:
        experiment: The TOML file, or the folder of an earlier run.
        run_dir: The run folder. Defaults to `runs/NAME`.
        overrides: Values by dotted key in place of those of the file, as `--set` has them.
        force: Run steps again that are up to date.
        quiet: Print nothing.

    Returns:
        The run folder; its `report.html` is the report, and its `export` holds the SavedModels.

    Raises:
        PipelineError: The experiment, the data or a gate; the message says what to do.

    Example:

        import pipelines

        folder = pipelines.run("clicks.toml", overrides={"training.epochs": 3})
    """
    with opened(_opening(experiment, run_dir, overrides, force, quiet)) as steps:
        steps.everything()
        return steps.run.folder


def train(
    experiment: str | Path,
    *,
    run_dir: str | Path | None = None,
    overrides: Overrides | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Mapping[str, Any]:
    """Trains the model on the data that `ingest` and `fit` prepared, and keeps its best weights.

    Args:
        experiment, run_dir, overrides, force, quiet: As for `run`.

    Returns:
        The manifest of the training: the metrics of each epoch, the epoch that was kept, warnings.

    Raises:
        PipelineError: As for `run`.
    """
    with opened(_opening(experiment, run_dir, overrides, force, quiet)) as steps:
        steps.train()
        return steps.run.manifest("train")


def evaluate(
    experiment: str | Path,
    *,
    run_dir: str | Path | None = None,
    overrides: Overrides | None = None,
    force: bool = False,
    quiet: bool = False,
) -> Mapping[str, Any]:
    """Scores the rows of a split and writes its metrics and the report.

    Args:
        experiment, run_dir, overrides, force, quiet: As for `run`.

    Returns:
        The content of metrics.json.

    Raises:
        PipelineError: As for `run`.
    """
    with opened(_opening(experiment, run_dir, overrides, force, quiet)) as steps:
        from pipelines.common.artifacts import METRICS, read_json

        steps.evaluate()
        return read_json(steps.run.path("evaluate") / METRICS)


def score(
    experiment: str | Path,
    source: str | Path,
    target: str | Path,
    *,
    top_k: int | None = None,
    catalogue: str | None = None,
    unseen: bool = False,
    rank_by: str | None = None,
    run_dir: str | Path | None = None,
    overrides: Overrides | None = None,
    engine: str = "local",
    ray_address: str = "local",
    quiet: bool = False,
) -> int:
    """Scores the rows of Parquet files, or ranks the items of their requests.

    Args:
        experiment, run_dir, overrides, quiet: As for `run`.
        source: Parquet file or folder with the feature columns; a path or a URI.
        target: The Parquet file to write.
        top_k: Items of each request to write, the best ones. Defaults to all rows, with scores.
        catalogue: The items to rank for each request: a file, or an empty text for those of the
            run. Defaults to the candidates of the rows.
        unseen: Leave out the items of the request's histories.
        rank_by: The task or formula to rank by.
        engine: `"local"` or `"ray"`.
        ray_address: `host:port` of the Ray cluster; `"auto"` for the one on this machine.

    Returns:
        The number of rows, or of requests with `top_k`.

    Raises:
        PipelineError: As for `run`.
    """
    if top_k is None and (catalogue is not None or unseen or rank_by):
        raise PipelineError("`catalogue`, `unseen` and `rank_by` need `top_k`.")
    if unseen and catalogue is None:
        raise PipelineError("`unseen` needs `catalogue`; the candidates of rows are given.")
    with opened_ranking(_opening(experiment, run_dir, overrides, False, quiet)) as steps:
        from pipelines.engines import choose_engine
        from pipelines.workflow.rank_items import rank

        runner = choose_engine(engine, ray_address, steps.experiment.own_parts)
        if top_k is None:
            return steps.score(str(source), Path(target), runner)
        options = (top_k, catalogue or None, catalogue is not None, unseen, rank_by, runner)
        return rank(steps, str(source), Path(target), *options)


def _opening(
    experiment: str | Path,
    run_dir: str | Path | None,
    overrides: Overrides | None,
    force: bool,
    quiet: bool,
) -> Opening:
    folder = None if run_dir is None else Path(run_dir)
    console = _QUIET if quiet else CONSOLE
    return Opening(Path(experiment), folder, overrides or {}, force, console)
