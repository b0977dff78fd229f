"""Local paths, URIs and filesystems give the same rows."""

import os

import pyarrow as pa
import pytest
from pyarrow import fs

from pipelines.common.errors import PipelineError
from pipelines.feed import Feed
from pipelines.storage.dataset import DataSplit
from pipelines.storage.filesystem import ANY, Storage
from tests.support import feeds, s3, shop


@pytest.fixture(scope="module")
def table():
    return feeds.numbered(23)


@pytest.fixture(scope="module")
def folder(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "train"
    feeds.write_split(folder / "of the day", table, [5] * 5, files=3)
    return folder


def in_memory(folder):
    """The same files on a filesystem that is not local."""
    memory = fs._MockFileSystem()
    memory.create_dir("bucket/train/of the day")
    for path in folder.rglob("*.parquet"):
        with memory.open_output_stream(f"bucket/train/of the day/{path.name}") as file:
            file.write(path.read_bytes())
    return DataSplit("bucket/train", memory)


SPLITS = {
    "path": DataSplit,
    "text": lambda folder: DataSplit(str(folder)),
    "uri": lambda folder: DataSplit(f"file://{folder}"),
    "subtree": lambda folder: DataSplit(
        "train", fs.SubTreeFileSystem(str(folder.parent), fs.LocalFileSystem())
    ),
    "in memory": in_memory,
}


@pytest.fixture(scope="module")
def s3_uri(folder):
    """The same files in a bucket."""
    paths = folder.rglob("*.parquet")
    objects = {f"bucket/{p.relative_to(folder.parent)}": p.read_bytes() for p in paths}
    with s3.serving({**objects, "bucket/train/_SUCCESS": b""}) as options:
        yield f"s3://key:secret@bucket/train?{options}"


@pytest.mark.parametrize("kind", [*SPLITS, "s3"])
def test_the_same_rows_from_anywhere(folder, table, s3_uri, kind):
    split = DataSplit(s3_uri) if kind == "s3" else SPLITS[kind](folder)
    assert split.name == "train"
    assert split.rows == table.num_rows
    assert split.footers.names.to_pylist() == [f"of the day/part-0000{i}.parquet" for i in range(3)]
    assert pa.concat_tables(split.batches(["rating"])).equals(table.select(["rating"]))
    feed = Feed(split, shop.fitted(), "request", 7, seed=3, shuffle_rows=20)
    local = Feed(DataSplit(folder), feed.fitted, "request", 7, seed=3, shuffle_rows=20)
    for one, other in zip(feed, local, strict=True):
        feeds.expect_equal(one, other)
    assert split.footers.fingerprint == DataSplit(folder).footers.fingerprint


def test_files_beside_the_data_are_left_out(tmp_path):
    for name in ("b.parquet", "x/a.parquet", "_x/a.parquet", ".a.parquet", "x/_a.parquet", "c.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert Storage.of(tmp_path).files() == ["b.parquet", "x/a.parquet"]
    assert Storage.of(tmp_path).files((".csv",)) == ["c.csv"]
    assert Storage.of(f"file://{tmp_path}").files() == ["b.parquet", "x/a.parquet"]
    assert Storage.of(tmp_path / "_x").files() == ["a.parquet"]  # the user named it
    hidden = [".DS_Store", "_SUCCESS", ".b.parquet.crc", "_temporary/b.csv"]
    for name in ("_hour=7/a.parquet", "_hour=7/_b.parquet", "README", *hidden):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    for where in (tmp_path, f"file://{tmp_path}"):
        data = ["_hour=7/a.parquet", "b.parquet", "x/a.parquet"]
        assert Storage.of(where).files() == data
        assert list(Storage.of(where).stamps()) == [f"{where}/{name}" for name in data]
        assert Storage.of(where).files(ANY) == ["README", *data[:2], "c.csv", data[2]]
    alone = Storage.of(tmp_path / "c.csv")
    assert alone.files() == [""]
    assert alone.file_name("") == str(tmp_path / "c.csv")


@pytest.mark.parametrize("name", ["", "day=1", "_temporary"])
def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch, name):
    for folder in (tmp_path, tmp_path / "day=1", tmp_path / "_temporary"):
        folder.mkdir(exist_ok=True)
        (folder / "a.parquet").write_bytes(b"")
    scandir, locked = os.scandir, str(tmp_path / name)

    def scan(path):
        if str(path) == locked:
            raise PermissionError(13, "Permission denied", locked)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    if name == "_temporary":  # no data
        assert Storage.of(tmp_path).files() == ["a.parquet", "day=1/a.parquet"]
        return
    with pytest.raises(PipelineError, match=rf"^{locked} cannot be read: Permission denied\."):
        Storage.of(tmp_path).files()


def test_a_changed_file_has_another_stamp(folder, s3_uri):
    bucket = Storage.of(s3_uri).stamps()
    names = [f"s3://bucket/train/of the day/part-0000{i}.parquet" for i in range(3)]
    assert list(bucket) == names
    local = Storage.of(folder).stamps()
    assert [s.split()[0] for s in local.values()] == [s.split()[0] for s in bucket.values()]
    path = folder / "of the day" / "part-00001.parquet"
    modified = path.stat().st_mtime_ns
    os.utime(path, ns=(modified, modified + 10**9))
    changed = [n for n, stamp in Storage.of(folder).stamps().items() if stamp != local[n]]
    assert changed == [str(path)]


@pytest.mark.parametrize("uri", ["abc://bucket/train", "file://train"])
def test_a_uri_that_cannot_be_opened(uri):
    with pytest.raises(PipelineError, match=rf"{uri} cannot be opened: "):
        Storage.of(uri)


def test_a_password_in_a_uri_is_not_shown():
    with pytest.raises(PipelineError) as error:
        Storage.of("s3://key:secret@bucket/with a space?scheme=http")
    assert "s3://bucket/with a space cannot be opened" in str(error.value)
    assert "secret" not in str(error.value)


def test_a_filesystem_that_cannot_be_reached(folder):
    class Unreachable(fs.FileSystemHandler):
        def get_file_info(self, paths):
            raise OSError("no route to host")

        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    Unreachable.__abstractmethods__ = frozenset()
    storage = Storage(fs.PyFileSystem(Unreachable()), "bucket/train", "far://bucket/train")
    with pytest.raises(PipelineError, match="far://bucket/train cannot be reached: no route"):
        storage.files()
