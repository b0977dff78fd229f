"""No step of a copy but the last counts as complete, whatever the order of the files."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from serving.models import completeness
from serving.models.completeness import check_folder
from tests.serving.exports import with_manifest

MANIFEST = "manifest.json"
PB, INDEX, SHARD = (
    "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"
)  # fmt: skip


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory, twofold: Path) -> Path:
    """What the exporter leaves."""
    return with_manifest(twofold, tmp_path_factory.mktemp("ours") / "1")


@pytest.fixture
def copied(ours: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(ours, tmp_path / "2"))


def _files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def _growing(source: Path, target: Path, names: list[str]) -> Iterator[None]:
    """Copies one file after the other, each in two pieces."""
    for name in names:
        content = (source / name).read_bytes()
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        for part in (0, len(content) // 2, len(content)):
            (target / name).write_bytes(content[:part])
            yield


def _sized_first(source: Path, target: Path, names: list[str]) -> Iterator[None]:
    """Gives every file its size, then its content in two pieces."""
    for name in names:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(bytes((source / name).stat().st_size))
        yield
    for name in names:
        content = (source / name).read_bytes()
        half = len(content) // 2
        (target / name).write_bytes(content[:half] + bytes(len(content) - half))
        yield
        (target / name).write_bytes(content)
        yield


Copy = Callable[[Path, Path, list[str]], Iterator[None]]


def _orders(names: list[str]) -> list[list[str]]:
    rng = np.random.default_rng(0)
    found = [names, names[::-1], *(rng.permutation(names).tolist() for _ in range(3))]
    for last in (MANIFEST, PB, SHARD):
        found.append([*(name for name in names if name != last), last])
    return found


@pytest.mark.parametrize(
    ("is_listed", "copy"), [(True, _growing), (True, _sized_first), (False, _growing)]
)
def test_copy_is_incomplete_until_its_end(
    ours: Path, twofold: Path, tmp_path: Path, is_listed: bool, copy: Copy
) -> None:
    source = ours if is_listed else twofold
    orders = _orders(_files(ours)) if is_listed else itertools.permutations([PB, INDEX, SHARD])
    for number, names in enumerate(orders):
        target, seen = tmp_path / str(number), None
        target.mkdir()
        gaps, later = [], []
        for _ in copy(source, target, list(names)):
            gaps.append(check_folder(target).gap)
            seen = check_folder(target, seen)
            later.append(seen.gap)
        assert all(gaps[:-1]), f"{names}: whole after {gaps.index(None) + 1} of {len(gaps)} steps"
        assert all(later[:-1]), "also with what an earlier look has found"
        assert gaps[-1] is None
        assert check_folder(target, seen).gap is None, "one check after the last change"


def test_gaps_that_the_graph_shows(twofold: Path, tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "3"))
    shutil.rmtree(tmp_path / "3/variables")
    assert check_folder(tmp_path / "3").gap is None, "constants need no variables"
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    module = tf.Module()
    module.words = tf.saved_model.Asset(str(words))
    tf.saved_model.save(module, str(tmp_path / "1"))
    assert check_folder(tmp_path / "1").gap is None
    (tmp_path / "1/assets/words.txt").unlink()
    assert str(check_folder(tmp_path / "1").gap) == "assets/words.txt is missing"
    folder = Path(shutil.copytree(twofold, tmp_path / "2"))
    (folder / SHARD).rename(folder / "variables/variables.data-00000-of-00002")
    assert str(check_folder(folder).gap) == "variables/variables.data-00001-of-00002 is missing"
    for name in (INDEX, PB):
        (folder / "variables/variables.data-00001-of-00002").touch()
        (folder / name).write_bytes(bytes((folder / name).stat().st_size))
        assert str(check_folder(folder).gap) == f"{name} is cut off or damaged"


def test_unlisted_files_are_ignored(copied: Path) -> None:
    manifest = json.loads((copied / MANIFEST).read_text())
    (copied / "batching_params.pbtxt").write_text("max_batch_size { value: 2 }")
    assert check_folder(copied).gap is None
    (copied / "assets/words.txt").write_text("another")
    assert check_folder(copied).gap is not None
    del manifest["files"]["assets/words.txt"]
    (copied / MANIFEST).write_text(json.dumps(manifest))
    assert check_folder(copied).gap is None
    del manifest["files"][PB]["bytes"]
    (copied / MANIFEST).write_text(json.dumps(manifest))
    assert "instead of None bytes" in str(check_folder(copied).gap)


@pytest.mark.parametrize(
    "manifest", [{}, [], {"files": ["a"]}, {"files": {"a": "b"}}, {"files": {}}], ids=str
)
def test_manifest_without_a_list_is_ignored(
    twofold: Path, tmp_path: Path, manifest: object
) -> None:
    """An export of an earlier version, or a file of that name from elsewhere."""
    folder = Path(shutil.copytree(twofold, tmp_path / "2"))
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert check_folder(folder).gap is None
    (folder / INDEX).unlink()
    assert str(check_folder(folder).gap) == f"{INDEX} is missing"


def test_unchanged_files_are_hashed_once(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = check_folder(copied)
    monkeypatch.setattr(completeness.hashlib, "file_digest", pytest.fail)
    assert check_folder(copied, first) is first


def test_unreadable_file_is_incomplete(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(file: object, kind: str) -> object:
        raise OSError(5, "Input/output error", file.name)

    monkeypatch.setattr(completeness.hashlib, "file_digest", failing)
    assert str(check_folder(copied).gap) == "words.txt cannot be read (Input/output error)"
