"""From a state, event by event, scores are those of the whole pass over the same events."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from pipelines.export.packed_state import fingerprint
from pipelines.pretraining.export_module import NextItemModule
from pipelines.pretraining.state_module import StateModule, why_stateless
from recsys_attn.id_transforms import Age
from recsys_attn.models import bert4rec, hstu, sasrec, sequence_encoder
from recsys_attn.models.sequence_model import SequenceModel
from recsys_attn.schema import Schema, Sequence
from tests.support.next_exports import ITEMS, LONGEST, NAMES, drawn, fitted, histories

# What one test traces, the next ones call.
pytestmark = pytest.mark.xdist_group("pipelines/pretraining/test_state_module.py")
ROWS = [
    ["i3", "i1", "i4", "i1", "i5"],
    ["i2", "unknown", "i7"],
    ["i1"],
    [],
    ["i9", "", "i8", "unknown", "i0", "i28", "i5"],
]
LONG = [[f"i{(n * k) % 29}" for n in range(17)] for k in (1, 2, 3, 5, 7)]
CANDIDATES = np.array([["i1", "i28", "i7"]] * len(ROWS), object)


def _one_block(schema: Schema) -> SequenceModel:
    return sasrec(schema, width=8, num_layers=1, num_heads=2, positions="rotary")


def _rotary(schema: Schema) -> SequenceModel:
    return sasrec(schema, width=8, num_layers=2, num_heads=2, positions="rotary")


def _counted(schema: Schema) -> SequenceModel:
    positions = {"class_name": "learned", "config": {"from_end": False}}
    return sasrec(schema, width=8, positions=positions, dropout=0.5)


def _untied(schema: Schema) -> SequenceModel:
    return sequence_encoder(schema, width=8, encoder={"name": "gru", "num_layers": 2}, tied=False)


def _linear(schema: Schema) -> SequenceModel:
    encoder = {"class_name": "linear_transformer", "config": {"causal": True}}
    positions = {"class_name": "learned", "config": {"from_end": False}}
    options = {"name": encoder, "num_layers": 2, "positions": positions}
    return sequence_encoder(schema, width=8, encoder=options)


def _segments(schema: Schema) -> SequenceModel:
    """Transformer-XL, whose memory does not hold all earlier events."""
    encoder = {"class_name": "segments", "config": {"segment": 2, "memory": 3}}
    return sequence_encoder(schema, width=8, encoder={"name": encoder, "num_layers": 2})


def _hstu(schema: Schema) -> SequenceModel:
    """HSTU's attention, without times."""
    encoder = {"class_name": "hstu", "config": {"pattern": "causal"}}
    return sequence_encoder(schema, width=8, encoder={"name": encoder, "num_layers": 2})


THOROUGH_UNTIED = pytest.param(_untied, marks=pytest.mark.thorough)
THOROUGH_LINEAR = pytest.param(_linear, marks=pytest.mark.thorough)
THOROUGH_SEGMENTS = pytest.param(_segments, marks=pytest.mark.thorough)
OTHERS = (_counted, _untied, _linear, _segments, _hstu)
CAUSAL = [_rotary, *(pytest.param(make, marks=pytest.mark.thorough) for make in OTHERS)]


@functools.cache
def _functions(make: Callable[[Schema], SequenceModel], seed: int = 3) -> dict[str, Any]:
    features = fitted()
    model = drawn(make, features, seed)
    assert why_stateless(model) is None
    module = NextItemModule(model, features, np.array(NAMES), ITEMS, False)
    return module.signatures() | StateModule(model, module).signatures()


def _scores(functions: dict[str, Any], rows: list[list[str]]) -> np.ndarray:
    found = functions["rank"](item=_tensor(rows), candidate=tf.constant(CANDIDATES))
    return np.asarray(found["score"])


def _scores_of(functions: dict[str, Any], state: tf.Tensor) -> np.ndarray:
    found = functions["rank_from_state"](state=state, candidate=tf.constant(CANDIDATES))
    return np.asarray(found["score"])


def _tensor(rows: list[list[str]]) -> tf.Tensor:
    return tf.constant(histories(*rows))


