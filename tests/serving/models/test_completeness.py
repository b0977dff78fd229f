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
from serving.models.completeness import look
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


@pytest.mark.parametrize("copy", [_growing, _sized_first])
def test_copy_of_an_export_is_incomplete_until_its_end(
    ours: Path, tmp_path: Path, copy: Copy
) -> None:
    for number, names in enumerate(_orders(_files(ours))):
        target, seen = tmp_path / str(number), None
        target.mkdir()
        gaps, later = [], []
        for _ in copy(ours, target, names):
            gaps.append(look(target).gap)
            seen = look(target, seen)
            later.append(seen.gap)
        assert all(gaps[:-1]), f"{names}: whole after {gaps.index(None) + 1} of {len(gaps)} steps"
        assert all(later[:-1]), "also for who goes on looking"
        assert gaps[-1] is None
        assert look(target, seen).gap is None, "one look after the last change at the latest"


def test_copy_of_another_savedmodel_is_incomplete_until_its_end(
    twofold: Path, tmp_path: Path
) -> None:
    for number, names in enumerate(itertools.permutations([PB, INDEX, SHARD])):
        target = tmp_path / str(number)
        target.mkdir()
        gaps = [look(target).gap for _ in _growing(twofold, target, list(names))]
        assert all(gaps[:-1]), f"{names}: whole after {gaps.index(None) + 1} of {len(gaps)} steps"
        assert gaps[-1] is None


def test_gaps_that_the_graph_shows(twofold: Path, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    module = tf.Module()
    module.words = tf.saved_model.Asset(str(words))
    tf.saved_model.save(module, str(tmp_path / "1"))
    assert look(tmp_path / "1").gap is None
    (tmp_path / "1/assets/words.txt").unlink()
    assert str(look(tmp_path / "1").gap) == "assets/words.txt is missing"
    folder = Path(shutil.copytree(twofold, tmp_path / "2"))
    (folder / SHARD).rename(folder / "variables/variables.data-00000-of-00002")
    assert str(look(folder).gap) == "variables/variables.data-00001-of-00002 is missing"
    for name in (INDEX, PB):
        (folder / "variables/variables.data-00001-of-00002").touch()
        (folder / name).write_bytes(bytes((folder / name).stat().st_size))
        assert str(look(folder).gap) == f"{name} is cut off or damaged"


def test_graph_of_constants_needs_no_variables(tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "2"))
    shutil.rmtree(tmp_path / "2/variables")
    assert look(tmp_path / "2").gap is None


def _relist(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    change(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest))


def test_unlisted_files_are_ignored(copied: Path) -> None:
    (copied / "batching_params.pbtxt").write_text("max_batch_size { value: 2 }")
    assert look(copied).gap is None
    (copied / "assets/words.txt").write_text("another")
    assert look(copied).gap is not None
    _relist(copied, lambda manifest: manifest["files"].pop("assets/words.txt"))
    assert look(copied).gap is None


def test_entry_without_a_size(copied: Path) -> None:
    _relist(copied, lambda manifest: manifest["files"][PB].pop("bytes"))
    assert "instead of None bytes" in str(look(copied).gap)


@pytest.mark.parametrize(
    "manifest", [{}, [], {"files": ["a"]}, {"files": {"a": "b"}}, {"files": {}}], ids=str
)
def test_manifest_without_a_list_is_ignored(
    twofold: Path, tmp_path: Path, manifest: object
) -> None:
    """An export of an earlier version, or a file of that name from elsewhere."""
    folder = Path(shutil.copytree(twofold, tmp_path / "2"))
    (folder / MANIFEST).write_text(json.dumps(manifest))
    assert look(folder).gap is None
    (folder / INDEX).unlink()
    assert str(look(folder).gap) == f"{INDEX} is missing"


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are hashed."""
    names: list[str] = []
    digest = completeness.hashlib.file_digest

    def counted(file: object, kind: str) -> object:
        names.append(Path(file.name).name)
        return digest(file, kind)

    monkeypatch.setattr(completeness.hashlib, "file_digest", counted)
    return names


def test_unchanged_files_are_hashed_once(copied: Path, hashed: list[str]) -> None:
    first = look(copied)
    assert len(hashed) == 5
    assert look(copied, first) is first
    assert len(hashed) == 5


def test_unreadable_file(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(file: object, kind: str) -> object:
        raise OSError(5, "Input/output error", file.name)

    monkeypatch.setattr(completeness.hashlib, "file_digest", failing)
    assert str(look(copied).gap) == "words.txt cannot be read (Input/output error)"
