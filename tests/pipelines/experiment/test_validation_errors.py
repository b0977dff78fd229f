"""Every mistake in an experiment file is one actionable sentence."""

import re
from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from recsys_attn import models
from tests.support.experiments import write

JARGON = ("pydantic", "http", "validation error", "Input", "tag", "dataclass", "Traceback", "()")

DATA = 'source = "simulate"\n'
ITEM = 'name = "item_id"\ndtype = "int64"'
PRICE = 'transform = ["log1p", "standardise"]'
SEQUENCE = 'shares = "item_id"\nmax_length = 5'
CLICK = '[[tasks]]\nname = "click"'
KINDS = "'categorical', 'numeric', 'sequence'"
TOP = "data, evaluation, export, features, imports, imports_from, model, name, refresh, seed, tasks"

UNKNOWN_KEYS = [
    ("", ("seed = 3", "sede = 3"), "sede", "seed", TOP),
    (
        "data",
        (DATA, DATA + "pth = 1\n"),
        "data.pth",
        "path",
        "aggregates, behind, event_id, features_over_time, histories, items",
    ),
    ("path", (DATA, DATA + 'path = { trian = "a" }\n'), "data.path.trian", "train", "test, train"),
    (
        "sequence",
        (SEQUENCE, "share = 3"),
        "features[3].share",
        "shares",
        "column, dtype, history, kind",
    ),
    (
        "of another kind",
        (PRICE, "max_length = 3"),
        "features[2].max_length",
        None,
        "bins, boundaries, column, dtype, encoding, kind",
    ),
    (
        "transform",
        ("{ min_count = 2 }", "{ min_cout = 2 }"),
        "features[0].transform.min_cout",
        "min_count",
        "kind, max_size, min_count.",
    ),
    (
        "transform of another kind",
        ("{ min_count = 2 }", '{ kind = "hash", buckets = 3, min_count = 2 }'),
        "features[0].transform.min_count",
        None,
        "buckets, kind.",
    ),
    (
        "model",
        ("head_dim = 4", "haed_dim = 4"),
        "model.interaction.haed_dim",
        "head_dim",
        "head_dim, name, num_heads, num_layers",
    ),
    (
        "training",
        ("epochs = 2", "epoch = 2"),
        "training.epoch",
        "epochs",
        "batch_size, calibrate, checkpoint_every",
    ),
]


@pytest.mark.parametrize(
    ("change", "key", "near", "known"),
    [case[1:] for case in UNKNOWN_KEYS],
    ids=[case[0] or "top" for case in UNKNOWN_KEYS],
)
def test_unknown_key_error_suggests_known_keys(
    tmp_path: Path, change: tuple[str, str], key: str, near: str | None, known: str
) -> None:
    hint = f" Did you mean `{near}`?" if near else ""
    sentence = f"`{key}` is not a known key.{hint} Known keys here: {known}"
    assert any(line.startswith(sentence) for line in _problems(tmp_path, change))


