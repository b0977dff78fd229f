"""The stable hash: known values, evenness, independence of the storage."""

import numpy as np
import pyarrow as pa

from pipelines.storage.hashing import hash_column


def _hash(values, seed=3):
    return hash_column(pa.chunked_array([values]), seed)


def test_values_never_change():
    # Fixed numbers: a change here would move the rows of every published split.
    np.testing.assert_array_equal(
        _hash(pa.array([0, 1, -1, None], pa.int64()), 5),
        np.array(
            [17286874536754031684, 6221399531979976949, 2019150930336600608, 16247700015443706586],
            np.uint64,
        ),
    )
    np.testing.assert_array_equal(
        _hash(pa.array(["", "a", "user-17", "é", None]), 5),
        np.array(
            [
                11265868749335622486,
                15366891344686562744,
                3566173678130477349,
                16398829264848800859,
                11265868749335622486,
            ],
            np.uint64,
        ),
    )


def test_slices_chunks_and_widths_do_not_matter():
    texts = pa.array(["x", "yy", None, "zzz", "", "yy"])
    whole = _hash(texts)
    np.testing.assert_array_equal(_hash(texts.slice(2)), whole[2:])
    np.testing.assert_array_equal(_hash(texts.cast(pa.large_string())), whole)
    np.testing.assert_array_equal(_hash(texts.dictionary_encode()), whole)
    parts = pa.chunked_array([texts.slice(0, 1), texts.slice(1)])
    np.testing.assert_array_equal(hash_column(parts, 3), whole)
    numbers = pa.array([5, 7, None], pa.int16())
    np.testing.assert_array_equal(_hash(numbers), _hash(numbers.cast(pa.int64())))
    assert len(_hash(pa.array([], pa.string()))) == 0
