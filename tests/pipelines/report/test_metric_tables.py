"""The table of metrics on the console."""

import io

from rich.console import Console

from pipelines.report.metric_tables import print_metrics
from tests.pipelines.report import folders


def lines(metrics) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    print_metrics(console, metrics)
    return console.file.getvalue().splitlines()


def test_every_task_and_baseline_has_its_line():
    title, head, click, rate, popularity, conversion, *places = lines(folders.metrics())
    assert title.strip() == "spring sale: attention_ranker on valid"
    expected = "task rows positives AUC ±95% ceiling GAUC logloss calibration"
    assert head.split() == expected.split()
    expected = "click 1,009 251 0.7123 0.0211 0.7346 0.6988 0.4568 1.135 high"
    assert click.split() == expected.split()
    assert rate.split() == ["train", "rate", "0.5000", "0.5000", "0.5613", "0.975"]
    assert popularity.split() == ["popularity", "0.6136", "0.6025"]
    expected = "conversion 401 59 0.6678 — — — 0.3322 0.908"
    assert conversion.split() == expected.split()
    assert places[0].strip() == "order within requests"
    assert places[1].split() == ["task", "k", "requests", "HR", "NDCG", "MRR", "MAP"]
    assert places[2].split() == ["click", "5", "71", "0.4100", "0.4120", "0.4140", "0.4160"]
    others = [line.split("5 ")[0].strip() for line in places[3:6]]
    assert others == ["ceiling", "random order", "popularity"]
    assert places[4].split() == ["random", "order", "5", "0.2100", "0.2120", "0.2140", "0.2160"]
    assert places[6].split() == ["click", "10", "71", "0.4210", "0.4230", "0.4250", "0.4270"]
    assert len(places) == 10  # two values of k; no request of the other task has an order
    assert max(map(len, [*places, rate])) <= 80


def test_names_are_no_markup_and_undefined_metrics_a_dash():
    metrics = folders.metrics()
    metrics["name"] = "[red]sale[/red]"
    names = ("auc", "gauc", "logloss", "calibration", "calibration_off", "trivial")
    click = metrics["tasks"]["click"] | dict.fromkeys(names) | {"intervals": {"auc": None}}
    metrics["tasks"] = {"[bold]click": click}
    found = lines(metrics)
    assert found[0].startswith("[red]sale[/red]: ")
    assert found[2].split() == ["[bold]click", "1,009", "251", "—", "0.7346", "—", "—", "—"]


def test_columns_that_no_task_has_are_left_out():
    metrics = folders.metrics()
    for task in metrics["tasks"].values():
        task |= {"intervals": {}, "ceiling": None, "gauc": None, "trivial": None, "baselines": {}}
    head = lines(metrics)[1]
    assert head.split() == ["task", "rows", "positives", "AUC", "logloss", "calibration"]
