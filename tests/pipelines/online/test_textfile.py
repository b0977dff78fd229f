"""The text file for Prometheus: the newest numbers, readable by its parser."""

from __future__ import annotations

from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pipelines.experiment.config import Experiment
from pipelines.online.report import OnlineOptions, measure_online
from pipelines.online.textfile import write_textfile
from tests.support.served_rows import START, ServedHours


def test_file_has_the_newest_period_of_each_version(
    experiment: Experiment, rows: Path, tmp_path: Path, hours: ServedHours
) -> None:
    result = measure_online(OnlineOptions(rows), experiment)
    target = tmp_path / "collected" / "recsys.prom"
    write_textfile(result, target)
    families = text_string_to_metric_families(target.read_text("utf-8"))
    samples = {
        (sample.name.removeprefix(":recsys_attn:online:"), *sorted(sample.labels.items())): sample
        for family in families
        for sample in family.samples
    }
    for version in result["versions"]:
        newest, label = version["periods"][-1], version["label"]
        of = {"model_name": "tiny", "version": str(version["version"]), "label": label}

        def value(name: str, of: dict[str, str] = of, **labels: str) -> float:
            return samples[name, *sorted({**of, **labels}.items())].value

        click = newest["tasks"]["click"]
        for metric in ("auc", "gauc", "logloss", "calibration"):
            assert value(metric, task="click") == click[metric]
            ends = [value(f"{metric}_{side}", task="click") for side in ("low", "high")]
            assert ends == click["intervals"][metric]
        assert value("missing_ratio", feature="price") == newest["missing"]["price"]
        assert value("degraded_ratio") == newest["store"]["degraded"]
        assert value("lag_seconds", quantile="0.99") == newest["store"]["lag_99"]
        begin = (START + hours.hours - 1).astype("datetime64[s]").astype(int)
        assert value("begin_seconds") == begin
    assert [path.name for path in target.parent.iterdir()] == ["recsys.prom"]


def test_a_version_that_serves_no_more_has_no_number(
    experiment: Experiment, tmp_path: Path
) -> None:
    hours = ServedHours(hours=2)
    hours.columns["version"][hours.of_canary(since=1)] = 7
    result = measure_online(OnlineOptions(hours.write(tmp_path / "rows")), experiment)
    write_textfile(result, tmp_path / "x.prom")
    text = (tmp_path / "x.prom").read_text("utf-8")
    assert 'version="7"' in text
    assert 'version="8"' not in text
