"""Distillation: the labels of a student hold the probabilities of a trained model."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from pipelines.common.errors import PipelineError
from pipelines.experiment.training_options import TeacherOptions
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training.load import load_trained
from pipelines.training.teacher import Teacher, load_teacher
from recsys_attn.schema import Task
from tests.integration.commands import finish
from tests.pipelines.training.trainer import Trainer
from tests.support import shop
from tests.support.once import once

CLICK = (Task("click"),)


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of the teacher."""
    return once(tmp_path_factory, "finished", finish) / "run"


@pytest.fixture
def fitted(prepared: Path) -> FittedFeatures:
    return FittedFeatures.load(prepared / "features")


def test_loss_of_a_mixed_label_is_the_mix_of_both_losses() -> None:
    features = shop.fitted()
    model, table = shop.model(features), shop.table(3, seed=2, longest=1)
    sides = (features.apply(table, side) for side in ("context", "candidate"))
    context, candidate = sides
    inputs = {**context, **{name: values[:, None] for name, values in candidate.items()}}
    logits = tf.constant([[0.3], [-1.0], [2.0]])
    labels = {"click": tf.constant([[1.0], [0.0], [np.nan]]), "buy": tf.zeros((3, 1))}
    mixed = Teacher(model, ("click",), 0.25)(inputs, labels)

    def loss(label: tf.Tensor) -> np.ndarray:
        return tf.nn.sigmoid_cross_entropy_with_logits(label, logits).numpy()

    expected = 0.75 * loss(labels["click"]) + 0.25 * loss(model.probabilities(inputs)["click"])
    np.testing.assert_allclose(loss(mixed["click"]), expected, atol=1e-6)
    assert np.isnan(mixed["click"][2, 0])  # an unknown label stays unknown
    assert mixed["buy"] is labels["buy"]


@pytest.mark.thorough
def test_loss_of_a_student_comes_near_the_entropy_of_its_teacher(
    trainer: Trainer, taught: Path
) -> None:
    """The rest is the divergence of their probabilities. The student reads fewer features."""
    fitted, teacher = load_trained(taught, ())
    train = Feed(DataSplit(trainer.prepared / "data/train"), fitted, "request_id")
    p = Scorer(teacher).score_labelled(train)[1]["click"].astype("float64")
    entropy = -np.mean(p * np.log(p) + (1 - p) * np.log(1 - p))
    trainer(
        tasks=CLICK,
        model={"name": "mlp", "width": 4, "units": [8], "exclude": ["clicked_items"]},
        training__teacher={"run": str(taught), "weight": 1.0},
        training__learning_rate=0.02,
        training__epochs=4,
        training__patience=4,
    )
    divergence = [epoch["loss"] - entropy for epoch in trainer.history]
    assert divergence[0] > 0.02
    assert 0 < divergence[-1] < 0.005


def test_run_without_a_model_is_refused(tmp_path: Path, fitted: FittedFeatures) -> None:
    with pytest.raises(PipelineError, match=r"`training.teacher.run`: .* does not exist"):
        load_teacher(TeacherOptions(run=tmp_path), fitted, CLICK)


@pytest.mark.thorough
def test_features_fitted_otherwise_are_refused(taught: Path) -> None:
    with pytest.raises(PipelineError, match=r"the features \['user_id', 'item_id', 'price', "):
        load_teacher(TeacherOptions(run=taught), shop.fitted(), CLICK)


@pytest.mark.thorough
def test_tasks_in_common_need_probabilities(taught: Path, fitted: FittedFeatures) -> None:
    ranked = (Task("click", loss="softmax"), Task("other"))
    with pytest.raises(PipelineError, match="expected a task with probabilities"):
        load_teacher(TeacherOptions(run=taught), fitted, ranked)
