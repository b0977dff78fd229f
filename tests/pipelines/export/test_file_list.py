"""The file list in an export's manifest."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from pipelines.common.artifacts import MANIFEST, read_json, write_json
from pipelines.export.file_list import list_files, update_file_list


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "variables").mkdir()
    (tmp_path / "variables/variables.index").write_bytes(b"abc")
    (tmp_path / "empty").write_bytes(b"")
    write_json(tmp_path / MANIFEST, {"name": "tiny", "files": list_files(tmp_path)})
    return tmp_path


def test_every_file_but_the_manifest_is_listed(folder: Path) -> None:
    expected = {
        "empty": {"bytes": 0, "sha256": hashlib.sha256().hexdigest()},
        "variables/variables.index": {"bytes": 3, "sha256": hashlib.sha256(b"abc").hexdigest()},
    }
    assert list_files(folder) == expected
    assert read_json(folder / MANIFEST) == {"name": "tiny", "files": expected}


def test_replaced_file_is_updated_in_the_list(folder: Path) -> None:
    (folder / "empty").write_bytes(b"no more")
    assert read_json(folder / MANIFEST)["files"] != list_files(folder)
    update_file_list(folder, folder / "empty")
    assert read_json(folder / MANIFEST) == {"name": "tiny", "files": list_files(folder)}
    assert sorted(path.name for path in folder.iterdir()) == ["empty", MANIFEST, "variables"]
