"""The `recsys-attn` command line. Each command imports heavy packages itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.markup import escape

from pipelines.calls.import_tensorflow import import_tensorflow
from pipelines.cli.audit import audit
from pipelines.cli.command_options import (
    against_option,
    engine_options,
    experiment_options,
    force_option,
    prune_options,
    skew_options,
    top_k_options,
)
from pipelines.cli.features import features
from pipelines.cli.join import join
from pipelines.cli.online import online
from pipelines.cli.pretrain import pretrain
from pipelines.cli.refresh import history, refresh
from pipelines.cli.running import CONSOLE, opened, opened_ranking, reported, values_of
from pipelines.cli.series import reproduce, tune
from pipelines.cli.state import state
from serving.state.errors import did_you_mean

DEMO = Path(__file__).parents[1] / "demo.toml"
SHIFTED = 3  # exit status; 1 is an error, 2 a wrong command line
_SERVING = ("serve", "request")  # commands of the serving package


class Commands(click.Group):
    """Adds the commands of `serving`, and suggests the nearest name for an unknown command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *_SERVING]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in _SERVING:
            from serving import cli as serving_cli

            return getattr(serving_cli, cmd_name)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        near = did_you_mean(args[0], self.list_commands(ctx))
        if args[0] not in self.list_commands(ctx) and near:
            ctx.fail(f"No such command {args[0]!r}.{near}")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="recsys-attn")
def main() -> None:
    """Attention for recommenders, from Parquet to a gRPC score.

    Each step reads a folder and writes a folder; `run` runs all of them. Steps with unchanged
    inputs are skipped.
    """


def _add_step(name: str, method: str, text: str) -> None:
    def command(
        experiment: Path, run_dir: Path | None, overrides: tuple[str, ...], force: bool
    ) -> None:
        with opened(experiment, run_dir, overrides, force) as steps:
            getattr(steps, method)()

    command.__doc__ = text
    main.command(name)(experiment_options(force_option(command)))


_add_step("run", "everything", "Run all steps: ingest, fit, train, evaluate, export.")


def _add_engine_step(name: str, text: str) -> None:
    def command(
        experiment: Path,
        run_dir: Path | None,
        overrides: tuple[str, ...],
        force: bool,
        engine: str,
        ray_address: str,
    ) -> None:
        with opened(experiment, run_dir, overrides, force) as steps:
            from pipelines.engines import choose_engine

            getattr(steps, name)(choose_engine(engine, ray_address, steps.experiment.own_parts))

    command.__doc__ = text
    main.command(name)(experiment_options(force_option(engine_options(command))))


_add_engine_step("ingest", "Read the source files; write the splits as Parquet.")
_add_engine_step("fit", "Fit vocabularies and other transforms on the train split.")


@main.command()
@experiment_options
@force_option
@engine_options
@click.option(
    "--workers", type=click.IntRange(min=1), help="Training workers on Ray.  [default: 1]"
)
def train(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    force: bool,
    engine: str,
    ray_address: str,
    workers: int | None,
) -> None:
    """Train the model; keep the weights of its best epoch."""
    if engine == "ray":
        from pipelines.engines import train_on_ray

        with reported():
            train_on_ray(experiment, run_dir, overrides, force, workers or 1, ray_address, CONSOLE)
    elif workers:
        raise click.UsageError("--workers needs --engine ray.")
    else:
        with opened(experiment, run_dir, overrides, force) as steps:
            steps.train()


_add_engine_step("evaluate", "Score a split; write its metrics and report.html.")


@main.command()
@experiment_options
@force_option
@against_option
def report(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    force: bool,
    against: tuple[Path, ...],
) -> None:
    """Write report.html again from the last evaluation."""
    with opened_ranking(experiment, run_dir, overrides, force) as steps:
        steps.report(against)


_add_step("export", "export", "Write a SavedModel of raw values, after a parity check.")


@main.command()
@prune_options
@force_option
def prune(
    run: Path, run_dir: Path | None, overrides: tuple[str, ...], force: bool, **changes: Any
) -> None:
    """Cut out heads, or what gates closed; write a new run.

    RUN is the folder of a finished run, and stays as it is. The smaller model is trained on,
    evaluated and exported.
    """
    with opened_ranking(run, run, ()) as whole:
        from pipelines.workflow.prune import prune as prune_run
        from pipelines.workflow.prune import pruned_experiment

        named = run if run.name not in ("", "..") else run.resolve()
        target = run_dir or named.with_name(f"{named.name}-pruned")
        changed = pruned_experiment(run, **changes)
        with opened_ranking(run, target, overrides, force, changed) as smaller:
            prune_run(whole, smaller)