@pytest.mark.parametrize("make", CAUSAL)
def test_scores_of_a_state_are_those_of_the_history(make: Callable[..., Any]) -> None:
    functions = _functions(make)
    state = functions["start"](item=_tensor([[] for _ in ROWS]))["state"]
    for t in range(max(map(len, ROWS))):
        so_far = [row[: t + 1] for row in ROWS]
        state = functions["step"](state=state, item=_tensor([row[t : t + 1] for row in ROWS]))
        state = state["state"]
        expected = _scores(functions, so_far)
        np.testing.assert_allclose(_scores_of(functions, state), expected, atol=1e-5)
        whole = functions["start"](item=_tensor(so_far))["state"]
        np.testing.assert_allclose(_scores_of(functions, whole), expected, atol=1e-5)
    first, last = [row[:2] for row in ROWS], [row[2:] for row in ROWS]
    assert np.ptp(_scores(functions, ROWS) - _scores(functions, first)) > 0.01, "events matter"
    state = functions["start"](item=_tensor(first))["state"]
    state = functions["step"](state=state, item=_tensor(last))["state"]
    np.testing.assert_allclose(
        _scores_of(functions, state), _scores(functions, ROWS), atol=1e-5, err_msg="in two pieces"
    )


def test_next_items_of_a_state_are_those_of_the_history() -> None:
    functions = _functions(_rotary)
    exclude = tf.constant(histories(["i1"], [], ["i2", "i3"], [], ["unknown"]))
    state = functions["start"](item=_tensor(ROWS))["state"]
    found = functions["next_items_from_state"](state=state, exclude=exclude)
    expected = functions["next_items"](item=_tensor(ROWS), exclude=exclude)
    np.testing.assert_array_equal(found["items"], expected["items"])
    np.testing.assert_allclose(found["scores"], expected["scores"], atol=1e-5)


@pytest.mark.parametrize("make", [_rotary, THOROUGH_UNTIED])
def test_a_state_of_another_export_has_no_scores(make: Callable[..., Any]) -> None:
    functions, other = _functions(make), _functions(make, seed=5)
    state = functions["start"](item=_tensor(ROWS))["state"]
    foreign = other["start"](item=_tensor(ROWS))["state"]
    assert foreign.shape == state.shape
    mixed = tf.concat([state[:2], foreign[2:]], axis=0)
    for _ in range(2):
        found = _scores_of(functions, mixed)
        np.testing.assert_array_equal(found[:2], _scores_of(functions, state)[:2])
        np.testing.assert_array_equal(found[2:], np.nan)
        mixed, state = (
            functions["step"](state=x, item=_tensor(ROWS))["state"] for x in (mixed, state)
        )
    np.testing.assert_array_equal(_scores_of(other, mixed), np.nan, "nor after a step elsewhere")
    exclude = tf.constant(histories(*[["i1"]] * len(ROWS)))
    found = functions["next_items_from_state"](state=mixed, exclude=exclude)
    assert np.isfinite(found["scores"][:2, :-1]).all()
    np.testing.assert_array_equal(found["items"][2:], b"")
    assert not np.isfinite(found["scores"][2:]).any()


def test_a_fingerprint_is_that_of_the_weights() -> None:
    features = fitted()
    first, again, other = (fingerprint(drawn(_rotary, features, seed)) for seed in (3, 3, 5))
    assert first == again != other
    assert 0 < first == int(np.float32(first)) < 2**24


def test_a_long_history_starts_with_its_last_events() -> None:
    functions = _functions(_rotary)
    state = functions["start"](item=_tensor(LONG))["state"]
    expected = _scores(functions, LONG)
    np.testing.assert_allclose(_scores_of(functions, state), expected, atol=1e-5)
    kept = _scores(functions, [row[-LONGEST:] for row in LONG])
    np.testing.assert_allclose(kept, expected, atol=1e-6)


@pytest.mark.parametrize("make", [_rotary, THOROUGH_UNTIED, THOROUGH_LINEAR])
def test_many_events_at_once_are_those_events_one_by_one(make: Callable[..., Any]) -> None:
    """Also more than the model sees in a history, and with gaps between them."""
    functions = _functions(make)
    rows = [[*row[:3], "", *row[3:]] for row in LONG]
    empty = functions["start"](item=_tensor([[] for _ in rows]))["state"]
    at_once = functions["step"](state=empty, item=_tensor(rows))["state"]
    state = empty
    for t in range(len(rows[0])):
        state = functions["step"](state=state, item=_tensor([row[t : t + 1] for row in rows]))
        state = state["state"]
    np.testing.assert_allclose(at_once, state, atol=1e-5)
    np.testing.assert_array_equal(state[:, 1], len(LONG[0]), "the number of events")


