"""A wrong experiment file is one clear sentence, before any data are read."""

from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.pretraining.experiment import (
    build_objectives,
    build_sequence_model,
    check_experiment,
    load_sequence_experiment,
    seen_by_model,
)
from pipelines.pretraining.sequence_options import SequenceTraining
from recsys_attn.schema import Schema, Sequence
from tests.pipelines.pretraining.small_log import BERT4REC, load

NEXT = {"name": "next_item"}


def objectives(*named: dict[str, Any], **model: Any) -> dict[str, Any]:
    return {"objectives": list(named), **({"model": model} if model else {})}


def attributes(column: str, **options: Any) -> dict[str, Any]:
    return {"name": "attributes", "column": column, **options}


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "key": ({"training__epoch": 3}, r"`training.epoch`.*Did you mean `?'?epochs"),
    "model's key": ({"model__widht": 8}, "`model.widht`.*Did you mean .*width"),
    "model": ({"model__name": "sasrek"}, "`model.name`: expected one of .*'sasrec'.*sasrek"),
    "objective": (
        objectives({"name": "next_itm"}),
        r"`objectives\[0\].*expected one of .*'next_item'.*next_itm",
    ),
    "objective's key": (objectives({**NEXT, "los": "softmax"}), r"`objectives\[0\].los`"),
    "loss": (objectives({**NEXT, "loss": "softmaxx"}), "Did you mean 'softmax'"),
    "twice": (
        objectives(NEXT, NEXT),
        r"must have different names or columns.*\['next_item', 'next_item'\]",
    ),
    "column twice": (
        objectives(attributes("kind"), attributes("genre"), attributes("kind", weight=0.5)),
        r"different names or columns.*'attributes of kind', 'attributes of genre', 'attributes of",
    ),
    "one of two columns": (
        objectives(attributes("genre"), attributes("kind", hidden=0.2)),
        "`objectives`, 'attributes of kind': .* 'attributes' hides events",
    ),
    "column": (
        objectives({"name": "attributes", "column": "colour"}),
        r"'attributes' reads the sequence 'colour': name it in `data.columns`.*'genre'",
    ),
    "session": (
        {"data__session": None},
        "'session_order' reads the sequence 'session': give `data` a `session` or",
    ),
    "causal": (
        objectives(NEXT, name="bert4rec"),
        "'next_item' predicts each event from those before it.*'masked_item'",
    ),
    "both directions": (objectives({"name": "masked_item"}), "'masked_item' hides events"),
    "queries": (objectives({"name": "permutation"}), "Use the model 'xlnet'"),
    "actions": (objectives({"name": "actions"}), "items and actions are one sequence"),
    "share": (objectives({"name": "masked_item", "share": 2.0}, name="bert4rec"), "`share` must"),
    "heads": ({"model__num_heads": 3}, "'sasrec' cannot be built: `num_heads` must divide .* 8"),
    "inputs": (
        {"inputs": ["colour"]},
        r"`inputs` names 'colour': name it in `data.columns` too. .*\['kind', 'genre'\]",
    ),
    "action": (
        objectives(NEXT, {"name": "actions"}, name="hstu", action="kind"),
        r"`model.action` names 'kind': name it in `inputs`.* Received: inputs=\[\]",
    ),
    "ranking": ({"tasks": [{"name": "click"}]}, "`tasks` is not a known key"),
    "monitor": ({"training__monitor": "auc"}, "`monitor` must be one of .*'ndcg@10'"),
    "places": ({"evaluation__at": []}, r"`evaluation.at`: expected a list of at least 1\. .*\[\]"),
    "place": (
        {"evaluation__at": [0]},
        r"`evaluation.at\[0\]`: expected at least 1\. Received: 0\.",
    ),
    "table of a loss": (
        objectives({**NEXT, "loss": {"name": "bpr"}}),
        r"`objectives\[0\].loss` of 'next_item': Expected `class_name` .* item loss: .*\['name'\]",
    ),
    "views": (
        objectives(NEXT, {"name": "contrastive", "views": ["crops"]}),
        r"`views` must be kinds of changes.*Did you mean 'crop'\?$",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_wrong_file_is_one_clear_sentence(case: str, tmp_path: Path) -> None:
    overrides, message = CASES[case]
    with pytest.raises(PipelineError, match=message) as raised:
        check_experiment(load(tmp_path, **overrides))
    text = str(raised.value)
    assert "\n" not in text
    assert text.endswith((".", "?"))
    assert ".." not in text.replace("...", "")


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        BERT4REC,
        objectives(name="xlnet"),
        objectives(name="bert4rec"),
        {"inputs": ["kind", "genre"], "model__width": 6},
        {"inputs": ["kind"], **objectives(NEXT, {"name": "actions"}, name="hstu", action="kind")},
    ],
)
def test_right_file_is_accepted(overrides: dict[str, Any], tmp_path: Path) -> None:
    check_experiment(load(tmp_path, **overrides))


def test_attributes_of_two_columns_are_two_objectives(tmp_path: Path) -> None:
    given = objectives(NEXT, attributes("kind"), attributes("genre"))
    experiment, sizes = load(tmp_path, **given), {"film": 9, "kind": 4, "genre": 6}
    schema = Schema(tuple(Sequence(k, size=n, max_length=5) for k, n in sizes.items()), ())
    model = build_sequence_model(experiment, seen_by_model(experiment, schema))
    _, *made = build_objectives(experiment, model, schema)
    assert [(each.columns, each.of_item.units) for each in made] == [
        (("kind",), 4),
        (("genre",), 6),
    ]


def test_a_sequence_model_is_no_experiment_of_a_ranking_model(finished: Path) -> None:
    for path in (finished / "small.toml", finished / "run"):
        with pytest.raises(PipelineError, match=r"Received: that of a sequence model, which run,"):
            load_experiment(path)


def test_saved_experiment_is_that_of_the_file(finished: Path) -> None:
    assert load_sequence_experiment(finished / "run") == load(finished)


@pytest.mark.parametrize(
    ("histories", "expected"), [(0, 16), (200, 16), (3_000, 64), (6_040, 128), (10**6, 128)]
)
def test_batches_are_smaller_where_users_are_few(histories: int, expected: int) -> None:
    assert SequenceTraining().batch_of(histories) == expected
    assert SequenceTraining(batch_size=7).batch_of(histories) == 7
