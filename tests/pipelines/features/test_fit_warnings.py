"""Features without a value, and numbers that float32 does not keep apart, are named at fit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf

from pipelines.features.fit_warnings import coarse_features, empty_features
from pipelines.features.numeric import NumericFitter
from recsys_attn.schema import Categorical, Numeric, Schema, Task
from tests.support import shop
from tests.support.feeds import write_split

DAY = 1_700_000_000
SCHEMA = Schema((Categorical("item", dtype="int64"), Numeric("x")), (Task("click"),))
NOTHING = {"price": None, "brand": "", "past_items": [], "tags": []}


def _split(folder: Path, values: np.ndarray, sizes: list[int]):
    rows = len(values)
    table = pa.table(
        {
            "request": np.arange(rows),
            "item": np.arange(rows),
            "x": pa.array(values, from_pandas=True).cast(pa.float32(), safe=False),
            "click": np.arange(rows) % 2,
        }
    )
    return write_split(folder, table, sizes)


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        (DAY + np.arange(120), "2 apart from 1700000000 to 1700000128"),
        (1000 * DAY + 1000 * np.arange(120), "2 apart"),
        (DAY + np.linspace(0, 86_400, 200), "676 apart"),
        (np.full(120, DAY), "1 apart"),
        (DAY + np.linspace(0, 365 * 86_400, 200), None),
        (np.arange(120), None),
        (2**23 + np.arange(120), None),
        (np.full(120, 3.7), None),
        (np.array([-1e-30, 1e-30]), None),
        (np.full(120, np.nan), None),
        (np.append(np.full(60, DAY), np.arange(60)), None),
    ],
)
def test_features_that_lose_their_values_are_named(tmp_path, values, kept):
    found = coarse_features(SCHEMA, _split(tmp_path, values, [20, 20]))
    assert len(found) == (kept is not None)
    for warning in found:
        assert warning.startswith(f"Feature 'x' loses values: float32 keeps at most {kept}")
        assert warning.endswith("or use a difference, such as an age.")


@pytest.mark.parametrize("steps", [("standardise",), ("log1p", "standardise")])
@pytest.mark.parametrize("unit", [1, 1000])
def test_a_large_mean_is_subtracted_in_float64(steps, unit):
    raw = (unit * (DAY + 40.0 * np.arange(100))).astype("float32")
    exact = np.log1p(raw.astype("float64")) if steps[0] == "log1p" else raw.astype("float64")
    expected = (exact - exact.mean()) / exact.std()
    values = pa.array(raw)
    fitter = NumericFitter(steps)
    parts = (fitter.fit_batch(part) for part in (values[:60], values[60:]))
    transform = fitter.finish(fitter.merge(*parts))
    np.testing.assert_allclose(transform.apply(values), expected, atol=1e-4)
    np.testing.assert_allclose(transform.graph()(tf.constant(raw)), expected, atol=1e-4)


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
