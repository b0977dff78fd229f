"""Fitting in any partition and order of batches gives the transforms of the whole data."""

from collections import Counter
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest

from pipelines.features.continued import new_values
from pipelines.features.fit import fit
from pipelines.features.numeric import NumericFitter
from pipelines.features.quantile import QuantileFitter
from pipelines.features.vocabulary import VocabularyFitter
from recsys_attn.id_transforms import Hash, Quantile, Vocabulary
from recsys_attn.schema import Categorical, Numeric, Schema, Task
from serving.state.columns.missing import MISSING_INT
from tests.support import shop


def partitions(rows, seed=0):
    """Orders of the rows, cut into batches: one, one per row, empty ones, random ones."""
    rng = np.random.default_rng(seed)
    yield [np.arange(rows)]
    yield [np.arange(rows)[::-1], np.arange(0)]
    yield np.array_split(rng.permutation(rows), min(rows, 41))
    for cuts in (2, 3, 7):
        yield np.split(rng.permutation(rows), np.sort(rng.integers(0, rows, cuts)))


def fit_parts(fitter, values, parts, order=None):
    states = [fitter.fit_batch(values.take(pa.array(part, pa.int64()))) for part in parts]
    return fitter.finish(reduce(fitter.merge, states))


def ranked(values, missing, min_count=1, max_size=None):
    """The vocabulary by counting: most frequent first, equals by value."""
    counts = Counter(value for value in values if value not in missing)
    kept = sorted(
        (v for v, n in counts.items() if n >= min_count),
        key=lambda v: (-counts[v], v.encode() if isinstance(v, str) else v),
    )
    return kept[:max_size]


@pytest.mark.parametrize("limits", [{}, {"min_count": 3}, {"max_size": 5}, {"min_count": 99}])
@pytest.mark.parametrize("kind", ["string", "int64"])
def test_vocabulary_is_ranked_by_count_then_value(kind, limits):
    rng = np.random.default_rng(5)
    choices = {
        "string": [None, "", *shop.STRINGS, *"zyxwvuts"],
        "int64": [None, MISSING_INT, *shop.INTEGERS, *range(-5, 5)],
    }[kind]
    drawn = [choices[i] for i in np.minimum(rng.geometric(0.2, 197) - 1, len(choices) - 1)]
    values = pa.array(drawn, pa.string() if kind == "string" else pa.int64())
    expected = ranked(drawn, (None, "", MISSING_INT), **limits)
    assert len(set(Counter(drawn).values())) < len(set(drawn)), "no ties to break"
    for parts in partitions(len(drawn)):
        transform = fit_parts(VocabularyFitter(**limits), values, parts)
        assert transform.values.to_pylist() == expected
        assert transform.size == len(expected) + 2


@pytest.mark.parametrize("center", [0.0, 1e4])
@pytest.mark.parametrize("steps", [("log1p", "standardise"), ("standardise", "log1p")])
def test_moments_are_those_of_the_whole_column(center, steps):
    numbers = np.random.default_rng(1).normal(center, 3.0, 499).astype("float32")
    values = pa.array(numbers, mask=np.arange(499) % 7 == 0)
    kept = numbers[np.arange(499) % 7 != 0].astype("float64")
    if steps[0] == "log1p":
        kept = np.sign(kept) * np.log1p(np.abs(kept))
    for parts in partitions(499):
        transform = fit_parts(NumericFitter(steps), values, parts)
        np.testing.assert_allclose(transform.mean, kept.mean(), rtol=1e-9)
        np.testing.assert_allclose(transform.deviation, kept.std(), rtol=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -3.7e7, 1e-20])
@pytest.mark.parametrize("steps", [("standardise",), ("log1p", "standardise")])
def test_a_column_of_one_value_becomes_zeros(value, steps):
    values = pa.array([value] * 1009, pa.float32())
    for parts in partitions(1009):
        transform = fit_parts(NumericFitter(steps), values, parts)
        np.testing.assert_allclose(transform.apply(values[:3]), 0, atol=1e-4)


@pytest.mark.parametrize("shape", ["normal", "skewed", "few values"])
def test_quantile_buckets_hold_equal_shares(shape):
    rng = np.random.default_rng(2)
    rows, buckets = 20_011, 7
    numbers = {
        "normal": rng.normal(0, 1, rows),
        "skewed": rng.lognormal(0, 4, rows),
        "few values": rng.choice([0.0, 0.0, 0.0, 1.0, 2.5], rows),
    }[shape].astype("float32")
    for parts in partitions(rows):
        transform = fit_parts(QuantileFitter(buckets), pa.array(numbers), parts)
        boundaries = transform.boundaries
        assert np.all(np.diff(boundaries) > 0)
        assert transform.size == 2 + len(boundaries) + 1 <= 2 + buckets
        if shape == "few values":
            assert set(boundaries) <= {0.0, 1.0, 2.5}
            continue
        below = [np.mean(numbers < boundary) for boundary in boundaries]
        np.testing.assert_allclose(below, np.arange(1, buckets) / buckets, atol=0.003)


