"""The best epoch, early stopping and learning rates."""

from typing import Any

import keras
import numpy as np
import pytest

from pipelines.experiment.training_options import TrainingOptions
from pipelines.training.history import History
from recsys_attn.optimizers import WarmUp


def history(*aucs: float, **options: Any) -> History:
    return History([{"val_monitored": auc} for auc in aucs], TrainingOptions(**options))


def test_better_epoch_exceeds_rounding() -> None:
    assert history(0.6, 0.7, 0.65, 0.7, 0.700001, 0.71).better == [True, True, *[False] * 3, True]
    assert history(0.6, 0.7, 0.65).best == 1
    assert history().best is None


def test_end_of_training_has_a_reason() -> None:
    last = history(0.6, 0.7, epochs=2)
    assert (last.finished, last.reason) == (True, "after the last epoch (`training.epochs` = 2)")
    waited = history(0.7, 0.6, 0.6, epochs=9, fresh_tables=False)
    reason = "after 2 epochs without a better one (`training.patience`)"
    assert (waited.finished, waited.best, waited.reason) == (True, 0, reason)


def test_learning_rate_warm_up_and_decay() -> None:
    options = {
        "warmup_steps": 3,
        "learning_rate_decay": 0.5,
        "reduce_on_plateau": 0.1,
        "patience": 9,
    }
    assert [history(**options).rate(step) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    assert history(0.6, **options).rate(9) == 0.5
    assert history(0.6, 0.5, **options).rate(9) == pytest.approx(0.25 * 0.1)
    assert history(0.6, 0.5, 0.7, **options).rate(9) == pytest.approx(0.125 * 0.1)


def test_epochs_of_chance_are_waited_out() -> None:
    """No training ends, and no learning rate falls, before the first epoch that has learned."""
    aucs, learned = [0.52, 0.49, 0.48, 0.5, 0.6, 0.59], [False] * 4 + [True, False]
    epochs = [
        {"val_monitored": auc, "val_learned": each} for auc, each in zip(aucs, learned, strict=True)
    ]
    options = TrainingOptions(patience=1, reduce_on_plateau=0.1, fresh_tables=False)
    until = [History(epochs[:n], options) for n in range(1, 7)]
    assert [each.finished for each in until] == [False] * 5 + [True]
    assert [each.rate(0) for each in until] == [1.0] * 5 + [0.1]
    assert [each.overrun for each in until] == [False] * 6
    assert until[-1].best == 4
    assert History(epochs[:4], TrainingOptions(epochs=4)).finished


def test_tables_are_fresh_once_patience_has_ended() -> None:
    """Then the epochs before do not count: patience and the learning rate begin anew."""
    aucs = [0.6, 0.7, 0.69, 0.68, 0.71, 0.7, 0.7, 0.7]
    until = [history(*aucs[:n], patience=2, reduce_on_plateau=0.1) for n in range(1, 9)]
    assert [each.turn for each in until] == [None] * 3 + [3] * 5
    assert [each.finished for each in until] == [False] * 6 + [True] * 2
    rates = [each.rate(0) for each in until]
    np.testing.assert_allclose(rates, [1, 1, 0.1, 1, 1, 0.1, 0.01, 0.001])
    assert until[-1].best == 4
    plain = history(*aucs[:4], patience=2, fresh_tables=False)
    assert (plain.turn, plain.finished) == (None, True)
    assert history(*aucs[:4], patience=2, keep="last").turn is None


def test_learning_rate_follows_cosine_after_warm_up() -> None:
    options = {"warmup_steps": 3, "cosine_steps": 40}
    schedule = keras.optimizers.schedules.CosineDecay(1.0, decay_steps=40)
    expected = [float(WarmUp(schedule, warmup_steps=3)(step)) for step in range(50)]
    rates = [history(**options).rate(step) for step in range(50)]
    np.testing.assert_allclose(rates, expected, atol=1e-6)
    assert rates[3] == 1
    assert rates[43:] == [0] * 7


def test_last_epoch_is_kept_where_it_is_asked_for() -> None:
    kept = history(0.7, 0.6, 0.5, 0.4, epochs=9, keep="last", patience=1)
    assert (kept.best, kept.finished, kept.rate(0)) == (3, False, 1.0)


@pytest.mark.parametrize(
    ("warmup", "factors"),
    [((0, 0), [1, 1, 1, 1, 1]), ((1, 4), [0, 0, 1 / 3, 2 / 3, 1]), ((2, 2), [0, 0, 1, 1, 1])],
)
def test_penalties_grow_between_two_steps(warmup: tuple[int, int], factors: list[float]) -> None:
    options = {"penalty_warmup": warmup}
    assert [history(**options).penalty(step) for step in range(5)] == pytest.approx(factors)


def test_penalties_that_shrink_are_refused() -> None:
    with pytest.raises(ValueError, match=r"penalty_warmup=\[5, 2\]"):
        TrainingOptions(penalty_warmup=(5, 2))


def of_noise(*pairs: tuple[float, float], **options: Any) -> History:
    """Epochs of a monitored number, and the standard error of its difference to the best."""
    epochs = [{"val_monitored": value, "val_noise": noise} for value, noise in pairs]
    return History(epochs, TrainingOptions(**{"fresh_tables": False, **options}))


def test_epochs_level_within_noise_count_half() -> None:
    best, level, worse = (0.7, 0.0), (0.695, 0.01), (0.685, 0.01)
    assert not of_noise(best, level, worse).finished
    assert not of_noise(best, level, level, level).finished
    ended = of_noise(best, level, worse, level)
    assert (ended.finished, ended.best, ended.waited) == (True, 0, 2)
    reason = "after 3 epochs without a better one, 2 of them level with it within noise"
    assert ended.reason == f"{reason} (`training.patience`)"
    assert of_noise(best, worse, worse).finished


def test_better_epoch_within_noise_is_kept() -> None:
    gain = of_noise((0.7, 0.0), (0.69, 0.01), (0.69, 0.01), (0.701, 0.01))
    assert (gain.best, gain.waited) == (3, 0)


def test_learning_rate_falls_after_level_epochs() -> None:
    assert of_noise((0.7, 0.0), (0.69, 0.01), reduce_on_plateau=0.1).rate(9) == pytest.approx(0.1)


def test_tables_are_learned_anew_after_level_epochs_too() -> None:
    epochs = [(0.7, 0.0), (0.695, 0.01), (0.695, 0.01)]
    assert of_noise(*epochs[:2], fresh_tables=True).turn is None
    assert of_noise(*epochs, fresh_tables=True).turn == 2
    ended = of_noise(*epochs, *epochs[1:], (0.69, 0.001), fresh_tables=True)
    assert (ended.waited, ended.finished) == (2, True)
