"""Wrong keys are found without Keras and TensorFlow, with the sentences of the whole check."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from pipelines.cli.commands import DEMO
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import check_keys, load_experiment
from recsys_attn.model_names import arguments_by_model
from recsys_attn.models import MODELS

WRONG = {
    "training.epoch": 3,
    "model.mlp_unit": [3],
    "model.name": "dnn",
    "model.exclude": ["nothing"],
    "evaluation.at": [0],
    "data.split.by": "tme",
}


def test_arguments_are_those_of_the_functions() -> None:
    of_functions = {
        name: [
            p.name for p in inspect.signature(model).parameters.values() if p.kind is p.KEYWORD_ONLY
        ]
        for name, model in MODELS.items()
    }
    assert arguments_by_model() == of_functions


@pytest.mark.parametrize("key", WRONG)
def test_the_error_is_that_of_the_whole_check(key: str) -> None:
    with pytest.raises(PipelineError) as early:
        check_keys(DEMO, {key: WRONG[key]})
    with pytest.raises(PipelineError) as late:
        load_experiment(DEMO, {key: WRONG[key]})
    assert str(early.value) == str(late.value)


def test_the_check_needs_no_keras() -> None:
    code = (
        "import sys; from pipelines.cli.commands import DEMO; "
        "from pipelines.experiment.config import check_keys; check_keys(DEMO, {}); "
        "print([name for name in ('keras', 'tensorflow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
