"""A ranking model that starts from a sequence model: its encoder, and the items by their values."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.pretraining.experiment import load_sequence_experiment
from pipelines.pretraining.sequence_steps import SequenceSteps
from pipelines.training import check_model
from pipelines.training.encoder_from import encoded, own_rate, start_from
from pipelines.training.load import load_sequence_model, load_trained
from pipelines.training.model import build_model
from pipelines.workflow.steps import Steps
from recsys_attn.schema import RESERVED_IDS
from tests.pipelines.training.trainer import Trainer
from tests.support.experiments import NO_AUDIT, load
from tests.support.once import once

SEQUENCES = """
name = "next"
max_length = 7

[data]
path = "{events}"
user = "user"
item = "item"
time = "time"

[model]
name = "sasrec"
width = 4
num_layers = 1
num_heads = 1

[training]
epochs = 1
"""
DIN = {"name": "din", "width": 4, "mlp_units": [3]}
ITEMS = 60  # of the 96 that the ranking model may know


def pretrain(folder: Path, *changes: tuple[str, str], first: int = 0) -> None:
    """Writes a log of 47 users, whose items count from `first`, and the run of a sequence model."""
    rng, users = np.random.default_rng(5), np.repeat(np.arange(47), 11)
    table = {"user": users, "item": first + rng.integers(0, ITEMS, len(users))}
    table |= {"time": range(len(users)), "kind": rng.integers(0, 3, len(users))}
    pq.write_table(pa.table(table), folder / "events.parquet")
    text = SEQUENCES.format(events=folder / "events.parquet")
    for old, new in changes:
        text = text.replace(old, new)
    (folder / "next.toml").write_text(text)
    experiment = load_sequence_experiment(folder / "next.toml")
    steps = SequenceSteps.of(experiment, folder / "run", Console(file=io.StringIO()), force=False)
    steps.ingest()
    steps.fit()
    steps.train()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a sequence model; not to be changed."""
    return once(tmp_path_factory, "pretrained", pretrain) / "run"


def din(run: Path, **options: Any) -> dict[str, Any]:
    """The `[model]` table of a ranking model with the encoder of a run."""
    return {**DIN, "encoder_from": {"run": str(run), **options}}


def encoder_of(model: Any) -> Any:
    return model.tower.histories["history"].encoder


def rows(model: Any, feature: str) -> np.ndarray:
    return np.asarray(model.embedding.vectors(feature))


def assert_equal(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_weights_of_the_encoder_and_rows_of_equal_values_are_copied(
    trainer: Trainer, trained: Path
) -> None:
    """Other items and the users keep their initial rows."""
    experiment, fitted = load(trainer.folder, model=din(trained)), trainer.fitted
    model = build_model(experiment, fitted.schema)
    assert experiment.model.encoder_from is not None
    started, said = start_from(experiment.model.encoder_from, model, fitted)
    theirs, sequence_model = load_sequence_model(trained)
    assert_equal(encoder_of(started).get_weights(), sequence_model.encoder.get_weights())
    mine = fitted.transform_of("item_id").values.to_pylist()
    ids = {
        v: RESERVED_IDS + i for i, v in enumerate(theirs.transform_of("item").values.to_pylist())
    }
    known = [value in ids for value in mine]
    assert said == f"encoder from {trained}: {sum(known)} of {len(mine)} items known"
    assert 0 < sum(known) < len(mine)
    old, new = rows(sequence_model, "item"), rows(started, "item_id")
    np.testing.assert_array_equal(new[:RESERVED_IDS], old[:RESERVED_IDS])
    for row, value in zip(new[RESERVED_IDS:], mine, strict=True):
        if value in ids:
            np.testing.assert_array_equal(row, old[ids[value]])
        else:
            assert np.abs(row).max() < 0.1  # an initial one
    assert np.abs(rows(started, "user_id")).max() < 0.1


@pytest.mark.thorough
def test_a_run_without_a_known_item_is_an_error(trainer: Trainer, tmp_path: Path) -> None:
    pretrain(tmp_path, first=10**6)
    experiment = load(trainer.folder, model=din(tmp_path / "run"))
    model = build_model(experiment, trainer.fitted.schema)
    assert experiment.model.encoder_from is not None
    with pytest.raises(PipelineError, match="none of the values of 'clicked_items' is an item"):
        start_from(experiment.model.encoder_from, model, trainer.fitted)


@pytest.mark.parametrize("how", ["frozen", "tuned"])
def test_an_encoder_is_trained_unless_it_is_frozen(
    trainer: Trainer, trained: Path, how: str
) -> None:
    experiment = load(trainer.folder, model=din(trained, train=how))
    options = experiment.model.encoder_from
    assert options is not None
    model = encoded(options, build_model(experiment, trainer.fitted.schema)).model
    assert bool(encoder_of(model).trainable_variables) == (how == "tuned")
    assert model.embedding.trainable_variables, "rows of items are trained either way"


@pytest.mark.thorough
def test_a_frozen_encoder_keeps_its_weights_and_a_tuned_one_does_not(
    trainer: Trainer, trained: Path
) -> None:
    """Rows of items are trained either way."""
    _, sequence_model = load_sequence_model(trained)
    before = sequence_model.encoder.get_weights()
    frozen = trainer(run="frozen", model=din(trained, train="frozen"))
    assert "items known" in trainer.output.getvalue()
    assert_equal(encoder_of(frozen).get_weights(), before)
    assert not encoder_of(frozen).trainable_variables
    tuned = trainer(run="tuned", model=din(trained))
    for one, other in zip(encoder_of(tuned).get_weights(), before, strict=True):
        assert np.any(one != other)
    assert np.any(rows(frozen, "item_id") != rows(tuned, "item_id"))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"train": "frozen"}, {"learning_rate": 1e-4}], ids=str)
