"""Reading experiment files and expanding their shorthands."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from pipelines.common.artifacts import EXPERIMENT, write_json
from pipelines.common.errors import PipelineError
from pipelines.experiment.config import load_experiment
from pipelines.experiment.training_options import TrainingOptions
from pipelines.ingest.data_options import SplitPaths
from pipelines.ingest.split_options import SplitOptions
from recsys_attn import models
from recsys_attn.id_transforms import Hash, Quantile, Vocabulary
from recsys_attn.options import Table
from recsys_attn.schema import Categorical, Numeric, Schema, Sequence
from tests.support import registries
from tests.support.experiments import load

ROOT = Path(__file__).parents[3]
EXPERIMENTS = sorted([ROOT / "pipelines" / "demo.toml", *(ROOT / "experiments").glob("*.toml")])
PRICE = 'kind = "numeric"\nname = "price"\ntransform = ["log1p", "standardise"]'


def test_the_file_gives_the_schema(tmp_path: Path) -> None:
    experiment = load(tmp_path)
    assert experiment.schema_ == Schema(
        (
            Categorical("user_id", side="context", transform=Vocabulary(min_count=2)),
            Categorical("item_id", dtype="int64"),
            Numeric("price", transform=("log1p", "standardise")),
            Sequence("clicked_items", shares="item_id", dtype="int64", max_length=5),
        ),
        experiment.tasks,
    )
    assert [task.name for task in experiment.tasks] == ["click", "conversion"]
    assert experiment.data.split == SplitOptions(by="time", valid=0.1, test=0.1)
    assert experiment.evaluation.ceiling == {"click": "click_probability"}


@pytest.mark.parametrize(
    ("written", "dtype", "transform"),
    [
        ('transform = "vocabulary"', "string", Vocabulary()),
        ("transform = { min_count = 3, max_size = 7 }", "string", Vocabulary(3, 7)),
        ('transform = { kind = "hash", buckets = 11 }', "string", Hash(11)),
        ('dtype = "float32"\ntransform = "quantile"', "float32", Quantile()),
        (
            'dtype = "float32"\ntransform = { kind = "quantile", buckets = 5 }',
            "float32",
            Quantile(5),
        ),
    ],
)
def test_a_transform_may_be_written_short(
    tmp_path: Path, written: str, dtype: str, transform: object
) -> None:
    price = f'kind = "categorical"\nname = "price"\n{written}'
    feature = load(tmp_path, (PRICE, price)).schema_["price"]
    assert isinstance(feature, Categorical)
    assert (feature.dtype, feature.transform) == (dtype, transform)


def test_sequence_inherits_options_of_shared_feature(tmp_path: Path) -> None:
    item = 'name = "item_id"\ndtype = "int64"'
    changed = item + '\ntransform = { kind = "hash", buckets = 13 }\nwidth = 3'
    experiment = load(tmp_path, (item, changed))
    sequence = experiment.schema_["clicked_items"]
    assert isinstance(sequence, Sequence)
    assert (sequence.dtype, sequence.transform, sequence.width) == ("int64", Hash(13), 3)


def test_overrides_reach_new_keys(tmp_path: Path) -> None:
    experiment = load(
        tmp_path, training__learning_rate=1, export__tolerance=1, data__split__valid=0
    )
    assert experiment.training.learning_rate == 1.0
    assert experiment.export.tolerance == 1.0
    assert experiment.data.split.valid == 0.0


def test_dates_and_paths_by_split_are_read(tmp_path: Path) -> None:
    source = 'source = "simulate"\nrequest = "request_id"\n'
    simulate = "simulate = { rows = 3000, users = 50, items = 96 }\n"
    split = 'split = { by = "time", valid = 0.1, test = 0.1 }'
    cuts = 'split = { by = "time", valid_from = 2025-11-01, test_from = 2025-11-08T12:00:00Z }'
    path = 'path = { train = ["a", "b"], test = "c" }'
    timed = load(tmp_path, (split, cuts)).data.split
    assert (timed.valid_from, timed.test_from) == ("2025-11-01", "2025-11-08T12:00:00+00:00")
    by_files = 'source = "parquet"\n' + path + "\n"
    data = load(tmp_path, (source, by_files), (simulate, ""), (split, "")).data
    assert data.split == SplitOptions(by="provided")
    assert data.path == SplitPaths(train=("a", "b"), test="c")


@pytest.mark.parametrize("name", sorted(models.MODELS))
def test_every_model_takes_the_arguments_of_its_function(tmp_path: Path, name: str) -> None:
    experiment = load(tmp_path, model={"name": name})
    parameters = inspect.signature(models.get(name)).parameters
    assert set(experiment.model.arguments) == {*parameters} - {"schema"}
    for argument, value in experiment.model.arguments.items():
        default = parameters[argument].default
        assert value == (dataclasses.asdict(default) if isinstance(default, Table) else default)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("fwfm", "Received: \"fwfm\". Use 'fm' with `pair_weights = true`."),
        ("dcnn", 'Received: "dcnn". Did you mean `dcn`?'),
    ],
)
def test_other_names_of_papers_lead_to_the_model(tmp_path: Path, name: str, hint: str) -> None:
    with pytest.raises(PipelineError, match=re.escape(hint)):
        load(tmp_path, model={"name": name})


def test_the_model_may_leave_features_out(tmp_path: Path) -> None:
    experiment = load(tmp_path, model={"exclude": ["price", "user_id"]})
    assert [f.name for f in experiment.model_schema.features] == ["item_id", "clicked_items"]
    assert "exclude" not in experiment.model.arguments
    assert experiment.model.name == "attention_ranker"  # the default


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "The experiment file .*experiment.toml does not exist"),
        (b"name = tiny", "experiment.toml is not valid TOML: .*line 1"),
        (b"name = 'a'\nname = 'b'", "experiment.toml is not valid TOML: Cannot overwrite a value"),
        (b"name = '\xff'", "experiment.toml cannot be read: .*utf-8"),
        (b"", "experiment.toml: `name` is missing"),
    ],
)
def test_invalid_experiment_file_is_an_error(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "experiment.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PipelineError, match=message):
        load_experiment(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        *(
            (name, f"The feature name '{name}' cannot name an input .*expected a letter of a-z")
            for name in ("user-id", "C 1", "_x", "1x", "\u00fcbung", "a.b", "a/b")
        ),
        *((name, f"The feature name '{name}' is reserved") for name in ("class", "self", "None")),
        ("candidate_mask", "`name` must not be 'candidate_mask'"),
        ("Item_ID", "'item_id' and 'Item_ID' differ in the case of their letters only"),
    ],
)
def test_invalid_feature_names_are_refused(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, ('name = "price"', f'name = "{name}"'))


@pytest.mark.parametrize("name", ["click_with_context", "click.scores", "click.classes"])
def test_task_names_of_the_export_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PipelineError, match=f"The task name '{name}' must not end in with_context"):
        load(tmp_path, ('name = "conversion"', f'name = "{name}"\nlabel = "conversion"'))


def test_a_rate_of_tables_needs_a_row_wise_optimizer(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"`embeddings_learning_rate` needs a row-wise"):
        load(tmp_path, training__embeddings_learning_rate=0.1, training__optimizer="sgd")
    load(tmp_path, training__embeddings_learning_rate=0.1)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_saved_experiment_is_the_same(path: Path, tmp_path: Path) -> None:
    with registries.restored(ROOT / "experiments"):
        experiment = load_experiment(path, {"training.epochs": 3, "training.warm_start": "runs/x"})
        write_json(tmp_path / EXPERIMENT, experiment.resolved)
        assert experiment.name == path.stem
        assert load_experiment(tmp_path).resolved == experiment.resolved
        assert load_experiment(tmp_path, {"training.epochs": 4}).training.epochs == 4


def test_a_folder_without_an_experiment_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"holds no experiment: expected .* experiment\.json"):
        load_experiment(tmp_path)
    (tmp_path / EXPERIMENT).write_text("{")
    with pytest.raises(PipelineError, match=r"is damaged: .* Give the experiment's TOML file"):
        load_experiment(tmp_path)


def test_a_password_in_a_uri_is_not_kept(tmp_path: Path) -> None:
    text = "simulate = { rows = 3000, users = 50, items = 96 }\n"
    places = ["s3://key:secret@bucket/clicks?region=eu", "/local"]
    values = {"data__source": "parquet", "data__path": places}
    found = load(tmp_path, (text, ""), **values).resolved
    assert found["data"]["path"] == ["s3://bucket/clicks?region=eu", "/local"]
    values["data__path"] = "s3://key:secret@bucket/clicks"
    assert load(tmp_path, (text, ""), **values).resolved["data"]["path"] == "s3://bucket/clicks"


@pytest.mark.parametrize(
    ("requests", "expected"), [(0, 32), (9_000, 32), (80_000, 256), (10**7, 1024)]
)
def test_batches_are_smaller_where_requests_are_few(requests: int, expected: int) -> None:
    assert TrainingOptions().batch_of(requests) == expected
    assert TrainingOptions(batch_size=7).batch_of(requests) == 7


NAME = 'name = "price"\n'


def test_a_feature_names_its_column(tmp_path: Path) -> None:
    plain = load(tmp_path)
    assert "column" not in str([plain.settings["ingest"]["features"], plain.resolved["features"]])
    found = load(tmp_path, (NAME, 'name = "cost"\ncolumn = "price"\n'))
    assert found.settings["ingest"]["features"][2]["column"] == "price"
    assert found.resolved["features"][2]["column"] == "price"


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("click", "The label 'click' of the task 'click' is also a feature"),
        ("the price", "The column name 'the price' cannot name an input of the exported model"),
        ("Item_ID", "The column names 'item_id' and 'Item_ID' differ in the case"),
        ("user_id", r"The features \['user_id', 'price'\] read the column 'user_id', so they must"),
    ],
)
def test_columns_are_checked(tmp_path: Path, column: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, (NAME, f'{NAME}column = "{column}"\n'))


def test_the_items_key_is_a_column(tmp_path: Path) -> None:
    item = 'name = "item_id"\n'
    named = ('shares = "item_id"', 'shares = "item"')
    of_column = (item, 'name = "item"\ncolumn = "item_id"\n')
    load(tmp_path, of_column, named, data__items={"key": "item_id"})
    with pytest.raises(PipelineError, match=r"`data\.items\.key` must name a categorical"):
        load(tmp_path, of_column, named, data__items={"key": "item"})
