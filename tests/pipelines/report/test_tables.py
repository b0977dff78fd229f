"""The table of metrics on the console."""

import io

from rich.console import Console

from pipelines.report import print_metrics
from tests.pipelines.report import folders


def lines(metrics) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    print_metrics(console, metrics)
    return console.file.getvalue().splitlines()


def test_every_task_and_baseline_has_its_line():
    title, head, click, popularity, conversion = lines(folders.metrics())
    assert title.strip() == "spring sale: attention_ranker on valid"
    expected = "task rows positives AUC ceiling distance GAUC logloss calibration"
    assert head.split() == expected.split()
    expected = "click 1,009 251 0.7123 0.7346 0.0222 0.6988 0.4568 1.035"
    assert click.split() == expected.split()
    assert popularity.split() == ["popularity", "0.6136", "0.6025"]
    expected = "conversion 401 59 0.6678 — — — 0.3322 0.908"
    assert conversion.split() == expected.split()


def test_names_are_no_markup_and_undefined_metrics_a_dash():
    metrics = folders.metrics()
    metrics["name"] = "[red]sale[/red]"
    click = metrics["tasks"]["click"] | dict.fromkeys(("auc", "gauc", "logloss", "calibration"))
    metrics["tasks"] = {"[bold]click": click}
    found = lines(metrics)
    assert found[0].startswith("[red]sale[/red]: ")
    assert found[2].split() == ["[bold]click", "1,009", "251", "—", "0.7346", "—", "—", "—"]


def test_columns_that_no_task_has_are_left_out():
    metrics = folders.metrics()
    for task in metrics["tasks"].values():
        task |= {"ceiling": None, "gauc": None, "baselines": {}}
    head = lines(metrics)[1]
    assert head.split() == ["task", "rows", "positives", "AUC", "logloss", "calibration"]