@pytest.mark.thorough
@pytest.mark.parametrize("make", [THOROUGH_UNTIED, _linear, THOROUGH_SEGMENTS])
def test_sums_and_hidden_states_forget_nothing(make: Callable[..., Any]) -> None:
    """Past the longest history the scores are those of a pass over all events."""
    features = fitted()
    model = drawn(make, features)
    module = NextItemModule(model, features, np.array(NAMES), ITEMS, False)
    state = model.next_states(module.inputs({"item": _tensor(LONG)}, whole=True), training=False)
    expected = module.scores_of(state, tf.constant(CANDIDATES))
    np.testing.assert_allclose(_stepped(_functions(make)), expected, atol=1e-5)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("make", "share"), [(_one_block, 1e-5), (_rotary, 0.1)])
def test_a_full_cache_scores_its_last_events(make: Callable[..., Any], share: float) -> None:
    """One block has read nothing else; in further blocks the events have read older ones."""
    functions = _functions(make)
    expected = _scores(functions, [row[-LONGEST:] for row in LONG])
    found = _stepped(functions)
    np.testing.assert_allclose(found, expected, atol=share * np.ptp(expected))


def _stepped(functions: dict[str, Any]) -> np.ndarray:
    """The scores after the events of `LONG`, of which `start` reads two."""
    state = functions["start"](item=_tensor([row[:2] for row in LONG]))["state"]
    state = functions["step"](state=state, item=_tensor([row[2:] for row in LONG]))["state"]
    return _scores_of(functions, state)


@pytest.mark.thorough
def test_actions_are_events_of_their_own() -> None:
    """Each raw event is two of the model."""
    features = fitted()
    kinds = Sequence("kind", size=ITEMS + 2, dtype="string", max_length=11)
    schema = Schema((*features.schema.features, kinds), ())
    transforms = {**features.transforms, "kind": features.transforms["item"]}
    features = dataclasses.replace(features, schema=schema, transforms=transforms)
    model = drawn(
        lambda schema: sasrec(schema, width=8, positions="rotary", action="kind"), features
    )
    module = NextItemModule(model, features, np.array(NAMES), ITEMS, False)
    functions = module.signatures() | StateModule(model, module).signatures()
    items, kind = _tensor(ROWS), _tensor([["i3"] * len(row) for row in ROWS])
    whole = functions["rank"](item=items, kind=kind, candidate=tf.constant(CANDIDATES))
    state = functions["start"](item=items[:, :1], kind=kind[:, :1])["state"]
    state = functions["step"](state=state, item=items[:, 1:], kind=kind[:, 1:])["state"]
    np.testing.assert_allclose(_scores_of(functions, state), whole["score"], atol=1e-5)


@pytest.mark.thorough
def test_bfloat16_states_are_close() -> None:
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        functions = _functions.__wrapped__(_rotary)
    finally:
        keras.config.set_dtype_policy("float32")
    state = functions["start"](item=_tensor([row[:2] for row in ROWS]))["state"]
    state = functions["step"](state=state, item=_tensor([row[2:] for row in ROWS]))["state"]
    expected = _scores(functions, ROWS)
    np.testing.assert_allclose(
        _scores_of(functions, state), expected, atol=0.05 * np.abs(expected).max()
    )


def _by_age(schema: Schema) -> SequenceModel:
    age = Sequence("age", dtype="float32", transform=Age(), max_length=11)
    return hstu(Schema((*schema.features, age), ()), width=8)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (bert4rec, "changes the states of the events before it"),
        (sasrec, "count from the latest event"),
        (hstu, "count from the latest event"),
        (_by_age, "reads the ages of the events"),
    ],
)
def test_other_models_say_why_they_have_no_state(make: Callable[..., Any], reason: str) -> None:
    assert reason in (why_stateless(make(fitted().schema)) or "")
