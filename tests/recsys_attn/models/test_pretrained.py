"""Ranking models with the encoder of a trained sequence model."""

from __future__ import annotations

import json
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from recsys_attn.models import RankingModel, SequenceModel, deepfm, din, fm, sasrec
from recsys_attn.models.encoded_history import EncodedHistory
from recsys_attn.models.encoders import stack
from recsys_attn.models.histories import MeanHistory
from recsys_attn.models.pretrained import GAIN, copy_rows, with_encoder
from recsys_attn.schema import Categorical, Schema, Sequence, Task
from tests.support.arrays import normal


def test_gain_is_a_factor_of_the_encoded_events() -> None:
    """Of their mean too, which is linear; and it is learned."""
    query, events = normal((2, 3, 8), (2, 5, 8))
    present = np.array([[True] * 5, [True] * 3 + [False] * 2])
    plain, scaled = (
        EncodedHistory(stack("transformer", 2, 2, 4), MeanHistory(), gain=g) for g in (None, 0.3)
    )
    expected = ops.convert_to_numpy(plain(query, events, present))
    scaled(query, events, present)
    scaled.encoder.set_weights(plain.encoder.get_weights())
    found = ops.convert_to_numpy(scaled(query, events, present))
    np.testing.assert_allclose(found, 0.3 * expected, rtol=1e-5, atol=1e-6)
    assert [v.name for v in scaled.trainable_variables].count("gain") == 1
    assert len(scaled.weights) == len(plain.weights) + 1


def ranker() -> tuple[RankingModel, SequenceModel]:
    trained = sasrec(Schema((Sequence("item", size=9, max_length=5),), ()), width=8)
    item, seen = Categorical("item", size=9), Sequence("seen", shares="item", max_length=5)
    model = din(Schema((item, seen), (Task("click"),)), width=8, mlp_units=(4,))
    return with_encoder(model, trained, "history"), trained


@pytest.mark.parametrize("build", [fm, deepfm])
def test_a_model_with_linear_terms_takes_no_encoder(build: Any) -> None:
    """The first numbers of its rows are no vectors; of width 7 they are as wide as an event."""
    _, trained = ranker()
    item, seen = Categorical("item", size=9), Sequence("seen", shares="item", max_length=5)
    model = build(Schema((item, seen), (Task("click"),)), width=7)
    with pytest.raises(ValueError, match="weights of linear terms beside the vectors"):
        with_encoder(model, trained, "history")


def test_encoder_has_the_trained_weights_behind_a_small_factor() -> None:
    model, trained = ranker()
    history = model.tower.histories["history"]
    for one, other in zip(
        history.encoder.get_weights(), trained.encoder.get_weights(), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_allclose(ops.convert_to_numpy(history.factor), GAIN, rtol=1e-6)


def test_a_frozen_part_is_frozen_in_a_copy_and_the_rest_is_not() -> None:
    """Also what its layers make themselves, of which no config says so."""
    model, _ = ranker()
    model.tower.histories["history"].encoder.trainable = False
    config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
    copy = keras.saving.deserialize_keras_object(config)
    encoder = copy.tower.histories["history"].encoder
    assert not any(v.trainable for v in encoder.variables)
    assert len(copy.trainable_variables) == len(model.trainable_variables)
    encoder.trainable = True
    assert len(copy.trainable_variables) > len(model.trainable_variables)


def test_rows_of_an_unknown_sequence_are_refused() -> None:
    item, seen = Categorical("item", size=9), Sequence("seen", shares="item")
    model = din(Schema((item, seen), (Task("click"),)), width=8)
    with pytest.raises(ValueError, match=r"`sequence` must be a feature with a table.*'sean'"):
        copy_rows(model, "sean", np.array([2]), np.ones((1, 8)))
