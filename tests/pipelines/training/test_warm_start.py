"""A warm start matches table rows by value and keeps the optimizer's slots."""

import io
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.features.vocabulary import VocabularyTransform
from pipelines.storage.dataset import DataSplit
from pipelines.training import build_model
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.optimizer import make_optimizer
from pipelines.training.tower_mode import TowerMode
from pipelines.training.training_state import Saver
from pipelines.training.warm_start import WarmStart, same_ids
from pipelines.workflow.steps import Steps
from recsys_attn.embedding_tables import plan_tables
from recsys_attn.schema import RESERVED_IDS, Numeric
from tests.support.experiments import load

MLP = {"name": "mlp", "width": 4, "units": [8]}
OPTIONS = {
    "model": MLP,
    "training__epochs": 1,
    "training__embeddings_l2": 0.0,
    "training__calibrate": False,
}
NARROW = [(line, f"{line}\ntable_width = 3") for line in ('name = "user_id"', 'name = "item_id"')]


def run(folder: Path, name: str, *changes: tuple[str, str], **options: object) -> tuple[Steps, str]:
    output = io.StringIO()
    experiment = load(folder, *NARROW, *changes, **{**OPTIONS, **options})
    steps = Steps.of(experiment, folder / name, Console(file=output, width=200), force=False)
    steps.ingest()
    steps.fit()
    steps.train()
    return steps, output.getvalue()


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Steps:
    learned = {"training__task_weights": "uncertainty"}  # which a newer run begins anew
    return run(tmp_path_factory.mktemp("older"), "run", **learned)[0]


def test_warm_start_with_same_data_has_the_same_weights(older: Steps, tmp_path: Path) -> None:
    """With steps too small to change anything: also the optimizer's own rate is the new one."""
    options = {"training__warm_start": str(older.run.folder), "training__learning_rate": 1e-30}
    newer, output = run(tmp_path, "run", **options)
    assert "warm start from" in output
    before, after = older.load()[1].get_weights(), newer.load()[1].get_weights()
    for old, new in zip(before, after, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-12)


def test_warm_start_moves_slots_with_their_rows(older: Steps, tmp_path: Path) -> None:
    """Three users are gone and one is new, before the others."""
    before, _ = older.load()
    users = before.transforms["user_id"].values
    users = pa.concat_arrays([pa.array(["new"], users.type), users[3:]])
    transforms = {**before.transforms, "user_id": VocabularyTransform(values=users)}
    sizes = {f.name: f.size for f in before.schema.features if not isinstance(f, Numeric)}
    schema = before.schema.with_sizes({**sizes, "user_id": RESERVED_IDS + len(users)})
    options = older.experiment.training
    model = build_model(older.experiment, schema)
    optimizer = make_optimizer(options, model.trainable_variables)
    footers = DataSplit(older.run.folder / "data" / "train").footers
    saver = Saver(
        Checkpoints(tmp_path), "", model, optimizer, options, 1, footers, TowerMode(None, False)
    )
    initial = {name: v.numpy() for name, v in saver.variables()}
    WarmStart(older.run.folder).start(saver, FittedFeatures(schema, transforms))
    checkpoint = Checkpoints(older.run.folder / "checkpoints").newest
    assert checkpoint is not None
    arrays = dict(checkpoint.arrays())
    (_, old), (_, new) = plan_tables(before.schema, 4), plan_tables(schema, 4)
    of_old, of_new = (t.offsets["user_id"] + RESERVED_IDS for t in (old, new))
    named = {name: v.numpy() for name, v in saver.variables() if "table_3_" in v.path}
    assert len(named) == 1 + 2  # the table, and Adam's two slots
    for name, found in named.items():
        kept = len(users) - 1
        known = arrays[name][of_old + 3 : of_old + 3 + kept]
        assert np.any(known != initial[name][of_new + 1 : of_new + 1 + kept])
        np.testing.assert_array_equal(found[of_new + 1 : of_new + 1 + kept], known)
        np.testing.assert_array_equal(found[of_new], initial[name][of_new])
        first, last = (t.offsets["item_id"] for t in (old, new))
        items = sizes["item_id"]
        np.testing.assert_array_equal(found[last : last + items], arrays[name][first:][:items])
    (projections,) = (name for name, v in saver.variables() if v.name == "projection_3_to_4")
    found = {name: v.numpy() for name, v in saver.variables()}[projections]
    np.testing.assert_array_equal(found, arrays[projections])


