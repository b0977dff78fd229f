"""Raw input arrays, as a client sends them."""

import numpy as np

from pipelines.export.raw_inputs import raw_request, raw_rows
from pipelines.features.base import MISSING_INT
from recsys_attn.schema import is_listed
from tests.support import shop

MISSING = {"string": "", "int64": MISSING_INT, "float32": np.nan}


def test_nulls_become_missing_and_lists_are_padded():
    table = shop.table(29, seed=4)
    raw = raw_rows(shop.SCHEMA, table)
    assert list(raw) == [feature.name for feature in shop.SCHEMA.features]
    for feature in shop.SCHEMA.features:
        array, missing = raw[feature.name], MISSING[feature.dtype]
        assert array.dtype == (object if feature.dtype == "string" else feature.dtype)
        values = table[feature.name].to_pylist()
        if is_listed(feature):
            assert array.shape == (len(values), max(len(row or []) for row in values))
            values = [[*(row or []), *[None] * (array.shape[1] - len(row or []))] for row in values]
            values = [[missing if v is None else v for v in row] for row in values]
        else:
            assert array.shape == (len(values),)
            values = [missing if v is None else v for v in values]
        np.testing.assert_array_equal(array, np.array(values, array.dtype), err_msg=feature.name)


def test_a_request_has_its_context_once():
    table = shop.table(1, seed=7, longest=5)
    rows, request = raw_rows(shop.SCHEMA, table), raw_request(shop.SCHEMA, table)
    assert table.num_rows > 1
    for feature in shop.SCHEMA.features:
        expected = rows[feature.name]
        expected = expected[None] if feature.side == "candidate" else expected[:1]
        np.testing.assert_array_equal(request[feature.name], expected)
