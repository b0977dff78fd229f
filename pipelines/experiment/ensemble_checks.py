"""Checks of an ensemble: what has no effect on it, or cannot be done with it."""

from __future__ import annotations

from pipelines.experiment.evaluation_options import EvaluationOptions
from pipelines.experiment.model_options import EnsembleOptions, ModelOptions
from pipelines.experiment.training_options import TrainingOptions

_AT_END = {"calibrate"}  # of the keys of `training`, those that act on the trained model
_SEEDS = range(2**32)
_STARTS = ("prune", "warm_start")


def check_ensemble(
    model: ModelOptions, training: TrainingOptions, evaluation: EvaluationOptions
) -> None:
    """Checks that nothing is set that an ensemble has not.

    Raises:
        ValueError: Such a key is set, or a seed is there twice.
    """
    if not model.is_ensemble:
        return
    if isinstance(model, EnsembleOptions):
        _check_nothing_trains(model, training)
    else:
        if len(set(model.seeds)) < len(model.seeds) or not all(
            seed in _SEEDS for seed in model.seeds
        ):
            raise ValueError(
                f"`model.seeds` are those of different trainings: expected different numbers from "
                f"0 to {_SEEDS[-1]:,}. Received: {list(model.seeds)}"
            )
        wrong = [f"`training.{key}`" for key in _STARTS if getattr(training, key) is not None]
        if wrong:
            raise ValueError(
                f"{' and '.join(wrong)} start from one model, and `model.seeds` trains several. "
                "Remove one of them, or make such runs one by one and name them in "
                '`model = { name = "ensemble", runs = [...] }`'
            )
    if evaluation.layer_wise_relevance:
        raise ValueError(
            "`evaluation.layer_wise_relevance` is for one model, and this is an ensemble, whose "
            "members have relevance each. Remove it, and evaluate a member with it"
        )


def _check_nothing_trains(model: EnsembleOptions, training: TrainingOptions) -> None:
    """Checks that no key of a training is set."""
    unused = [f"`model.{key}`" for key in ("encoder_from", "seeds") if getattr(model, key)]
    unused += [
        f"`training.{key}`"
        for key, field in TrainingOptions.model_fields.items()
        if key not in _AT_END and getattr(training, key) != field.default
    ]
    if unused:
        raise ValueError(
            f"The members of an ensemble are trained already, and {', '.join(unused)} would have "
            "no effect. Leave them out here (all of them: `--set training={}`), and set them "
            "in the runs that `model.runs` names"
        )
