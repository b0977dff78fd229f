"""Wrong keys are found without Keras and TensorFlow, with the sentences of the whole check."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from pipelines.cli.commands import DEMO
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import check_keys, load_experiment
from recsys_attn.model_names import arguments_by_model
from recsys_attn.models import MODELS
from recsys_attn.options import parameters, table_of

WRONG = {
    "training.epoch": 3,
    "model.mlp_unit": [3],
    "model.target_attention.num_head": 2,
    "model.encoder": {"name": "gru", "context": {"features": ["item_id"], "how": "film", "by": 1}},
    "model.experts": 3,
    "model.num_heads": 2,
    "model.encoder_context": {"features": ["user_id"], "how": "keys"},
    "model.name": "dnn",
    "model.exclude": ["nothing"],
    "evaluation.at": [0],
    "data.split.by": "tme",
}


def test_arguments_are_those_of_the_functions() -> None:
    def keys_of(owner: Any) -> dict[str, Any]:
        return {
            name: None if (table := table_of(each.annotation)) is None else keys_of(table)
            for name, each in parameters(owner).items()
            if each.kind is each.KEYWORD_ONLY
        }

    assert arguments_by_model() == {name: keys_of(model) for name, model in MODELS.items()}


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


def test_override_reaches_a_key_of_a_table() -> None:
    """Also of one whose name stands alone in the file."""
    model = {"name": "din", "encoder": "gru", "target_attention": {"class_name": "din"}}
    keys = {"model.encoder.num_layers": 3, "model.target_attention.config": {"units": [5]}}
    experiment = load_experiment(DEMO, {"model": model, **keys})
    table = experiment.model.arguments["encoder"]
    assert (table["name"], table["num_layers"]) == ("gru", 3)
    part = {"class_name": "din", "config": {"units": [5]}}
    assert experiment.model.arguments["target_attention"]["name"] == part
