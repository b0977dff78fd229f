"""One missing value for features and keys, in columns, in requests and in the manifest."""

import numpy as np
import pyarrow as pa
import pytest

from serving.encoding.raw_values import missing_value
from serving.state.columns.missing import MISSING, MISSING_INT, is_missing, with_nulls

CASES = [
    *((kind, ["", "a", None, " "], ["a", " "]) for kind in (pa.string(), pa.large_string())),
    *((kind, [b"", b"a", None, b" "], [b"a", b" "]) for kind in (pa.binary(), pa.large_binary())),
    (pa.int64(), [MISSING_INT, 0, None, -1], [0, -1]),
    (pa.int32(), [-(2**31), 0, None, -1], [-(2**31), 0, -1]),
    (pa.float64(), [np.nan, 0.0, None, -np.inf], [0.0, -np.inf]),
    (pa.bool_(), [False, None], [False]),
    (pa.timestamp("ns"), [0, None], [0]),
]


@pytest.mark.parametrize(("kind", "values", "known"), CASES, ids=lambda c: str(c)[:20])
def test_missing_values_of_a_column_are_one(kind, values, known):
    column = pa.array(values, kind)
    for form in (column, pa.chunked_array([column]), column.dictionary_encode()):
        mask = is_missing(form)
        nulled = with_nulls(form)
        np.testing.assert_array_equal(mask, nulled.is_null())
        assert column.filter(pa.array(~mask)).equals(pa.array(known, kind))
        assert nulled.type in (form.type, kind)
    assert is_missing(column[:0]).tolist() == []


def test_serving_fills_in_the_same_missing_values():
    assert missing_value(np.dtype(object)) == MISSING["string"].encode()
    assert missing_value(np.dtype("int64")) == MISSING["int64"]
    np.testing.assert_equal(missing_value(np.dtype("float32")), float(MISSING["float32"]))
