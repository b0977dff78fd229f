"""Once patience has ended, each epoch starts with the tables of the start."""

from pathlib import Path

import numpy as np

from pipelines.storage.dataset import DataSplit
from pipelines.training import build_model
from pipelines.training.checkpoint import Checkpoints
from pipelines.training.fresh_tables import FreshTables
from pipelines.training.optimizer import make_optimizer
from pipelines.training.tower_mode import TowerMode
from pipelines.training.training_state import Saver
from tests.pipelines.training.trainer import MLP, Trainer
from tests.support.experiments import load


def last(folder: Path) -> dict[str, np.ndarray]:
    """The arrays at the end of a training."""
    newest = Checkpoints(folder / "checkpoints").newest
    assert newest is not None
    return dict(newest.arrays())


STILL = 1e-30  # a factor of the learning rate, so that no epoch after the first is better


def lookups(trainer: Trainer, epochs: int, **options: object) -> np.ndarray:
    """How often the optimizer has seen each row of the table."""
    run = "-".join(map(str, [epochs, *options.values()]))
    still = {"training__learning_rate_decay": STILL, "training__patience": 1}
    still |= {"training__learning_rate": 0.02, "training__batch_size": 16}
    trainer(run=run, training__epochs=epochs, **still, **options)
    slots = [a for a in last(trainer.folder / run).values() if a.ndim == 2 and a.shape[1] == 1]
    return max(slots, key=len)


def test_lookups_are_those_of_the_epoch(trainer: Trainer) -> None:
    """The second epoch is no better, so the third begins with the tables of the start."""
    once = lookups(trainer, 1)
    assert once.sum() > 0
    np.testing.assert_array_equal(lookups(trainer, 2), 2 * once)
    np.testing.assert_array_equal(lookups(trainer, 3), once)
    assert len(trainer.history) == 3
    assert "ids are learned anew" in trainer.output.getvalue()
    lookups(trainer, 3, training__fresh_tables=False)
    assert len(trainer.history) == 2


def test_only_tables_and_their_state_are_put_back(trainer: Trainer) -> None:
    """Also where the start has values of its own, as after a warm start."""
    experiment = load(trainer.folder, model=MLP)
    model = build_model(experiment, trainer.fitted.schema)
    optimizer = make_optimizer(experiment.training, model.trainable_variables)
    footers = DataSplit(trainer.prepared / "data/train").footers
    checkpoints = Checkpoints(trainer.folder / "checkpoints", 1)
    mode = TowerMode(0, jit_compile=False)
    saver = Saver(checkpoints, "", model, optimizer, experiment.training, 1, footers, mode)
    rng = np.random.default_rng(1)
    start = {}
    for name, variable in saver.variables():
        if variable.dtype == "float32":
            variable.assign(rng.normal(size=variable.shape))
            start[name] = variable.numpy()
    fresh = FreshTables(saver)
    for name, variable in saver.variables():
        if name in start:
            variable.assign(start[name] + 1)
    fresh.restore()
    put_back = 0
    for name, variable in saver.variables():
        if name in start:
            is_table = "table_" in variable.path
            np.testing.assert_array_equal(variable.numpy(), start[name] + (not is_table))
            put_back += is_table
    assert put_back == 4  # rows, two moments and lookups
