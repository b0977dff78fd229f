"""Each transform on known, unknown and missing values, outside and inside the graph."""

import bisect

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from pipelines.features.numeric import NumericFitter, NumericTransform
from pipelines.features.quantile import QuantileTransform
from pipelines.features.unfitted import AgeTransform, HashTransform
from pipelines.features.vocabulary import VocabularyTransform
from serving.state.columns.missing import MISSING_INT
from tests.support import shop
from tests.support.rounding import ULPS

TYPES = {"string": (pa.string(), tf.string), "int64": (pa.int64(), tf.int64)}


def assert_both(transform, kind, values, expected):
    """Arrow values and the same raw tensor, with missing values for null, give `expected`."""
    arrow, tensor = TYPES[kind]
    applied = transform.apply(pa.array(values, arrow))
    np.testing.assert_array_equal(applied, expected)
    assert applied.dtype == "int32"
    missing = "" if kind == "string" else MISSING_INT
    raw = tf.constant([missing if value is None else value for value in values], tensor)
    found = transform.graph()(raw)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == tf.int32


LARGEST = np.iinfo("int64").max


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("buckets", [1, 11, 2**31 - 3])
def test_hash_ids_are_farmhash_of_the_text(kind, buckets):
    values = [None, *{"string": shop.STRINGS, "int64": shop.INTEGERS}[kind], None]
    expected = [
        0 if value is None else 2 + int(tf.strings.to_hash_bucket_fast(str(value), buckets))
        for value in values
    ]
    assert_both(HashTransform(buckets), kind, values, expected)
    assert_both(HashTransform(buckets), kind, [None], [0])
    assert_both(HashTransform(buckets), kind, [], [])


@pytest.mark.parametrize("boundaries", [[], [0.0], [-1.5, 0.0, 1e-3, 17.0]])
def test_quantile_ids_count_the_boundaries_at_or_below(boundaries):
    transform = QuantileTransform(np.array(boundaries))
    numbers = [*shop.FLOATS, 3.4e38, -3.4e38, 0.1]
    boundaries = list(transform.boundaries)  # in float32, as the numbers are
    expected = [2 + bisect.bisect_right(boundaries, np.float32(x)) for x in numbers]
    applied = transform.apply(pa.array([*numbers, None], pa.float32()))
    np.testing.assert_array_equal(applied, [*expected, 0])
    assert applied.dtype == "int32"
    raw = tf.constant([*numbers, np.nan, np.inf, -np.inf], tf.float32)
    found = transform.graph()(tf.reshape(raw, (2, 7)))
    np.testing.assert_array_equal(tf.reshape(found, [-1]), [*expected, 0, 0, 0])
    tiny = np.array([1e-40, -1e-40], "float32")  # some processors take them for zero
    np.testing.assert_array_equal(
        transform.graph()(tf.constant(tiny)), transform.apply(pa.array(tiny))
    )


OLDEST = 2**31 - 256  # seconds that float32 has exactly


def test_ages_are_whole_seconds_from_two_on():
    seconds = [0.0, 0.4, 59.6, 86400.0, -3.0, 1e30]
    expected = [2, 2, 62, 86402, 2, OLDEST + 2]
    applied = AgeTransform().apply(pa.array([*seconds, None], pa.float32()))
    np.testing.assert_array_equal(applied, [*expected, 0])
    raw = tf.constant([*seconds, np.nan, np.inf], tf.float32)
    np.testing.assert_array_equal(AgeTransform().graph()(raw), [*expected, 0, 0])
    assert_both(AgeTransform(), "int64", [None, 7, -7, LARGEST], [0, 9, 2, OLDEST + 2])


STEPS = [(), ("log1p",), ("standardise",), ("log1p", "standardise"), ("standardise", "log1p")]


@pytest.mark.parametrize("steps", STEPS, ids="+".join)
def test_numbers_by_the_formula_stay_finite(steps):
    transform = NumericTransform(steps, mean=1.7, deviation=0.3)
    numbers = np.array([*shop.FLOATS, 123.456, 1e6, -1e6], "float32")
    expected = numbers.astype("float64")
    for step in steps:
        if step == "log1p":
            expected = np.sign(expected) * np.log1p(np.abs(expected))
        else:
            expected = (expected - 1.7) / 0.3
    expected = expected.clip(-1e6, 1e6)
    applied = transform.apply(pa.array([*numbers, None], pa.float32()))
    np.testing.assert_allclose(applied, [*expected, np.nan], rtol=1e-5, atol=1e-5)
    assert applied.dtype == "float32"
    raw = tf.constant([*numbers, np.nan, np.inf, -np.inf], tf.float32)
    found = transform.graph()(raw)
    # Of another length, so that other numbers fill no vector: two units in the last place of
    # log1p(1e6), which the deviation divides.
    np.testing.assert_allclose(found[:-2], applied, rtol=ULPS, atol=1e-5)
    assert np.isnan(found[-2:]).all()
    transform = NumericTransform(steps, mean=1.7, deviation=1e-3)
    numbers = np.array([3e38, -3e38, 1e7], "float32")
    applied = transform.apply(pa.array(numbers))
    assert np.isfinite(applied).all()
    assert np.abs(applied).max() <= 1e6
    np.testing.assert_allclose(transform.graph()(tf.constant(numbers)), applied, rtol=ULPS)


@pytest.mark.parametrize("first", [0, 5, -3, -(2**62), MISSING_INT + 1, LARGEST - 13])
@pytest.mark.parametrize("last", [None, 2**40])
def test_vocabulary_ids_of_dense_integers(first, last):
    """Unknown ids stay unknown, near the known ones or (with `last`) far from them."""
    known = [first + step for step in (7, 2, 0, 13, 5)] + ([last] if last else [])
    ids = {number: place + 2 for place, number in enumerate(known)} | {None: 0, MISSING_INT: 0}
    near = [first + step for step in range(14)]
    values = [*near, None, MISSING_INT, MISSING_INT + 1, LARGEST, -1, 0, 2**40, 2**62, -(2**62)]
    values += [first - 1] if first - 1 > MISSING_INT else []
    values += [first + 14] if first + 14 <= LARGEST else []
    transform = VocabularyTransform(pa.array(known, pa.int64()))
    assert_both(transform, "int64", values, [ids.get(value, 1) for value in values])
    assert_both(transform, "int64", near, [ids.get(value, 1) for value in near])
    assert_both(transform, "int64", [], [])


def test_numbers_of_an_older_version_have_no_boundaries() -> None:
    """A daily loop goes on behind such a run."""
    fitter = NumericFitter(("standardise",))
    transform = fitter.finish(fitter.fit_batch(pa.array([1.0, 3.0, 8.0])))
    older = {key: value for key, value in transform.state().items() if key != "boundaries"}
    assert fitter.load(older) == transform
