"""Settings that have no effect on an ensemble are errors that name them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.common.errors import PipelineError
from pipelines.experiment.model_options import EnsembleOptions
from tests.support.experiments import load

RUNS = {"name": "ensemble", "runs": ["runs/a", "runs/b"]}


def test_runs_and_seeds_make_an_ensemble(tmp_path: Path) -> None:
    of_runs = load(tmp_path, model=RUNS, training={}).model
    assert isinstance(of_runs, EnsembleOptions)
    assert of_runs.runs == (Path("runs/a"), Path("runs/b"))
    of_seeds = load(tmp_path, model={"name": "mlp", "seeds": [3, 5]}).model
    assert (of_seeds.seeds, "seeds" in of_seeds.arguments) == ((3, 5), False)
    alone = load(tmp_path).model
    assert (of_runs.is_ensemble, of_seeds.is_ensemble, alone.is_ensemble) == (True, True, False)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (RUNS, {"training__epochs": 3}, "trained already, and `training.epochs`"),
        (RUNS, {"training__warm_start": "runs/c"}, "`training.warm_start` would have no effect"),
        ({**RUNS, "seeds": [3]}, {}, "`model.seeds` would have no effect"),
        ({**RUNS, "width": 8}, {}, "`model.width` is not a known key"),
        ({"name": "ensemble"}, {}, "`model.runs` is missing"),
        ({**RUNS, "runs": []}, {}, "a list of at least 1"),
        ({"name": "mlp", "seeds": [3, 3]}, {}, "expected different numbers"),
        ({"name": "mlp", "seeds": [3, -1]}, {}, "different numbers from 0"),
        (
            {"name": "mlp", "seeds": [3, 5]},
            {"training__warm_start": "runs/c"},
            "`training.warm_start` start from one model",
        ),
        (RUNS, {"evaluation": {"layer_wise_relevance": True}}, "members have relevance each"),
    ],
)
def test_what_an_ensemble_has_not_is_refused(
    tmp_path: Path, model: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(PipelineError, match=message):
        load(tmp_path, model=model, training={}, **options)
