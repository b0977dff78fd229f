"""An export has signatures of a state where its model can go on from one."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from pipelines.features import FittedFeatures
from pipelines.pretraining.export_module import NextItemModule
from recsys_attn.models import SEQUENCE_MODELS, get_sequence_model, sasrec
from recsys_attn.models.sequence_model import SequenceModel
from recsys_attn.schema import Schema
from serving.common.errors import InvalidArgument
from serving.common.request import InferenceRequest, ModelRef
from tests.serving.exports import load_model
from tests.serving.traces import trace
from tests.support.next_exports import (
    ITEMS,
    LONGEST,
    NAMES,
    drawn,
    fitted,
    histories,
    small_sasrec,
    write_next_export,
)

OF_STATES = {"start", "step", "next_items_from_state", "rank_from_state"}


def _from_end(schema: Schema) -> SequenceModel:
    return sasrec(schema, width=8)


@pytest.mark.thorough
def test_an_export_goes_on_from_a_state(tmp_path: Path) -> None:
    manifest = write_next_export(tmp_path / "next")
    assert manifest["stateful"] is True
    longest = {"history": LONGEST}
    assert manifest["state"] == {"max_events": longest, "item": "item", "filter_seen": True}
    assert set(manifest["signatures"]) > OF_STATES
    assert manifest["signatures"]["step"]["inputs"].keys() == {"item", "state"}
    assert 0 <= manifest["parity"]["max_abs_difference"] < 1e-5
    found = tf.saved_model.load(str(tmp_path / "next" / "1")).signatures
    state = found["start"](item=tf.constant(histories(["i1", "i2"], ["i7"])))["state"]
    state = found["step"](state=state, item=tf.constant(histories(["i3"], [""])))["state"]
    candidates = tf.constant(histories(["i4", "i5"], ["i6", "unknown"]))
    scores = found["rank_from_state"](state=state, candidate=candidates)["score"]
    events = tf.constant(histories(["i1", "i2", "i3"], ["i7"]))
    expected = found["rank"](item=events, candidate=candidates)["score"]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert np.isnan(np.asarray(scores)).tolist() == [[False, False], [False, True]]


def test_lists_of_other_lengths_are_an_error() -> None:
    items = fitted()
    kind = replace(items.schema["item"], name="kind")
    schema = Schema((*items.schema.features, kind), ())
    both = FittedFeatures(schema, dict.fromkeys(("item", "kind"), items.transforms["item"]))
    module = NextItemModule(drawn(small_sasrec, both), both, np.array(NAMES), ITEMS, False)
    rank = module.signatures()["rank"]
    item, shorter = (tf.constant(histories(each)) for each in (["i1", "i2"], ["i3"]))
    assert np.isfinite(rank(item=item, kind=item, candidate=shorter)["score"]).all()
    for given in ({"item": item, "kind": shorter}, {"item": shorter, "kind": item}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="not equally long"):
            rank(**given, candidate=shorter)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SEQUENCE_MODELS)
def test_a_model_with_a_second_table_exports(name: str, tmp_path: Path) -> None:
    make = partial(get_sequence_model(name), width=8, tied=False)
    manifest = write_next_export(tmp_path / "next", make=make)
    assert 0 <= manifest["parity"]["max_abs_difference"] < 1e-5


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "scores"),
    [pytest.param("sasrec", False, marks=pytest.mark.thorough), ("bert4rec", True)],
)
def test_the_manifest_says_whether_users_need_events(
    name: str, scores: bool, tmp_path: Path
) -> None:
    make = partial(get_sequence_model(name), width=8)
    manifest = write_next_export(tmp_path / "next", make=make)
    assert manifest["scores_without_events"] is scores
    model = load_model("next", 1, tmp_path / "next" / "1")
    inputs = {"item": histories([]), "candidate": histories(["i4"])}
    ask = InferenceRequest(ModelRef("next"), "rank", inputs, ("score",))
    if scores:
        assert np.abs(model.compute(ask, trace())["score"]).max() > 0.01
    else:
        with pytest.raises(InvalidArgument, match="'item': expected the events"):
            model.compute(ask, trace())


@pytest.mark.thorough
def test_the_manifest_says_why_there_is_no_state(tmp_path: Path) -> None:
    manifest = write_next_export(tmp_path / "next", make=_from_end)
    assert manifest["stateful"] is False
    assert "count from the latest event" in manifest["state"]["reason"]
    assert not OF_STATES & set(manifest["signatures"])


@pytest.mark.thorough
def test_long_histories_export(tmp_path: Path) -> None:
    """The sample has a history of ten events, of which the model sees the last five."""
    manifest = write_next_export(tmp_path / "next", features=fitted(longest=5))
    assert manifest["stateful"] is True
