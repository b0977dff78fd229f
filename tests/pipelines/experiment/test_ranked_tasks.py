"""What compares the candidates of a request needs requests, and features of the candidate."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.monitor import Monitor
from pipelines.experiment.ranked_tasks import check_comparable
from tests.support.experiments import load

CLICK = 'name = "click"'
SIMULATED = """source = "simulate"
request = "request_id"
simulate = { rows = 3000, users = 50, items = 96 }"""
RANKED = (CLICK, f'{CLICK}\nloss = "softmax"')
ROWS = (SIMULATED, 'source = "parquet"\npath = "."')


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (RANKED, {}, "`tasks[0].loss` of 'click' = \"softmax\" compares the candidates of a"),
        (
            (CLICK, f'{CLICK}\nloss = {{ name = "jrc", alpha = 0.9 }}'),
            {},
            "`tasks[0].loss` of 'click' = \"jrc\" compares the candidates of a request",
        ),
        (None, {"training__monitor": "mrr@3"}, "`training.monitor` (mean MRR@3) compares the"),
    ],
)
def test_rows_without_requests_cannot_be_ranked(
    tmp_path: Path, change: tuple[str, str] | None, options: dict[str, Any], message: str
) -> None:
    changes = [change] if change else []
    with pytest.raises(PipelineError) as caught:
        load(tmp_path, ROWS, *changes, **options)
    assert message in str(caught.value)
    assert "as `data.request`" in str(caught.value)
    load(tmp_path, *changes, **options)


def test_candidates_of_equal_features_cannot_be_ranked(tmp_path: Path) -> None:
    excluded = {"model": {"name": "mlp", "exclude": ["item_id", "price", "clicked_items"]}}
    with pytest.raises(PipelineError, match='all features of the model have `side = "context"`'):
        load(tmp_path, RANKED, **excluded)
    load(tmp_path, **excluded)


def test_data_need_a_request_to_compare(tmp_path: Path) -> None:
    experiment = load(tmp_path, RANKED)
    counts = {"click": {"train": 1, "valid": 1}, "conversion": {"train": 0, "valid": 0}}
    check_comparable(experiment.schema_, experiment.monitor, counts)
    for split, what in (("train", '`tasks[0].loss` = "softmax"'), ("valid", "`training.monitor`")):
        counts["click"] = {"train": 1, "valid": 1, split: 0}
        with pytest.raises(PipelineError) as caught:
            check_comparable(experiment.schema_, experiment.monitor, counts)
        assert str(caught.value).startswith(what)
        assert f"no request of the split {split!r} has a positive and" in str(caught.value)
    plain = load(tmp_path)
    check_comparable(plain.schema_, plain.monitor, counts)
    with pytest.raises(PipelineError, match=r"`training.monitor` \(HR@1 of conversion\)"):
        check_comparable(plain.schema_, Monitor.of("conversion/hr@1", plain.tasks), counts)
