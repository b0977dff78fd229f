"""Hard negatives against a loop, and trainings that resume with each way of drawing."""

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pipelines.common.errors import PipelineError
from pipelines.common.progress import Progress
from pipelines.features import FittedFeatures
from pipelines.feed import LENGTHS, Feed, ItemCatalogue, Negatives
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training import OutputPaths, TrainingData, train
from pipelines.training.hard_negatives import HardNegatives
from recsys_attn.models import logistic_regression
from recsys_attn.schema import CANDIDATE_MASK
from tests.support import next_items
from tests.support.once import once


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return once(tmp_path_factory, "next_items", next_items.prepare)


def trained(folder: Path, output: Path, **overrides) -> list[np.ndarray]:
    data = folder / "run" / "data"
    fitted = FittedFeatures.load(folder / "run" / "features")
    model, *_ = train(
        next_items.load(folder, training__patience=9, training__calibrate=False, **overrides),
        TrainingData(data, "request", fitted),
        OutputPaths(output, None, "key"),
        Progress(Console(file=io.StringIO())),
    )
    return [np.array(weight) for weight in model.get_weights()]


def test_the_highest_scores_are_kept(folder: Path) -> None:
    fitted = FittedFeatures.load(folder / "run" / "features")
    negatives = Negatives(ItemCatalogue(fitted.items, fitted), 13, "uniform", seed=3)
    split = DataSplit(folder / "run" / "data" / "train")
    feed = Feed(split, fitted, "request", 17, lengths=LENGTHS, negatives=negatives)
    model = logistic_regression(fitted.schema)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(size=w.shape) for w in model.get_weights()])
    (batch, *_) = feed
    mask = batch.blocks[CANDIDATE_MASK]
    scores = np.zeros(mask.shape)
    scores[mask] = Scorer(model).score(batch)["next"]
    blocks = HardNegatives(model, "next", 4)(batch)
    assert blocks[CANDIDATE_MASK].shape == (17, 6)
    for r in range(17):
        drawn = np.flatnonzero(batch.drawn[r])
        best = sorted(drawn, key=lambda place: -scores[r, place])[:4]
        kept = blocks[CANDIDATE_MASK][r]
        ids = blocks["candidate_ids"][r][kept]
        np.testing.assert_array_equal(ids, batch.blocks["candidate_ids"][r][[0, *best]])
        np.testing.assert_array_equal(blocks["labels"][r][kept][:, 0], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(blocks["context_ids"], batch.blocks["context_ids"])


@pytest.fixture(scope="module")
def uniform(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> list[np.ndarray]:
    output = tmp_path_factory.mktemp("uniform")
    return trained(folder, output, training__epochs=2, training__negatives={"count": 3})


@pytest.mark.thorough
@pytest.mark.parametrize(
    "by",
    [
        "popularity",
        "batch",
        "hard",
    ],
)
def test_resumed_training_ends_with_the_same_weights(
    folder: Path, tmp_path: Path, uniform: list[np.ndarray], by: str
) -> None:
    chosen = {"training__negatives": {"count": 3, "by": by}}
    whole = trained(folder, tmp_path / "whole", training__epochs=2, **chosen)
    trained(folder, tmp_path / "parts", training__epochs=1, **chosen)
    resumed = trained(folder, tmp_path / "parts", training__epochs=2, **chosen)
    for one, other in zip(whole, resumed, strict=True):
        np.testing.assert_array_equal(one, other)
    assert any((one != other).any() for one, other in zip(whole, uniform, strict=True))


def test_more_negatives_than_items_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="fewer than the 29 items"):
        trained(folder, tmp_path, training__negatives={"count": 29})
