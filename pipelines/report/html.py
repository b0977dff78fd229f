"""The offline report: one self-contained HTML file."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipelines.common.artifacts import atomic_file
from pipelines.metrics import AT_K, METRICS
from pipelines.report import attention_words, palette, plots, relevance_section
from pipelines.report.advice import advice
from pipelines.report.attention_plots import attention_pictures
from pipelines.report.baseline_words import standings
from pipelines.report.data import drifted, machine_text, moved, pictures_of_drift, took
from pipelines.report.gate_words import limits, measured, subject
from pipelines.report.metric_tables import ordered, own_names, places
from pipelines.report.numbers import below, count, decimal, percent, ratio
from pipelines.report.results import Evaluation
from pipelines.report.segment_tables import judged, mark, shown_in_segments, signed, titled
from pipelines.report.slice_tables import effect_ends, outcome, small

HINTS = {
    "ROC curve": "Share of positives found against share of negatives let through.",
    "Calibration": "Bins of rising score with 95% intervals, and the smooth curve of all rows; on "
    "the line is perfect.",
    "Scores by label": "The less the two overlap, the higher the AUC.",
    "Training": "After each epoch, on the validation rows; rings mark the best, the line what is "
    "kept.",
    "Importance": "Each feature in turn with the values of other rows; the bars are 95% intervals, "
    "grey ones hold 0. Features that say the same share their importance.",
}


def write_report(
    evaluation_dir: Path, out_file: Path, against: Mapping[str, Any] | None = None
) -> None:
    """Writes the report of an evaluation folder as one self-contained HTML file.

    The same folder gives the same file, byte for byte.

    Args:
        evaluation_dir: Folder with metrics.json and predictions.parquet.
        out_file: The file to write; its folder is made, an earlier file is replaced.
        against: What `compared` returns; None: the page has no section of other runs.

    Raises:
        PipelineError: A file of the folder is missing, damaged, or belongs to another.
    """
    page = ReportPage(evaluation_dir, against).html
    with atomic_file(Path(out_file)) as part:
        part.write_text(page, encoding="utf-8")


class ReportPage:
    """The page of an evaluation folder; a notebook shows it inline.

    Args:
        evaluation_dir: Folder with metrics.json and predictions.parquet.
        against: What `compared` returns; None: the page has no section of other runs.

    Attributes:
        html: The page.

    Raises:
        PipelineError: A file of the folder is missing, damaged, or belongs to another.
    """

    def __init__(
        self, evaluation_dir: str | Path, against: Mapping[str, Any] | None = None
    ) -> None:
        evaluation = Evaluation.read(Path(evaluation_dir))
        metrics = evaluation.metrics
        self.html = (
            environment()
            .get_template("template.html")
            .render(
                metrics=metrics,
                own=own_names(metrics["tasks"]),
                compared=against,
                known=METRICS,
                at_k=AT_K,
                pictures={task: _pictures(evaluation, task) for task in metrics["tasks"]},
                of_attention=_of_attention(evaluation),
                moved_features=pictures_of_drift(metrics.get("drift", ())),
            )
        )

    def _repr_html_(self) -> str:
        """The page in a frame of its own, so that its style and the notebook's stay apart."""
        # Without its own base, links inside the page lead to the notebook.
        page = escape(self.html.replace("<head>", '<head><base href="about:srcdoc">', 1))
        style = "width: 100%; height: 45rem; border: 0"
        return f'<iframe title="Report" srcdoc="{page}" style="{style}"></iframe>'


def environment(*folders: Path) -> Environment:
    """The environment of the templates here and in other folders, with the filters for numbers."""
    templates = Environment(
        loader=FileSystemLoader([*folders, Path(__file__).parent]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals.update(light=palette.LIGHT, dark=palette.DARK)
    templates.globals.update(below=below, ordered=ordered, places=places, ratio=ratio)
    templates.globals.update(limits=limits, measured=measured, subject=subject)
    templates.globals.update(agreement=relevance_section.agreement, methods=relevance_section.NAMES)
    templates.globals.update(verdict=relevance_section.verdict, units_of=relevance_section.titled)
    templates.globals.update(judged=judged, mark=mark, signed=signed, titled=titled)
    templates.globals.update(shown_in_segments=shown_in_segments)
    templates.globals.update(drifted=drifted, machine_text=machine_text, moved=moved, took=took)
    templates.globals.update(heads_of=attention_words.heads_of, sharpness=attention_words.sharpness)
    templates.globals.update(looks_at=attention_words.looks_at, likeness=attention_words.likeness)
    templates.globals.update(agreement_of_maps=attention_words.agreement_of_maps, hint=hint)
    templates.globals.update(gates_in_words=attention_words.gates_in_words)
    templates.globals.update(advice=advice, standings=standings)
    templates.globals.update(effect_ends=effect_ends, slice_outcome=outcome, small=small)
    templates.filters.update(count=count, decimal=decimal, percent=percent)
    return templates


def _pictures(evaluation: Evaluation, task: str) -> dict[str, plots.Picture]:
    """Title of every picture that the task's data allows."""
    metrics = evaluation.metrics["tasks"][task]
    rows = evaluation.task_rows(task)
    epochs = _epochs_of(task, evaluation.metrics["training"])
    pictures: dict[str, plots.Picture] = {}
    if metrics["auc"] is not None:
        pictures["ROC curve"] = plots.roc(rows, metrics)
    if rows.labels.size:
        if metrics["logloss"] is not None:  # else the scores are no probabilities
            pictures["Calibration"] = plots.calibration(rows, evaluation.clusters(task))
        pictures["Scores by label"] = plots.distribution(rows)
    if epochs:
        pictures["Training"] = plots.training(task, epochs, evaluation.metrics.get("kept"))
    if any(entry["auc"] for entry in metrics.get("importance", ())):
        pictures["Importance"] = plots.importance(metrics["importance"])
    if "relevance" in metrics:
        pictures |= relevance_section.pictures(metrics["relevance"])
    return pictures


def hint(title: str) -> str:
    """The line below a picture."""
    return HINTS.get(title) or attention_words.hint(title) or relevance_section.hint(title)


def _of_attention(evaluation: Evaluation) -> dict[str, plots.Picture]:
    audit = evaluation.metrics.get("attention")
    return attention_pictures(audit) if audit else {}


def all_pictures(evaluation: Evaluation) -> dict[str, plots.Picture]:
    """Every picture of the page, by its task or section and its title."""
    drift = pictures_of_drift(evaluation.metrics.get("drift", ()))
    of_tasks = {
        f"{task}/{title}": picture
        for task in evaluation.metrics["tasks"]
        for title, picture in _pictures(evaluation, task).items()
    }
    heads = {f"attention/{name}": figure for name, figure in _of_attention(evaluation).items()}
    return of_tasks | heads | {f"drift/{name}": picture for name, picture in drift.items()}


def _epochs_of(task: str, training: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    keys = [f"val_{task}_{metric}" for metric in ("auc", "logloss")]
    return [epoch for epoch in training if any(epoch.get(key) is not None for key in keys)]
