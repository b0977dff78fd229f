"""Downloads: checked, atomic, and clear errors without a network."""

import hashlib
import io
import tarfile
import zipfile

import pytest

from pipelines.common.errors import PipelineError
from pipelines.ingest.data_options import DataOptions
from pipelines.ingest.datasets.download import Download, cache_folder, fetch, source_folder

CONTENT = {"a.data": b"first" * 1000, "a.test": b"second"}
SHA = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}


def _tar():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in CONTENT.items():
            info = tarfile.TarInfo(f"inner/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def _zip(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


ARCHIVES = {
    "a.zip": _zip({f"inner/{name}": content for name, content in CONTENT.items()}),
    "a.tar.gz": _tar(),
    "nested.zip": _zip({"about.txt": b"x", "census.tar.gz": _tar()}),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_files_out_of_an_archive(name, tmp_path):
    (tmp_path / name).write_bytes(ARCHIVES[name])
    folder = fetch(Download((tmp_path / name).as_uri(), SHA), tmp_path / "cache")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == CONTENT


def test_the_download_itself_and_only_once(tmp_path):
    (tmp_path / "a.test").write_bytes(CONTENT["a.test"])
    download = Download((tmp_path / "a.test").as_uri(), {"a.test": SHA["a.test"]})
    fetch(download, tmp_path / "cache")
    (tmp_path / "a.test").unlink()
    folder = fetch(download, tmp_path / "cache")
    assert (folder / "a.test").read_bytes() == CONTENT["a.test"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (_zip({"a.data": b"other", "a.test": b"second"}), "a.data .* is not the expected file: s"),
        (_zip({"b.data": b"x"}), "holds no file 'a.data'"),
        (_tar()[:100], "is not a complete archive"),
        (b"<html>please log in</html>", "is not a complete archive"),
    ],
    ids=["other-content", "other-names", "cut-off", "login-page"],
)
def test_wrong_checksum_is_refused(content, message, tmp_path):
    (tmp_path / "a.zip").write_bytes(content)
    with pytest.raises(PipelineError, match=message):
        fetch(Download((tmp_path / "a.zip").as_uri(), SHA), tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_download_without_network_is_an_error(tmp_path):
    url = (tmp_path / "nowhere.zip").as_uri()
    with pytest.raises(PipelineError, match=f"Cannot download {url} .* put a.data and a.test into"):
        fetch(Download(url, SHA), tmp_path / "cache")


def test_cache_folder_and_own_path(tmp_path, monkeypatch):
    monkeypatch.setenv("RECSYS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("RECSYS_CACHE")
    assert cache_folder().parts[-2:] == (".cache", "recsys-attn")
    options = DataOptions(source="census-income", path=str(tmp_path))
    assert source_folder(options, Download("nowhere", SHA)) == tmp_path
