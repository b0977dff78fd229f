"""Every model is exported with the scores of its training path, and audited."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from pipelines.audit.attention import audit_attention
from pipelines.audit.relevance import relevance
from pipelines.export.raw_inputs import raw_request
from pipelines.features import FittedFeatures
from pipelines.feed.chunk import transform
from pipelines.scoring.scorer import Scorer
from recsys_attn import models
from recsys_attn.models import RankingModel
from recsys_attn.schema import Schema, Task
from tests.support import shop, small_models
from tests.support.exports import call, split_requests, write_export

TASKS = (Task("click"), Task("buy", label="bought"))
pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def fitted() -> FittedFeatures:
    features = tuple(
        replace(each, size=None) if hasattr(each, "size") else each
        for each in small_models.SCHEMA.features
    )
    return shop.fitted(Schema(features, TASKS))


@pytest.fixture(scope="module", params=sorted(models.MODELS))
def model(request: pytest.FixtureRequest, fitted: FittedFeatures) -> RankingModel:
    return shop.randomised(
        models.get(request.param)(fitted.schema, **small_models.SMALL[request.param])
    )


def test_the_export_scores_and_explains_as_the_model(
    model: RankingModel, fitted: FittedFeatures, tmp_path: Path
) -> None:
    write_export(tmp_path / "3", model, fitted)
    loaded = tf.saved_model.load(str(tmp_path / "3"))
    table = shop.table(7, seed=9, unknown=True, schema=fitted.schema)
    expected = Scorer(model).score_table(table, fitted, "request")
    requests = [raw_request(fitted.schema, each) for each in split_requests(table)]
    found = [call(loaded, "rank", request) for request in requests]
    for task, scores in expected.items():
        ranked = np.concatenate([each[task][0] for each in found])
        np.testing.assert_allclose(ranked, scores, rtol=0, atol=1e-5)
    assert bool(model.explanations) == ("rank_explained" in loaded.signatures)
    if model.explanations:
        outputs = loaded.signatures["rank_explained"].structured_outputs
        assert set(model.explanations) <= set(outputs)


def test_the_audits_have_finite_numbers(model: RankingModel, fitted: FittedFeatures) -> None:
    table = shop.table(9, seed=4, schema=fitted.schema)
    clusters = table["request"].to_numpy()
    tasks = relevance(model, table, fitted, clusters)
    assert tasks.keys() == {"click", "buy"}
    for entry in tasks.values():
        shares = entry["kinds"]["fields"]["shares"]
        assert {"leave_one_out", "gradient_times_input", "integrated_gradients"} <= shares.keys()
        assert np.isfinite([list(each) for each in shares.values()]).all()
    labels = {task.name: table[task.label or task.name].to_numpy().astype(float) for task in TASKS}
    untrained = type(model).from_config(model.get_config())
    chunk = transform(table, fitted, "request", labelled=False)
    found: dict[str, Any] = audit_attention(model, untrained, chunk, labels, clusters)
    json.dumps({**found, "gates": sorted(found["gates"])})
    for place in found["places"]:
        if "map" in place:
            count = len(place["fields"])
            assert np.shape(place["map"])[1:] == (count, count)
