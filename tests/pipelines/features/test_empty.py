"""Features without a value are named, whatever the row group in which others have one."""

from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.features.empty import empty_features
from tests.support import shop
from tests.support.feeds import write_split

NOTHING = {"price": None, "brand": "", "past_items": [], "tags": []}


@pytest.mark.parametrize("name", NOTHING)
def test_a_feature_without_a_value_is_named(tmp_path: Path, name: str) -> None:
    """Also a history that shares the table of a feature with values."""
    table = shop.table(17, seed=1)
    nothing = pa.array([NOTHING[name]] * table.num_rows, table[name].type)
    without = table.set_column(table.column_names.index(name), name, nothing)
    for rows, expected in (
        ([table, table], []),
        ([without, without], [name]),
        ([without, table], []),
    ):
        split = write_split(tmp_path / str(len(expected)), pa.concat_tables(rows), [17, 17])
        assert empty_features(shop.SCHEMA, split) == expected