def test_a_training_in_two_parts_ends_like_one(
    trainer: Trainer, trained: Path, options: dict[str, Any]
) -> None:
    model = din(trained, **options)
    whole = trainer(run="whole", model=model, training__epochs=2).get_weights()
    trainer(run="parts", model=model, training__epochs=1)
    found = trainer(run="parts", model=model, training__epochs=2)
    assert "resuming after step" in trainer.output.getvalue()
    assert "items known" not in trainer.output.getvalue()
    assert_equal(found.get_weights(), whole)
    assert bool(encoder_of(found).trainable_variables) == ("learning_rate" in options)


def test_own_rate_is_that_of_the_variables_of_the_encoder(trainer: Trainer, trained: Path) -> None:
    experiment = load(trainer.folder, model=din(trained, learning_rate=1e-5))
    options = experiment.model.encoder_from
    assert options is not None
    model = encoded(options, build_model(experiment, trainer.fitted.schema)).model
    own = own_rate(options, model)
    assert own is not None
    assert own.learning_rate == 1e-5
    paths = {variable.path for variable in own.variables}
    assert paths == {variable.path for variable in encoder_of(model).trainable_variables}
    assert own_rate(options.model_copy(update={"learning_rate": None}), model) is None


@pytest.mark.thorough
def test_a_lower_rate_of_the_encoder_keeps_it_nearer(trainer: Trainer, trained: Path) -> None:
    _, sequence_model = load_sequence_model(trained)
    before = sequence_model.encoder.get_weights()

    def distance(run: str, **options: Any) -> float:
        after = encoder_of(trainer(run=run, model=din(trained, **options))).get_weights()
        return max(np.abs(one - other).max() for one, other in zip(after, before, strict=True))

    near, far = distance("near", learning_rate=1e-6), distance("far")
    assert 0 < near < 0.05 * far


@pytest.mark.thorough
def test_a_whole_run_is_exported_with_parity_and_trained_again_with_another_encoder(
    trained: Path, tmp_path: Path
) -> None:
    """`export` fails where the exported model scores differently."""
    copy = tmp_path / "next"
    shutil.copytree(trained, copy)
    output = io.StringIO()

    def everything() -> Steps:
        options = {f"evaluation__{key}": 50 for key in NO_AUDIT}
        model = {**din(copy), "encoder_from": str(copy)}
        experiment = load(tmp_path, model=model, training__epochs=1, **options)
        steps = Steps.of(experiment, tmp_path / "run", Console(file=output, width=200), force=False)
        steps.everything()
        return steps

    everything()
    assert "parity on" in output.getvalue()
    _, model = load_trained(tmp_path / "run", ())
    assert encoder_of(model).trainable_variables
    manifest = copy / "model/manifest.json"
    manifest.write_text(manifest.read_text().replace('"fingerprint": "', '"fingerprint": "0'))
    output.truncate(0)
    steps = everything()
    assert "the checkpoints belong to another training" in output.getvalue()
    assert "train: unchanged" not in output.getvalue()
    steps.run.manifest("train")