MISMATCHES: list[tuple[tuple[str, str], str]] = [
    (
        ('name = "tiny"', 'name = "a/b"'),
        "`name`: expected letters, digits, '_', '.' and '-' after a letter or digit. "
        'Received: "a/b".',
    ),
    (("seed = 3", "seed = -1"), "`seed`: expected at least 0. Received: -1."),
    (
        (DATA, 'source = "simulat"\n'),
        "`data.source`: expected 'simulate', 'movielens-1m', 'census-income', 'frappe', "
        "'trivago', 'criteo', 'avazu', 'csv', 'parquet' or 'sequences'. Received: \"simulat\". "
        "Did you mean `simulate`?",
    ),
    (
        (DATA, DATA + "path = 5\n"),
        "`data.path`: expected a string, a list or a table. Received: 5.",
    ),
    (
        ("valid = 0.1", "valid = 0.9"),
        "`data.split`: `valid` + `test` must be below 1, so that rows are left to train. "
        "Received: valid=0.9, test=0.1.",
    ),
    (
        ('[[features]]\nkind = "numeric"', '[[features]]\nkind = "numerc"'),
        f'`features[2].kind`: expected one of {KINDS}. Received: "numerc". Did you mean `numeric`?',
    ),
    (
        ('[[features]]\nkind = "numeric"', "[[features]]"),
        f"`features[2].kind` is missing. Expected one of {KINDS}.",
    ),
    (
        ("{ min_count = 2 }", "{ min_count = 0 }"),
        "`features[0].transform`: `min_count` must be a positive integer. Received: min_count=0.",
    ),
    (("{ min_count = 2 }", '"hash"'), "`features[0].transform.buckets` is missing. Add it."),
    (
        (PRICE, 'transform = ["log"]'),
        "`features[2].transform[0]`: expected 'log1p' or 'standardise'. Received: \"log\". "
        "Did you mean `log1p`?",
    ),
    (
        (CLICK, CLICK + "\nweight = inf"),
        "`tasks[0].weight`: expected a finite number. Received: Infinity.",
    ),
    (
        (CLICK, CLICK + '\nloss = "focall"'),
        "`tasks[0].loss`: expected 'cross_entropy', 'focal', 'jrc', 'softmax', 'bpr', "
        "'list_mle' or a table. Received: \"focall\". Did you mean `focal`?",
    ),
    (
        (CLICK, CLICK + '\nloss = { name = "focall", gamma = 2.0 }'),
        "`tasks[0].loss.name`: expected 'cross_entropy', 'focal', 'jrc', 'softmax', 'bpr' or "
        "'list_mle'. Received: \"focall\". Did you mean `focal`?",
    ),
    (
        (CLICK, CLICK + '\nloss = { name = "focal", gama = 2.0 }'),
        "`tasks[0].loss.gama` is not a known key. Did you mean `gamma`? Known keys here: gamma, "
        "name.",
    ),
    (
        (CLICK, CLICK + '\nloss = { name = "jrc", alpha = 0 }'),
        "`tasks[0].loss`: `alpha` must be a finite number above 0 and at most 1. Received: "
        "alpha=0.0.",
    ),
    (
        ("width = 4", 'encoder = { class_name = "performer", config = { causal = "yes" } }'),
        "`model.encoder.name`: `causal` must be True or False. Received: causal='yes'.",
    ),
    (
        ("experts = { units = [8] }", "experts = { units = 8 }"),
        "`model.experts.units`: expected a list. Received: 8.",
    ),
    (
        ("epochs = 2", "learning_rate = 0"),
        "`training.learning_rate`: expected more than 0. Received: 0.",
    ),
    (
        ('ceiling = { click = "click_probability" }', 'ceiling = "x"'),
        '`evaluation.ceiling`: expected a table. Received: "x".',
    ),
    (
        ("width = 4", 'exclude = ["prise"]'),
        "`model.exclude` names 'prise'; expected one of 'user_id', 'item_id', 'price', "
        "'clicked_items'. Did you mean 'price'?",
    ),
    (
        ("width = 4", 'exclude = ["item_id"]'),
        "Without the features that `model.exclude` names: Sequence 'clicked_items': `shares` must "
        "name a categorical feature, one of ['user_id']. Received: shares='item_id'.",
    ),
    (
        ('name = "user_id"', 'name = "price"'),
        "`features` must have different names. Received twice: ['price'].",
    ),
    (
        (CLICK, '[[tasks]]\nname = "click"\nlabel = "price"'),
        "The label 'price' of the task 'click' is also a feature of the model, which would learn "
        "to copy it. Remove the feature, or name it in `model.exclude`.",
    ),
]


@pytest.mark.parametrize(("change", "sentence"), MISMATCHES, ids=[s[:60] for _, s in MISMATCHES])
def test_invalid_value_is_an_error(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    assert _problems(tmp_path, change) == [sentence]


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("sample_weight", "is not a known key."),
        ("weight_column", "is not a known key."),
        ("weight", 'expected a number. Received: "importance".'),
    ],
)
def test_a_column_that_is_to_weigh_rows(tmp_path: Path, key: str, sentence: str) -> None:
    (problem,) = _problems(tmp_path, (CLICK, f'{CLICK}\n{key} = "importance"'))
    assert f"tasks[0].{key}`" in problem
    assert f"{sentence} A column cannot weigh rows: the `weight` of a task is one" in problem


def test_sequences_of_one_history_have_one_length(tmp_path: Path) -> None:
    other = '\n[[features]]\nkind = "sequence"\nname = "seen"\nmax_length = 7\n'
    (problem,) = _problems(tmp_path, (SEQUENCE, SEQUENCE + other))
    assert problem == (
        "Sequences of one history are aligned and must have the same `max_length`. "
        "Received for history 'history': {'clicked_items': 5, 'seen': 7}."
    )


