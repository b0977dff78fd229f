"""The table of accepted types, against Arrow's own types."""

import pyarrow as pa
import pytest

from pipelines.storage.columns import ACCEPTED, accepts, plain
from serving.state.columns.arrow_kinds import LISTS, is_list


@pytest.mark.parametrize("dtype", ACCEPTED)
def test_accepted_types_with_other_parameters(dtype):
    for kind in ACCEPTED[dtype]:
        assert accepts(dtype, kind)
        assert not accepts(dtype, kind, listed=True) or kind == pa.null()
        assert accepts(dtype, pa.dictionary(pa.int8(), kind))
        assert accepts(dtype, pa.list_(kind), listed=True)
        assert accepts(dtype, pa.large_list(pa.dictionary(pa.int32(), kind)), listed=True)
    assert accepts(dtype, pa.decimal128(7, 2)) == (dtype != "string")
    assert accepts(dtype, pa.binary(16)) == (dtype == "string")


@pytest.mark.parametrize(
    "kind",
    [
        pa.date32(),
        pa.timestamp("us"),
        pa.duration("s"),
        pa.struct([("a", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.list_(pa.list_(pa.int64())),
    ],
    ids=str,
)
def test_other_types_are_refused(kind):
    for dtype in ACCEPTED:
        assert not accepts(dtype, kind)
        assert not accepts(dtype, kind, listed=True)


def test_types_are_read_in_their_plain_form():
    for kind in (*LISTS, pa.list_(pa.null(), 7)):
        assert is_list(kind)
        assert plain(kind) == pa.list_(pa.null())
    assert plain(pa.list_(pa.dictionary(pa.int8(), pa.large_string()), 3)) == pa.list_(pa.string())
    assert plain(pa.decimal64(5, 2)) == pa.decimal128(5, 2)
    assert plain(pa.uuid()) == pa.binary()
    assert plain(pa.json_()) == pa.string()
    assert plain(pa.timestamp("ns", "UTC")) == pa.timestamp("ns", "UTC")