@pytest.mark.thorough
def test_a_frozen_encoder_is_frozen_in_a_loaded_model(trainer: Trainer, trained: Path) -> None:
    model = trainer(model=din(trained, train="frozen"), training__epochs=1)
    (trainer.folder / "model").mkdir()
    model.save(trainer.folder / "model/model.keras")
    shutil.copytree(trainer.prepared / "features", trainer.folder / "features")
    _, loaded = load_trained(trainer.folder, ())
    assert not encoder_of(loaded).trainable_variables
    assert len(loaded.trainable_variables) == len(model.trainable_variables)
    assert_equal(loaded.get_weights(), model.get_weights())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 5}, "'clicked_items' of width 5 here, and 'item' of width 4 there"),
        ({"encoder": "gru"}, "has an encoder already: remove the option `encoder`"),
        ({"encoder_from": {"history": "seen"}}, r"values of `history` of .*\['history'\]"),
    ],
    ids=["width", "encoder", "history"],
)
def test_a_model_that_does_not_fit_is_refused_before_any_data_is_read(
    tmp_path: Path, trained: Path, options: dict[str, Any], message: str
) -> None:
    encoder = {"run": str(trained), **options.pop("encoder_from", {})}
    experiment = load(tmp_path, model={**DIN, **options, "encoder_from": encoder})
    with pytest.raises(PipelineError, match=message) as caught:
        check_model(experiment)
    assert "`model.encoder_from" in str(caught.value)


def test_a_narrow_table_is_refused(tmp_path: Path, trained: Path) -> None:
    narrow = ('name = "item_id"', 'name = "item_id"\ntable_width = 3')
    experiment = load(tmp_path, narrow, model=din(trained))
    with pytest.raises(PipelineError, match=r"`table_width`.*'clicked_items' of width 3 here"):
        check_model(experiment)


@pytest.mark.thorough
def test_an_encoder_of_actions_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "actions"
    folder.mkdir()
    columns = 'time = "time"\ncolumns = ["kind"]'
    pretrain(
        folder,
        ('name = "next"', 'name = "next"\ninputs = ["kind"]'),
        ('time = "time"', columns),
        ('name = "sasrec"', 'name = "sasrec"\naction = "kind"'),
    )
    with pytest.raises(PipelineError, match="its encoder reads actions as events of their own"):
        check_model(load(tmp_path, model=din(folder / "run")))


def test_runs_that_are_missing_other_or_changed_are_refused(
    trainer: Trainer, trained: Path, tmp_path: Path
) -> None:
    def refused(run: Path, message: str) -> None:
        with pytest.raises(PipelineError, match=message):
            check_model(load(tmp_path, model=din(run)))

    refused(tmp_path / "nowhere", r"`model.encoder_from.run`: .*nowhere is not the folder of a")
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    features = copy / "features/manifest.json"
    content = features.read_text()
    features.write_text(content.replace('"fingerprint": "', '"fingerprint": "0'))
    refused(copy, r"`model.encoder_from.run`: the features of .*copy have changed since")
    features.write_text(content)
    ranker = build_model(load(tmp_path, model=DIN), trainer.fitted.schema)
    ranker.save(copy / "model/model.keras")
    refused(copy, r"`model.encoder_from`: .*copy: expected the run folder of a sequence model")


def test_a_frozen_encoder_with_a_rate_is_refused(tmp_path: Path) -> None:
    model = din(tmp_path, train="frozen", learning_rate=0.1)
    with pytest.raises(PipelineError, match="A frozen encoder has no `learning_rate`"):
        load(tmp_path, model=model)