@main.command()
@experiment_options
@click.option(
    "--input",
    "source",
    required=True,
    help="Parquet file or folder with the feature columns; a path or a URI.",
)
@click.option(
    "--output",
    "target",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="Parquet file to write: the same rows with <task>_score columns, or with --top-k the best "
    "items of each request.",
)
@top_k_options
@engine_options
def score(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    source: str,
    target: Path,
    top_k: int | None,
    catalogue: str | None,
    unseen: bool,
    rank_by: str | None,
    engine: str,
    ray_address: str,
) -> None:
    """Score a Parquet file, or rank the items of its requests."""
    if top_k is None and (catalogue is not None or unseen or rank_by):
        raise click.UsageError("--catalogue, --unseen and --rank-by need --top-k.")
    if unseen and catalogue is None:
        raise click.UsageError("--unseen needs --catalogue; the candidates of rows are given.")
    with reported():
        from pipelines.calls.main_commands import score as score_rows

        count = score_rows(
            experiment,
            source,
            target,
            top_k=top_k,
            catalogue=catalogue,
            unseen=unseen,
            rank_by=rank_by,
            run_dir=run_dir,
            overrides=values_of(overrides),
            engine=engine,
            ray_address=ray_address,
        )
    what = "rows" if top_k is None else "requests"
    place = f"[dim]{escape(str(target))}[/dim]"
    CONSOLE.print(f"[bold]score[/bold]: {count:,} {what}  {place}", soft_wrap=True)


@main.command()
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path),
    default=Path("runs/demo"),
    show_default=True,
    help="Folder of the run.",
)
@click.option("--rows", type=click.IntRange(min=10_000), help="Rows to simulate.")
def demo(run_dir: Path, rows: int | None) -> None:
    """Run all steps on simulated data, then serve the model."""
    overrides = () if rows is None else (f"data.simulate.rows={rows}",)
    with opened_ranking(DEMO, run_dir, overrides) as steps:
        from pipelines.cli.demo import show

        show(steps)


@main.command()
@experiment_options
@click.option(
    "--to",
    "target",
    type=click.Choice(["tensorboard", "mlflow"]),
    required=True,
    help="TensorBoard's files in the run folder, or the server of MLFLOW_TRACKING_URI.",
)
def publish(
    experiment: Path, run_dir: Path | None, overrides: tuple[str, ...], target: str
) -> None:
    """Give the report to TensorBoard or MLflow."""
    with opened_ranking(experiment, run_dir, overrides) as steps:
        from pipelines.workflow.publish import publish as publish_to

        place = f"[dim]{escape(publish_to(steps, target))}[/dim]"
        CONSOLE.print(f"[bold]publish[/bold]: written  {place}", soft_wrap=True)


@main.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--try",
    "tried",
    metavar="MODELS",
    help="First train these models with the data and features of the one RUN, each in "
    "RUN/tries/MODEL, such as mlp,din,deepfm.",
)
def compare(runs: tuple[Path, ...], tried: str | None) -> None:
    """Print the metrics of several run folders side by side."""
    if tried is not None and len(runs) != 1:
        raise click.UsageError("--try needs one RUN.")
    with reported():
        import_tensorflow()
        from pipelines.workflow.compare import print_comparison

        every = list(runs)
        if tried is not None:
            with opened_ranking(runs[0], None, ()) as steps:
                from pipelines.workflow.tries import try_models

                every += try_models(steps, tried.split(","))
        print_comparison(CONSOLE, every)


@main.command()
@experiment_options
@skew_options
def skew(
    experiment: Path,
    run_dir: Path | None,
    overrides: tuple[str, ...],
    log: str,
    reference: str,
    fail_on_shift: bool,
    **options: Any,
) -> None:
    """Compare a prediction log with the training data."""
    with opened_ranking(experiment, run_dir, overrides) as steps:
        from pipelines.prediction_log.skew import SkewOptions, has_failed

        other = None if reference == "train" else reference
        result = steps.skew(SkewOptions(log=log, reference=other, **options))
        if fail_on_shift and has_failed(result):
            raise SystemExit(SHIFTED)


@main.command()
@click.argument("log", metavar="LOG_FOLDER")
@click.option(
    "--output",
    "target",
    required=True,
    type=click.Path(path_type=Path),
    help="File to write, or the folder of a model version to put it into.",
)
@click.option(
    "--requests",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="Maximum number of requests.",
)
@click.option("--model", help="Model name in the log.  [default: the only one]")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
def warmup_from_log(log: str, target: Path, requests: int, model: str | None, seed: int) -> None:
    """Write a warm-up file from logged requests.

    It covers every batch size in the log and holds no responses.
    """
    with reported():
        import_tensorflow()
        from pipelines.prediction_log.warmup_from_log import warm_up_from_log

        written = warm_up_from_log(log, target, requests, model, seed)
        CONSOLE.print(
            f"[bold]warmup[/bold]: {written.records:,} requests of {written.strata:,} of the "
            f"{written.strata_seen:,} batch sizes in the log  "
            f"[dim]{escape(str(written.path))}[/dim]",
            soft_wrap=True,
        )


main.add_command(audit)
main.add_command(features)
main.add_command(history)
main.add_command(join)
main.add_command(online)
main.add_command(pretrain)
main.add_command(refresh)
main.add_command(reproduce)
main.add_command(state)
main.add_command(tune)
