"""Losses with options and learned weights of tasks, as the file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.experiment.training_options import GradNorm, Uncertainty, with_options
from recsys_attn.loss_options import Focal
from tests.support.experiments import load

CLICK = '[[tasks]]\nname = "click"'
BUY = '[[tasks]]\nname = "conversion"\n'


def loss(text: str) -> tuple[str, str]:
    return CLICK, f"{CLICK}\nloss = {text}"


def test_losses_and_weights_are_read_by_name_or_table(tmp_path: Path) -> None:
    experiment = load(
        tmp_path,
        loss('{ name = "focal", gamma = 3 }'),
        training__task_weights={"name": "gradnorm", "alpha": 0.5},
    )
    assert experiment.tasks[0].loss == Focal(gamma=3.0)
    assert experiment.training.task_weights == GradNorm(alpha=0.5)
    kept = tmp_path / "run"
    kept.mkdir()
    (kept / "experiment.json").write_text(experiment.model_dump_json(), "utf-8")
    assert load_experiment(kept) == experiment
    assert with_options("gradnorm") == GradNorm(alpha=1.5)
    assert with_options("uncertainty") == with_options(Uncertainty()) == Uncertainty()


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ([(BUY, "")], {"task_weights": "gradnorm"}, "weighs tasks against each other, and there"),
        (
            [(CLICK, f"{CLICK}\nweight = 2.0")],
            {"task_weights": "uncertainty"},
            "`tasks[0].weight` of 'click' would have no effect. Keep one of them. Received: 'unc",
        ),
        ([loss('"focal"')], {"calibrate": False}, "`tasks[0].loss` of 'click' (focal) teaches"),
        (
            [loss('{ name = "cross_entropy", smoothing = 0.1 }')],
            {"calibrate": False},
            "right only once they are calibrated. Remove `training.calibrate = false`",
        ),
        ([], {"task_weights": "gradnom"}, "Did you mean `gradnorm`?"),
        (
            [],
            {"task_weights": {"name": "gradnorm", "alpha": -1.0}},
            "`training.task_weights.alpha`: expected at least 0. Received: -1.0.",
        ),
    ],
)
def test_what_cannot_be_weighed_or_calibrated_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], options: dict[str, object], message: str
) -> None:
    settings = {f"training__{key}": value for key, value in options.items()}
    with pytest.raises(PipelineError) as caught:
        load(tmp_path, *changes, **settings)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_losses_that_need_no_calibration_may_go_without(tmp_path: Path) -> None:
    load(tmp_path, loss('{ name = "focal", gamma = 0.0 }'), training__calibrate=False)
    load(tmp_path, loss('"jrc"'), training__calibrate=False)