@pytest.mark.thorough
def test_gates_are_new_in_a_model_that_had_none(tmp_path: Path) -> None:
    """All else is the older run's, with the slots of the optimizer beside those of the gates."""
    model = {"name": "autoint", "width": 4, "interaction": {"num_layers": 2, "head_dim": 4}}
    plain = run(tmp_path, "plain", model=model)[0]
    gated = {**model, "gates": {"interaction": {"class_name": "hard_concrete"}}}
    start = {"training__warm_start": str(plain.run.folder), "training__learning_rate": 1e-30}
    newer, output = run(tmp_path, "gated", model=gated, **start)
    assert "the gates of 2 layers are new" in output
    before, after = plain.load()[1], newer.load()[1]
    own = [v for v in after.variables if "hard_concrete" in v.path or "seed_generator" in v.path]
    assert {v.path.rpartition("/")[2] for v in own} == {"log_alpha", "seed_generator_state"}
    for variable in own:
        if variable.name == "log_alpha":
            np.testing.assert_allclose(variable, 2.5)
    others = [v for v in after.variables if not any(v is each for each in own)]
    for old, new in zip(before.variables, others, strict=True):
        np.testing.assert_allclose(new, old, atol=1e-12)
    older, newest = (Checkpoints(s.run.folder / "checkpoints").newest for s in (plain, newer))
    kept, found = (sum(n.startswith("opt") for n, _ in c.arrays()) for c in (older, newest))
    assert found == kept + 2 * 2  # two slots of each layer's gates


@pytest.mark.thorough
def test_other_gates_than_there_are_refused(tmp_path: Path) -> None:
    model = {"name": "autoint", "width": 4, "gates": {"interaction": "hard_concrete"}}
    plain = run(tmp_path, "plain", model=model)[0]
    both = {**model, "gates": "hard_concrete"}
    with pytest.raises(PipelineError, match="may have `gates` where the older one has none at all"):
        run(tmp_path, "gated", model=both, training__warm_start=str(plain.run.folder))


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {**MLP, "units": [9]}}, r"does not fit: .* has the shape .* there and .* here"),
        ({"model": {"name": "autoint", "width": 4}}, "does not fit: "),
        ({"training__optimizer": "adam"}, "LazyAdam and Adam, and this run's is Adam. Give"),
        ({"training__optimizer": "row_wise_adagrad"}, "and this run's is RowWiseAdagrad and Adam"),
        ({"training__embeddings_l2": 0.1}, "this run's is LazyAdam with `embeddings_l2` and Adam"),
    ],
    ids=["other units", "another model", "of Keras", "of other slots", "of one more slot"],
)
def test_another_model_is_refused(
    older: Steps, tmp_path: Path, options: dict, message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        run(tmp_path, "run", training__warm_start=str(older.run.folder), **options)


def test_tasks_in_another_order_are_refused(older: Steps, tmp_path: Path) -> None:
    """Their heads have the same shapes."""
    click, conversion = '[[tasks]]\nname = "click"', '[[tasks]]\nname = "conversion"'
    changes = [(click, '[[tasks]]\nname = "-"'), (conversion, click), ('"-"', '"conversion"')]
    with pytest.raises(PipelineError, match=r"tasks \['click', 'conversion'\], in this order"):
        run(tmp_path, "run", *changes, training__warm_start=str(older.run.folder))


def test_ids_are_matched_as_text() -> None:
    before, after = (
        VocabularyTransform(values=pa.array(values)) for values in (["7", "u", "9"], [9, 3, 7])
    )
    new, old = same_ids(before, after)
    assert (new.tolist(), old.tolist()) == ([0, 1, 2, 4], [0, 1, 4, 2])


@pytest.mark.thorough
def test_retrained_older_run_restarts_training(older: Steps, tmp_path: Path) -> None:
    folder = tmp_path / "older"
    shutil.copytree(older.run.folder, folder)
    newer, output = run(tmp_path, "run", training__warm_start=str(folder))
    first = newer.load()[1].embedding.get_weights()
    run(tmp_path, "older", training__learning_rate=0.1)
    newer, output = run(tmp_path, "run", training__warm_start=str(folder))
    assert "the checkpoints belong to another training; starting from scratch" in output
    assert "warm start from" in output
    assert not np.allclose(first[0], newer.load()[1].embedding.get_weights()[0])


def test_a_run_without_checkpoints_is_refused(older: Steps, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(older.run.folder, folder)
    shutil.rmtree(folder / "checkpoints")
    with pytest.raises(PipelineError, match="holds no checkpoint"):
        run(tmp_path, "run", training__warm_start=str(folder))
    with pytest.raises(PipelineError, match=r"`training.warm_start`: .*nowhere is not the folder"):
        run(tmp_path, "run", training__warm_start=str(tmp_path / "nowhere"))
