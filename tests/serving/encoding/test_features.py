"""Raw values are encoded with missing values and padding."""

from __future__ import annotations

import numpy as np
import pytest

from serving.common.errors import InvalidFeature
from serving.encoding.features import TensorSpec, encode_candidates, encode_rows

INT_MIN = np.iinfo(np.int64).min
STRING, INT, FLOAT = np.dtype(object), np.dtype(np.int64), np.dtype(np.float32)


def test_missing_values_and_lists_are_padded() -> None:
    specs = {
        "city": TensorSpec("string", (None,), STRING),
        "age": TensorSpec("int64", (None,), INT),
        "price": TensorSpec("float32", (None,), FLOAT),
        "words": TensorSpec("string", (None, None), STRING),
        "items": TensorSpec("int64", (None, None), INT),
        "times": TensorSpec("float32", (None, 3), FLOAT),
    }
    full = {"city": "ä", "age": 7, "price": 2, "words": ["a", None], "items": [3, 5], "times": [1]}
    arrays = encode_rows([full, {}], specs)
    expected = {
        "city": np.array(["ä".encode(), b""], object),
        "age": np.array([7, INT_MIN], np.int64),
        "price": np.array([2, np.nan], np.float32),
        "words": np.array([[b"a", b""], [b"", b""]], object),
        "items": np.array([[3, 5], [INT_MIN, INT_MIN]], np.int64),
        "times": np.array([[1, np.nan, np.nan], [np.nan] * 3], np.float32),
    }
    assert set(arrays) == set(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(arrays[name], array, err_msg=name)
        assert arrays[name].dtype == array.dtype
    assert encode_rows([{}], specs)["words"].shape == (1, 1), "no list is empty on the wire"
    with pytest.raises(InvalidFeature, match=r"'times' takes at most 3 values\. Received: 5"):
        encode_rows([{"times": [0.5] * 5}], specs)


def test_features_of_candidates_have_an_axis_more() -> None:
    row = {
        "seen": TensorSpec("int64", (None, None), INT),
        "price": TensorSpec("float32", (None,), FLOAT),
        "tags": TensorSpec("int64", (None, None), INT),
    }
    rank = {
        "seen": row["seen"],
        "price": TensorSpec("float32", (None, None), FLOAT),
        "tags": TensorSpec("int64", (None, None, None), INT),
    }
    candidates = [{"price": 0.5, "tags": [11, 13]}, {}, {"tags": [17]}]
    arrays = encode_candidates({"seen": [2, 3, 5, 7, 11]}, candidates, rank, row)
    np.testing.assert_array_equal(arrays["seen"], [[2, 3, 5, 7, 11]])
    np.testing.assert_array_equal(arrays["price"], np.float32([[0.5, np.nan, np.nan]]))
    np.testing.assert_array_equal(arrays["tags"], [[[11, 13], [INT_MIN] * 2, [17, INT_MIN]]])


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("float32", None, FLOAT),
        TensorSpec("bool", (None,), np.dtype(bool)),
        TensorSpec("float32", (None, None, None), FLOAT),
        TensorSpec("float32", (), FLOAT),
    ],
    ids=str,
)
def test_an_error_says_how_to_send_arrays(spec: TensorSpec) -> None:
    with pytest.raises(InvalidFeature, match=r"Feature 'x' .* `Client\.predict`"):
        encode_rows([{"x": 1.0}], {"x": spec})
