"""Masks meet by AND, and a mask of another shape is refused with one clear sentence."""

from __future__ import annotations

import itertools
from pathlib import Path

import keras
import numpy as np
import pytest

from recsys_attn.attention import Dense
from recsys_attn.attention.masks import Masks
from recsys_attn.attention.scores import Alibi

B, T, S, N = 2, 3, 5, 7
RNG = np.random.default_rng(0)
MASKS = {
    "query_mask": RNG.random((B, T)) < 0.7,
    "key_mask": RNG.random((B, S)) < 0.7,
    "attention_mask": RNG.random((B, T, S)) < 0.7,
}
SHAPES = ((B, T, N, 4), (B, S, N, 4))


def test_no_mask_allows_everything() -> None:
    assert Masks.of(*SHAPES).allowed() is None


@pytest.mark.parametrize(
    "names",
    [names for count in (1, 2, 3) for names in itertools.combinations(MASKS, count)],
    ids="+".join,
)
def test_a_pair_is_allowed_where_every_mask_allows_it(names: tuple[str, ...]) -> None:
    allowed = Masks.of(*SHAPES, **{name: MASKS[name] for name in names}).allowed()
    expected = np.ones((B, N, T, S), bool)
    for b, n, t, s in np.ndindex(expected.shape):
        seen = {
            "query_mask": MASKS["query_mask"][b, t],
            "key_mask": MASKS["key_mask"][b, s],
            "attention_mask": MASKS["attention_mask"][b, t, s],
        }
        expected[b, n, t, s] = all(seen[name] for name in names)
    np.testing.assert_array_equal(np.broadcast_to(allowed, expected.shape), expected)


def test_an_attention_mask_may_differ_by_head() -> None:
    by_head = RNG.random((B, N, T, S)) < 0.5
    np.testing.assert_array_equal(Masks.of(*SHAPES, attention_mask=by_head).pairs, by_head)


def test_integers_count_as_booleans() -> None:
    allowed = Masks.of(*SHAPES, key_mask=MASKS["key_mask"].astype("int32")).allowed()
    np.testing.assert_array_equal(allowed[:, 0, 0], MASKS["key_mask"])


@pytest.mark.parametrize("name", MASKS)
def test_lists_count_as_tensors(name: str) -> None:
    allowed = Masks.of(*SHAPES, **{name: MASKS[name].tolist()}).allowed()
    np.testing.assert_array_equal(allowed, Masks.of(*SHAPES, **{name: MASKS[name]}).allowed())
    bias = RNG.normal(size=(B, T, S)).astype("float32")
    np.testing.assert_array_equal(
        Masks.of(*SHAPES, attention_bias=bias.tolist()).bias, bias[:, None]
    )


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_of_fractions_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=rf"`{name}` must be boolean.*{name}.dtype=float32"):
        Masks.of(*SHAPES, **{name: MASKS[name].astype("float32")})


def test_a_mask_given_as_a_bias_is_refused() -> None:
    with pytest.raises(TypeError, match="Give a mask as `attention_mask`"):
        Masks.of(*SHAPES, attention_bias=MASKS["attention_mask"])


@pytest.mark.parametrize(
    ("name", "shape", "expected"),
    [
        ("query_mask", (B, S), r"must have shape \(B, T\) with B=2, T=3\. Received: .*\(2, 5\)"),
        ("key_mask", (B, T), r"must have shape \(B, S\) with B=2, S=5\. Received: .*\(2, 3\)"),
        ("key_mask", (B, 1, S), r"must have shape \(B, S\) with B=2, S=5\. Rec.*\(2, 1, 5\)"),
        ("key_mask", (N, S), r"must have shape \(B, S\) with B=2, S=5\. Received: .*\(7, 5\)"),
        ("attention_mask", (T, S), r"\(B, T, S\) or \(B, N, T, S\) with B=2, N=7, T=3, S=5\."),
        ("attention_mask", (B, S, T), r"B=2, N=7, T=3, S=5\. Received: .*\(2, 5, 3\)"),
        ("attention_mask", (B, 2, T, S), r"B=2, N=7, T=3, S=5\. Received: .*\(2, 2, 3, 5\)"),
    ],
)
def test_a_mask_of_another_shape_is_refused(
    name: str, shape: tuple[int, ...], expected: str
) -> None:
    with pytest.raises(ValueError, match=f"`{name}` .*{expected}"):
        Masks.of(*SHAPES, **{name: np.ones(shape, bool)})


def test_unknown_sizes_are_not_checked_in_a_graph() -> None:
    unknown = ((None, None, N, 4), (None, None, N, 4))
    assert Masks.of(*unknown, key_mask=MASKS["key_mask"]).allowed().shape == (B, 1, 1, S)
    with pytest.raises(ValueError, match=r"must have shape \(B, S\)\. Received: .*\(2, 3, 5\)"):
        Masks.of(*unknown, key_mask=MASKS["attention_mask"])


MODEL_INPUTS = [RNG.normal(size=(B, T, N, 2)).astype("float32"), MASKS["key_mask"][:, :T]]


def test_functional_model_of_a_mechanism_is_saved(tmp_path: Path) -> None:
    events, mask = keras.Input((T, N, 2)), keras.Input((T,), dtype="bool")
    output, _ = Dense()(events, events, events, key_mask=mask)
    model = keras.Model([events, mask], output)
    expected, _ = Dense()(*[MODEL_INPUTS[0]] * 3, key_mask=MODEL_INPUTS[1])
    np.testing.assert_array_equal(model(MODEL_INPUTS), expected)
    model.save(tmp_path / "model.keras")
    revived = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(revived(MODEL_INPUTS), expected)


def test_a_record_and_the_arguments_it_is_made_of_give_the_same() -> None:
    query, key = RNG.normal(size=(B, T, N, 4)), RNG.normal(size=(B, S, N, 4))
    bias = RNG.normal(size=(B, T, S)).astype("float32")
    given = {**MASKS, "attention_bias": bias, "query_positions": list(range(T))}
    mechanism = Dense(Alibi(), "causal")
    expected, _ = mechanism(query, key, key, **given)
    found, _ = mechanism(query, key, key, Masks.of(query.shape, key.shape, **given))
    np.testing.assert_array_equal(found, expected)


def test_a_mask_in_the_place_of_the_record_is_refused() -> None:
    events = RNG.normal(size=(B, T, N, 4))
    with pytest.raises(TypeError, match=r"`masks` must be a Masks.*key_mask=.*Received: ndarray"):
        Dense()(events, events, events, MASKS["key_mask"])
