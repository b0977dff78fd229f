"""Training: deterministic, on known labels only, with the best weights."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from pipelines.common.errors import PipelineError
from pipelines.features import FittedFeatures
from pipelines.feed import Feed
from pipelines.metrics import auc
from pipelines.scoring.scorer import Scorer
from pipelines.storage.dataset import DataSplit
from pipelines.training import check_model
from pipelines.training.dead_units import dead_tasks
from recsys_attn.models import RankingModel
from recsys_attn.schema import RESERVED_IDS, Task
from tests.pipelines.training.trainer import MLP, Trainer
from tests.support.experiments import load

MASKED = (Task("click"), Task("conversion", mask="counts"))
# So fast, and without what keeps it from it, that it overfits within a few epochs.
FAST = {
    "training__learning_rate": 0.1,
    "training__batch_size": 31,
    "training__embeddings_l2": 0.0,
}


def scores_of(trainer: Trainer, model: RankingModel, split: str) -> tuple[dict, dict]:
    """The labels and scores of a split."""
    data = DataSplit((trainer.data or trainer.prepared / "data") / split)
    fitted = FittedFeatures(model.schema, trainer.fitted.transforms)
    return Scorer(model).score_labelled(
        Feed(data, fitted, "request_id", FAST["training__batch_size"])
    )


@pytest.mark.thorough
def test_the_seed_decides_the_weights(trainer: Trainer) -> None:
    """Initial weights, the order of the rows and dropout follow from the seed."""
    once = {"model": {**MLP, "dropout": 0.2}, "training__epochs": 1}
    first, one = trainer(run="1", **once), trainer.history
    second, two = trainer(run="2", **once), trainer.history
    other = trainer(run="3", **once, seed=4)
    for before, after in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    assert _without_speed(one) == _without_speed(two)
    (before, *_), (after, *_) = first.embedding.get_weights(), other.embedding.get_weights()
    assert not np.allclose(before, after)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "options",
    [
        {"training__epochs": 7, "training__patience": 2, "training__fresh_tables": False},
        {"training__epochs": 6, "training__patience": 9},
        {
            "training__epochs": 7,
            "training__patience": 2,
            "training__fresh_tables": False,
            "training__monitor": "conversion",
        },
    ],
    ids=["stops early", "runs to the end", "one task decides"],
)
def test_the_weights_are_those_of_the_best_epoch(trainer: Trainer, options: dict) -> None:
    model, history = trainer(**FAST, **options), trainer.history
    key = "val_conversion_auc" if "training__monitor" in options else "val_monitored"
    best = int(np.argmax([epoch[key] for epoch in history]))
    assert best < len(history) - 1  # the last epoch is worse: something had to be restored
    epochs, patience = options["training__epochs"], options["training__patience"]
    waited = len(history) - best - 1  # epochs level with the best count half
    assert patience <= waited <= 2 * patience or len(history) == epochs
    labels, scores = scores_of(trainer, model, "valid")
    for task, label in labels.items():
        known = ~np.isnan(label)
        found = auc(label[known], scores[task][known])
        np.testing.assert_allclose(found, history[best][f"val_{task}_auc"], rtol=1e-9)


def test_unknown_labels_change_nothing(trainer: Trainer) -> None:
    """Whatever stands behind a mask, and whether the label is masked or null."""
    weights = {}
    for variant in ("as it is", "changed", "known"):
        trainer.data = _masked(trainer, variant)
        model = trainer(MASKED, variant)
        weights[variant] = [v.numpy() for v in model.trainable_variables]
    for before, after in zip(weights["as it is"], weights["changed"], strict=True):
        np.testing.assert_array_equal(before, after)
    assert not np.allclose(weights["as it is"][0], weights["known"][0])


def test_tables_start_with_the_given_deviation(trainer: Trainer) -> None:
    """In a step too small to change anything."""
    still = {"training__learning_rate": 1e-30, "training__epochs": 1}
    model = trainer((Task("click"),), **still, training__embeddings_stddev=0.3)
    rows = np.asarray(model.embedding.vectors("user_id"))[RESERVED_IDS:]
    np.testing.assert_allclose(rows.std(), 0.3, rtol=0.1)


def test_loss_is_the_weighted_sum_of_tasks_and_penalty(trainer: Trainer) -> None:
    """In one batch, with a step too small to change anything."""
    still = {
        "training__batch_size": 10_000,
        "training__learning_rate": 1e-30,
        "training__optimizer": "sgd",
        "training__epochs": 1,
        "training__embeddings_l2": 1.0,
        "training__calibrate": False,
    }
    tasks = (Task("click", weight=0.5), Task("conversion", weight=3.0))
    model, history = trainer(tasks, **still), trainer.history
    labels, scores = scores_of(trainer, model, "train")
    losses = {}
    for task, label in labels.items():
        known = ~np.isnan(label)
        label, score = label[known], scores[task][known].astype("float64")
        losses[task] = -np.mean(label * np.log(score) + (1 - label) * np.log1p(-score))
    penalty = float(sum(model.losses))
    assert penalty > 0.01
    expected = 0.5 * losses["click"] + 3.0 * losses["conversion"] + penalty
    np.testing.assert_allclose(history[0]["loss"], expected, rtol=1e-5)


def test_ranking_loss_is_monitored_by_what_it_teaches(trainer: Trainer) -> None:
    """NDCG decides unless another metric is monitored, and there is no logloss."""
    tasks = (Task("click", loss="softmax"), Task("conversion"))
    model, history = trainer(tasks, "ndcg", **FAST), trainer.history
    assert model.schema.tasks == tasks
    for epoch in history:
        assert "val_click_logloss" not in epoch
        both = epoch["val_click_ndcg@10"], epoch["val_conversion_auc"]
        assert epoch["val_monitored"] == np.mean(both)
    kept = next(line for line in trainer.output.getvalue().splitlines() if "kept" in line)
    assert ": mean of NDCG@10 (click), AUC (conversion) " in kept
    trainer(tasks, "mrr", **FAST, training__monitor="click/mrr@2")
    assert all(epoch["val_monitored"] == epoch["val_click_mrr@2"] for epoch in trainer.history)


def test_bfloat16_trains_in_mixed_precision(trainer: Trainer) -> None:
    model, history = trainer(training__precision="mixed_bfloat16"), trainer.history
    assert keras.config.dtype_policy().name == "float32"
    assert all(np.isfinite(epoch["loss"]) for epoch in history)
    assert history[1]["loss"] < history[0]["loss"]
    assert {str(weight.dtype) for weight in model.trainable_variables} == {"float32"}
    assert "mixed_bfloat16" in {layer.dtype_policy.name for layer in model._flatten_layers()}


def test_output_of_a_training(trainer: Trainer) -> None:
    trainer()
    history = trainer.history
    (events,) = (trainer.folder / "tensorboard").iterdir()
    for tag in ("loss", "val_click_auc", "rows_per_second", "input_wait"):
        assert tag.encode() in events.read_bytes()
    lines = trainer.output.getvalue().splitlines()
    first = history[0]
    assert lines[:3] == [
        f"  epoch 1/2  loss {first['loss']:.4f}  {first['rows_per_second']:,.0f} rows/s",
        *(
            f"    {task:10}  validation AUC {first[f'val_{task}_auc']:.4f}  "
            f"logloss {first[f'val_{task}_logloss']:.4f}  "
            f"NDCG@10 {first[f'val_{task}_ndcg@10']:.4f}"
            for task in ("click", "conversion")
        ),
    ]
    best = max(range(2), key=lambda epoch: history[epoch]["val_monitored"])
    assert lines[6:8] == [
        f"  kept epoch {best + 1} of 2: weighted AUC {history[best]['val_monitored']:.4f} "
        "is the best on the validation rows",
        "  stopped after the last epoch (`training.epochs` = 2)",
    ]
    assert max(map(len, lines[:8])) < 80
    assert lines[8:] == [
        f"  {sentence}" for sentence in dead_tasks([Task("click"), Task("conversion")], history)
    ]


def test_divergence_is_an_error(trainer: Trainer) -> None:
    message = r"Training diverged: loss nan in epoch 1. Lower `training.learning_rate`."
    with pytest.raises(PipelineError, match=message):
        trainer(training__learning_rate=1e30)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"width": 0}, "`model.width`: expected a positive integer. Received: 0"),
        ({"encoder_layers": 2}, "`model.encoder_layers` is now `encoder = { num_layers = 2 }`"),
        (
            {"encoder": {"name": "gru", "context": {"how": "keys"}}},
            "`model.encoder.context.features` is missing",
        ),
        (
            {"encoder": {"name": "gru", "context": {"features": ["user_id"], "how": "keys"}}},
            "cannot be built: `encoder.context` with .* has no attention",
        ),
        ({"tower_units": [4, 0]}, "`model.tower_units`: expected a list of positive integers"),
        (
            {"name": "mmoe", "gate": "both", "experts": {"gate_attention": "performer"}},
            "Linear cannot honour",
        ),
        ({"name": "din", "exclude": ["clicked_items"]}, "din needs a history"),
    ],
    ids=str,
)
def test_invalid_model_is_refused_before_any_work(
    tmp_path: Path, model: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        check_model(load(tmp_path, model=model))
    assert ".." not in str(caught.value)


@pytest.mark.thorough
def test_training_reaches_the_context_of_an_encoder(trainer: Trainer) -> None:
    context = {"features": ["user_id"], "how": "keys"}
    options: dict[str, Any] = {"name": "din", "width": 4, "mlp_units": [4]}
    options["encoder"] = {"name": "transformer", "context": context}
    model = trainer(model=options, training__epochs=1)
    start = trainer(
        run="start",
        model=options,
        training__epochs=1,
        training__learning_rate=1e-9,
        training__embeddings_learning_rate=1e-9,
    )
    apart = [
        float(np.abs(np.asarray(after) - np.asarray(before)).max())
        for after, before in zip(model.trainable_weights, start.trainable_weights, strict=True)
        if "context_heads" in after.path and "kernel" in after.name
    ]
    assert apart
    assert min(apart) > 1e-5


def _masked(trainer: Trainer, variant: str) -> Path:
    """The prepared data with a mask `counts`, and conversions where it is false as they are.

    Or changed: half of them are flipped there, the others null. Or they are known after all.
    """
    folder = trainer.folder / f"data {variant}"
    for split in ("train", "valid"):
        table = pq.read_table(trainer.prepared / "data" / split / "part-00000.parquet")
        rng = np.random.default_rng(5)
        counts, flipped = (rng.random(table.num_rows) < 0.5 for _ in range(2))
        label = pc.fill_null(table["conversion"], 0).to_numpy()
        hidden = None
        if variant == "changed":
            label = np.where(~counts & flipped, 1 - label, label)
            hidden = ~counts & ~flipped
        table = table.drop_columns("conversion")
        table = table.append_column("conversion", pa.array(label, pa.int8(), mask=hidden))
        table = table.append_column("counts", pa.array(counts | (variant == "known")))
        (folder / split).mkdir(parents=True)
        pq.write_table(table, folder / split / "part-00000.parquet")
    return folder


def _without_speed(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    timed = {"seconds", "rows_per_second", "input_wait"}
    return [{k: v for k, v in epoch.items() if k not in timed} for epoch in history]


def test_training_names_features_that_nothing_reads(
    trainer: Trainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RankingModel, "unread", ("segment",))
    trainer(training__epochs=1)
    lines = trainer.output.getvalue().splitlines()
    assert "'segment' is read by nothing in mlp" in lines[0]
    assert [line for line in lines if "encoder.positions" in line] == [lines[0]]
