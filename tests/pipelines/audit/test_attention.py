"""The audit of whole models: records, removal, and what training has and has not taught."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from pipelines.audit.attention import audit_attention
from pipelines.audit.recorder import RAREST, Recorder
from pipelines.audit.removal import WithoutHeads
from pipelines.feed.chunk import Chunk, transform
from recsys_attn.attention.mechanisms import Mechanism
from recsys_attn.models import RankingModel, attention_ranker
from recsys_attn.models.attention_places import AttentionPlace
from tests.pipelines.audit import planted

USERS = "user"
TARGET = AttentionPlace("target_attention", "history")


@keras.saving.register_keras_serializable(package="tests")
class Previous(Mechanism):
    """Each event attends the one before it."""

    honours = ("query_mask", "key_mask")

    @property
    def returns_weights(self) -> bool:
        return True

    def call(self, query: Any, key: Any, value: Any, masks: Any) -> Any:
        length = key.shape[1]
        shape = (ops.shape(query)[0], query.shape[2], length, length)
        weights = ops.broadcast_to(ops.eye(length, k=-1), shape)
        if masks.key is not None:
            weights = weights * ops.cast(masks.key, weights.dtype)[:, None, None]
        return ops.einsum("bnts,bsnv->btnv", weights, value), weights


@pytest.fixture(scope="module")
def rows() -> Any:
    return planted.table()


@pytest.fixture(scope="module")
def fitted(rows: Any) -> Any:
    return planted.fitted(rows)


@pytest.fixture(scope="module")
def chunk(rows: Any, fitted: Any) -> Chunk:
    return transform(rows, fitted, USERS, labelled=False)


@pytest.fixture(scope="module")
def flagship(fitted: Any) -> RankingModel:
    keras.utils.set_random_seed(1)
    return attention_ranker(
        fitted.schema,
        encoder="transformer",
        target_attention={"name": "transformer", "num_heads": 2},
        width=8,
        interaction={"num_layers": 1},
        experts={"number": 3, "units": (8,)},
    )


def test_records_are_the_weights_of_explain(flagship: RankingModel, chunk: Chunk) -> None:
    for batch, records, gates in Recorder(flagship, chunk).batches():
        _, explained = flagship.explain(batch.inputs)
        (target,) = [each for each in records if each.place == TARGET]
        events = np.asarray(explained["attention/history"])
        there = np.argsort(batch.inputs["seen"] == 0, axis=1, kind="stable")
        ordered = np.take_along_axis(events, there[:, None], axis=2)
        mask = batch.blocks["candidate_mask"]
        np.testing.assert_allclose(target.shares.mean(axis=1)[mask], ordered[mask], atol=1e-6)
        np.testing.assert_allclose(gates["buy"], explained["gate/buy"], atol=1e-6)


def test_relations_of_events_are_those_of_their_ids(flagship: RankingModel, chunk: Chunk) -> None:
    seen = [each for _, records, _ in Recorder(flagship, chunk).batches() for each in records]
    batches = [batch for batch, _, _ in Recorder(flagship, chunk).batches()]
    (batch,) = batches
    counts = np.bincount(batch.inputs["seen"].ravel())
    (encoder,) = [each for each in seen if each.place.kind == "encoder"]
    (target,) = [each for each in seen if each.place == TARGET]
    for request in range(batch.requests):
        ids = [i for i in batch.inputs["seen"][request] if i]
        for event, own in enumerate(ids):
            rare = counts[own] == min(counts[i] for i in ids)
            assert target.relations[RAREST][request, 0, event] == rare
            same = target.relations["same item"][request, :, event]
            np.testing.assert_array_equal(same, batch.inputs["item"][request] == own)
            for query, other in enumerate(ids):
                like = own == other and query != event
                assert encoder.relations["same item"][request, query, event] == like


@pytest.mark.thorough
def test_without_a_head_is_a_gate_of_zero(flagship: RankingModel, chunk: Chunk) -> None:
    place = AttentionPlace("interaction")
    score = WithoutHeads(flagship, chunk, {place: 2, TARGET: 2})
    whole, without, none = score({}), score({place: [1]}), score({place: [0, 1], TARGET: [0, 1]})
    (batch,) = [batch for batch, _, _ in Recorder(flagship, chunk).batches()]
    mask = batch.blocks["candidate_mask"]
    expected = np.asarray(flagship.probabilities(batch.inputs)["click"])[mask]
    np.testing.assert_allclose(whole["click"], expected, atol=1e-6)
    layer = flagship.tower.interaction.autoint.layers[0]
    size, kernel = 32, layer.kernel.numpy()
    changed = kernel.copy()
    start = 2 * 2 * size + size  # after queries and keys, the values of the second head
    changed[:, start : start + size] = 0
    layer.kernel.assign(changed)
    expected = np.asarray(flagship.probabilities(batch.inputs)["click"])[mask]
    layer.kernel.assign(kernel)
    np.testing.assert_allclose(without["click"], expected, atol=1e-6)
    assert np.abs(none["click"] - without["click"]).max() > 1e-6


@pytest.mark.thorough
def test_an_untrained_model_has_no_function(
    flagship: RankingModel, rows: Any, chunk: Chunk
) -> None:
    keras.utils.set_random_seed(2)
    other = type(flagship).from_config(flagship.get_config())
    labels = {"click": np.arange(len(rows)) % 2.0, "buy": np.full(len(rows), np.nan)}
    users = rows[USERS].to_numpy()
    found = audit_attention(flagship, other, chunk, labels, users)
    assert [place["place"] for place in found["places"]] == [
        "encoder 1 of history",
        "target attention of history",
        "interaction 1",
        "gate",
    ]
    for place in found["places"]:
        for head in place["heads"] if place["kind"] != "gate" else ():
            assert not any(each["learned"] for each in head["functions"]), place["place"]
            assert head["lost"]["buy"] is None
            assert len(head["lost"]["click"]) == 3
    assert set(found["gates"]) == {"click", "buy"}
    assert np.allclose(found["gates"]["click"].sum(axis=1), 1, atol=1e-5)


def test_a_planted_head_of_the_event_before_is_found(fitted: Any, rows: Any, chunk: Chunk) -> None:
    made = {
        name: attention_ranker(
            fitted.schema,
            width=8,
            encoder={"name": encoder, "positions": "none"},
            experts={"units": (8,)},
        )
        for name, encoder in (("planted", Previous()), ("untrained", "transformer"))
    }
    labels = {"click": np.arange(len(rows)) % 2.0}
    found = audit_attention(
        made["planted"], made["untrained"], chunk, labels, rows[USERS].to_numpy()
    )
    encoder = found["places"][0]
    assert encoder["kind"] == "encoder"
    for head in encoder["heads"]:
        names = {each["name"] for each in head["functions"] if each["learned"]}
        assert names == {"the event before"}


def test_like_events_get_the_weight_and_their_loss_is_felt(rows: Any, fitted: Any) -> None:
    model = planted.model(fitted)
    chunk = transform(rows, fitted, None, labelled=False)
    inputs = chunk.layout.inputs({**chunk.blocks, "candidate_mask": None})
    inputs = {"item": inputs["item"][:, None], "seen": inputs["seen"]}
    like = planted.like_events(inputs).sum(axis=1)
    labels = {"click": (like > np.median(like)).astype(float)}
    keras.utils.set_random_seed(0)
    untrained = type(model).from_config(model.get_config())
    found = audit_attention(model, untrained, chunk, labels, np.arange(len(rows)) * 1.0)
    (place,) = found["places"]
    shares = {each["name"]: each for each in place["events"]}
    assert shares["same item"]["lift"][0] > 2
    (head,) = place["heads"]
    value, low, _ = head["lost"]["click"]
    assert value == pytest.approx(0.5, abs=0.02)
    assert low > 0.3
