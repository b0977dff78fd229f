"""Footers: fingerprints, and files that change."""

import os

import pytest

from pipelines.common.errors import PipelineError
from pipelines.storage.dataset import DataSplit
from tests.support import feeds, shop


@pytest.fixture
def folder(tmp_path):
    feeds.write_split(tmp_path / "train", feeds.numbered(29), [5] * 9, files=3)
    return tmp_path / "train"


@pytest.mark.parametrize("change", ["other rows", "gone", "new", "one row less"])
def test_changed_data_is_refused_with_the_files_name(folder, change):
    before = DataSplit(folder).footers.fingerprint
    part = folder / "part-00001.parquet"
    if change == "other rows":
        shop.write(part, list(reversed(list(DataSplit(part).batches(DataSplit(part).columns)))))
    elif change == "gone":
        part.unlink()
    elif change == "new":
        part = folder / "part-00003.parquet"
        shop.write(part, [shop.table(3, seed=5)])
    else:
        groups = list(DataSplit(part).batches(DataSplit(part).columns))
        shop.write(part, [*groups[:-1], groups[-1].slice(1)])
    with pytest.raises(PipelineError, match=rf"{part.name} is not the file that training began"):
        DataSplit(folder).footers.check_fingerprint(before)


def test_a_touched_file_is_unchanged(folder):
    footers = DataSplit(folder).footers
    part = folder / "part-00001.parquet"
    os.utime(part, (1, 1))
    footers.check_unchanged(1)
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(PipelineError, match=r"part-00001.parquet: is not a complete Parquet"):
        footers.check_unchanged(1)
    part.unlink()
    with pytest.raises(PipelineError, match=r"part-00001.parquet was removed while this step ran"):
        footers.check_unchanged(1)
    for other in (0, 2):
        footers.check_unchanged(other)


def test_a_replaced_file_is_found_when_it_is_read(folder, tmp_path):
    split = DataSplit(folder)
    stream = split.batches(["rating"])
    next(stream)
    other = shop.write(tmp_path / "other.parquet", [shop.table(11, seed=5)])
    os.replace(other, folder / "part-00000.parquet")
    with pytest.raises(PipelineError, match=r"part-00000.parquet has changed since this step"):
        list(stream)