@pytest.mark.parametrize("table", ["data", "features", "tasks"])
def test_a_missing_table_is_named(tmp_path: Path, table: str) -> None:
    path = write(tmp_path)
    lines = path.read_text(encoding="utf-8").replace(f"[{table}", "[export.x")
    path.write_text(lines, encoding="utf-8")
    assert f"`{table}` is missing. Add it." in _explained(path)


def test_every_problem_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    problems = _problems(
        tmp_path,
        ("seed = 3", 'seed = "x"'),
        ("epochs = 2", "epoch = 2"),
        ("rows = 3000", "rows = 0"),
    )
    assert len(problems) == 3


def test_inherited_mistake_is_reported_once(tmp_path: Path) -> None:
    problems = _problems(tmp_path, (ITEM, ITEM + '\ntransform = "hsh"'))
    assert [problem.partition(":")[0] for problem in problems] == ["`features[1].transform.kind`"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ((SEQUENCE, "share = 3"), "`features[3].share` of 'clicked_items' is not a known key."),
        ((PRICE, 'transform = ["log"]'), "`features[2].transform[0]` of 'price': expected 'log1p'"),
        ((CLICK, CLICK + "\nweight = inf"), "`tasks[0].weight` of 'click': expected a finite"),
        (
            (DATA, f'{DATA}histories = [{{ name = "seen", off = "item_id" }}]\n'),
            "`data.histories[0].off` of 'seen' is not a known key. Did you mean `of`?",
        ),
        ((ITEM, 'dtype = "int64"'), "`features[1].name` is missing"),
    ],
    ids=["key", "value", "task", "history", "nameless"],
)
def test_a_table_of_a_list_is_named(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    with pytest.raises(PipelineError) as caught:
        load_experiment(write(tmp_path, change))
    assert f": {sentence}" in str(caught.value)


def test_a_long_value_is_cut(tmp_path: Path) -> None:
    (problem,) = _problems(tmp_path, ("seed = 3", f"seed = {list(range(100))}"))
    assert problem.endswith("....")
    assert len(problem) < 130


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"training.epoch": 3}, "`training.epoch` is not a known key. Did you mean `epochs`?"),
        ({"trainig.epochs": 3}, "`trainig` is not a known key. Did you mean `training`?"),
        ({"training.epochs": "3x"}, '`training.epochs`: expected a whole number. Received: "3x".'),
        ({"features.0.width": 3}, "--set features.0.width: `features` is a list in the experiment"),
        ({"seed.x": 3}, "--set seed.x: `seed` is a value in the experiment file; expected a table"),
        ({"model.a.b": 3}, "`model.a` is not a known key."),
    ],
)
def test_an_override_is_checked_as_the_file_is(
    tmp_path: Path, overrides: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        load_experiment(write(tmp_path), overrides)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", sorted(models.MODELS.members))
def test_a_wrong_option_of_a_model_is_named(tmp_path: Path, name: str) -> None:
    """FiBiNET has an option `kind`, a key that selects the type of other tables."""
    with pytest.raises(PipelineError) as caught:
        load_experiment(write(tmp_path), {"model": {"name": name, "wrong_option": 1}})
    assert "`model.wrong_option` is not a known key" in str(caught.value)
    with pytest.raises(PipelineError) as caught:
        load_experiment(write(tmp_path), {"model": {"name": name, "exclude": 3}})
    assert "`model.exclude`" in str(caught.value)


def _problems(folder: Path, *changes: tuple[str, str]) -> list[str]:
    """The sentences of a changed file's error, without the file's name."""
    return _explained(write(folder, *changes))


def _explained(path: Path) -> list[str]:
    with pytest.raises(PipelineError) as caught:
        load_experiment(path)
    message = str(caught.value)
    assert not [word for word in JARGON if word in message]
    lines = message.splitlines()
    assert all(line.startswith(f"{path}: ") for line in lines)
    sentences = [line.removeprefix(f"{path}: ") for line in lines]
    return [re.sub(r"^(`\w+\[\d+\][^`]*`) of '\w+'", r"\1", line) for line in sentences]
