"""A fitted shop and a split of it."""

import pyarrow as pa
import pytest

from pipelines.storage.dataset import DataSplit
from tests.support import feeds


@pytest.fixture(scope="package")
def table() -> pa.Table:
    return feeds.numbered(53)


@pytest.fixture(scope="package")
def split(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> DataSplit:
    """Row groups of eleven requests in two files."""
    return feeds.write_split(tmp_path_factory.mktemp("split"), table, [11] * 9)