@pytest.mark.parametrize("steps", [(), ("log1p", "standardise"), ("standardise", "log1p")])
@pytest.mark.parametrize("shape", ["skewed", "few values"])
def test_boundaries_are_quantiles_of_the_transformed_numbers(shape, steps):
    rng = np.random.default_rng(3)
    rows, shares = 2003, tuple(np.arange(8) / 7)
    numbers = {
        "skewed": rng.lognormal(0, 4, rows),
        "few values": rng.choice([0.0, 0.0, 0.0, 1.0, 2.5], rows),
    }[shape].astype("float32")
    values = pa.array(numbers, mask=np.arange(rows) % 11 == 0)
    for parts in partitions(rows):
        transform = fit_parts(NumericFitter(steps, shares), values, parts)
        applied = transform.apply(values)
        known, boundaries = applied[~np.isnan(applied)], np.array(transform.boundaries)
        assert (boundaries[0], boundaries[-1]) == (known.min(), known.max())
        assert np.all(np.diff(boundaries) > 0)
        if shape == "few values":
            assert set(known) >= set(boundaries)
            continue
        below = [np.mean(known < boundary) for boundary in boundaries]
        np.testing.assert_allclose(below, shares, atol=0.003)


def test_boundaries_of_one_value_and_of_none():
    fitter = NumericFitter(("log1p", "standardise"), (0.0, 0.5, 1.0))
    parts = [np.arange(2), np.arange(2, 3)]
    constant = fit_parts(fitter, pa.array([7.5] * 3, pa.float32()), parts)
    (boundary,) = constant.boundaries
    np.testing.assert_allclose(boundary, 0, atol=1e-6)
    assert fit_parts(fitter, pa.array([None] * 3, pa.float32()), parts).boundaries == ()
    assert fit_parts(NumericFitter(()), pa.array([7.5] * 3, pa.float32()), parts).boundaries is None


def test_a_schema_fits_alike_in_any_batches():
    table = shop.table(211, seed=1)
    whole = fit(shop.SCHEMA, [table])
    for parts in partitions(table.num_rows):
        tables = [table.take(pa.array(part, pa.int64())) for part in parts]
        found = fit(shop.SCHEMA, tables)
        assert found.schema == whole.schema
        for name, transform in whole.transforms.items():
            expected, actual = transform.state(), found.transforms[name].state()
            for key in {"mean", "deviation"} & expected.keys():
                np.testing.assert_allclose(actual.pop(key), expected.pop(key), rtol=1e-6)
            assert actual == expected, name


def test_nothing_to_fit_on_is_an_error():
    with pytest.raises(ValueError, match="`batches` must hold at least one batch"):
        fit(shop.SCHEMA, [])


def test_a_column_without_numbers_fits():
    nothing = pa.array([None, None], pa.float32())
    parts = [np.arange(1), np.arange(1, 2)]
    assert fit_parts(NumericFitter(("standardise",)), nothing, parts).deviation == 1.0
    assert fit_parts(QuantileFitter(5), nothing, parts).size == 3


def test_known_values_keep_their_ids_and_new_ones_follow() -> None:
    """Scales, buckets and hashes stay; a feature that is new, or another one now, is fitted."""
    limits = Vocabulary(min_count=2, max_size=5)
    features = (
        Categorical("city", transform=limits),
        Categorical("brand", transform=Hash(5)),
        Numeric("age", encoding="buckets", bins=3),
        Categorical("price", dtype="float32", transform=Quantile(3)),
        Categorical("other", dtype="int64", transform=Vocabulary(min_count=2)),
    )
    earlier_rows, rows = (
        pa.table(
            {
                "city": list(cities),
                "brand": list(cities),
                "age": np.arange(len(cities)) / scale,
                "price": np.arange(len(cities)) * scale,
                "other": [of // 2 for of in range(len(cities))],
                "later": ["x"] * len(cities),
            }
        )
        for scale, cities in ((1.0, "aabbccccdx"), (7.0, "deeefffgggbhd"))
    )
    before = (*features[:4], Categorical("other", dtype="int64", transform=Hash(7)))
    earlier = fit(Schema(before, (Task("click"),)), [earlier_rows])
    schema = Schema((*features, Categorical("later")), (Task("click"),))
    fitted = fit(schema, [rows.slice(0, 5), rows.slice(5)], earlier)
    assert earlier.transforms["city"].values.to_pylist() == ["c", "a", "b"]
    assert fitted.transforms["city"].values.to_pylist() == ["c", "a", "b", "e", "f"]
    for name in ("brand", "age", "price"):
        assert fitted.transforms[name] == earlier.transforms[name]
    for name in ("other", "later"):
        alone = fit(schema, [rows]).transforms[name]
        assert fitted.transforms[name].values.equals(alone.values)
    assert fitted.schema["city"].size == 5 + 2
    assert fitted.schema["age"] == earlier.schema["age"]
    assert len(fitted.schema["age"].boundaries) == 3
    assert new_values(fitted, earlier) == {"city": 2, "brand": 0, "price": 0}
