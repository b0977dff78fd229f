"""Base paths inside and outside the roots, however they are spelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.common.errors import PermissionDenied
from serving.config.models import ModelConfig
from serving.models.reload_roots import ReloadRoots


@pytest.fixture
def roots(tmp_path: Path) -> ReloadRoots:
    (tmp_path / "models" / "ctr").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "models" / "ctr" / "out").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in").symlink_to(tmp_path / "models" / "ctr")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    found = ReloadRoots([tmp_path / "wide"])
    found.follow([ModelConfig("ctr", tmp_path / "models" / "ctr")])
    return found


@pytest.mark.parametrize(
    "path", ["models/ctr", "models/ctr/", "models/ctr/a/../b", "in", "in/a", "wide", "wide/a/b"]
)
def test_reload_inside_the_roots_is_allowed(roots: ReloadRoots, tmp_path: Path, path: str) -> None:
    roots.require([ModelConfig("ctr", Path(f"{tmp_path}/{path}"))])


@pytest.mark.parametrize(
    "path",
    ["", "models", "models/ctr2", "models/ctr/..", "models/ctr/none/../../x", "models/ctr/out",
     "models/ctr/out/none", "elsewhere", "wider", "loop", "loop/a"],
)  # fmt: skip
def test_reload_outside_the_roots_is_denied(roots: ReloadRoots, tmp_path: Path, path: str) -> None:
    inside = ModelConfig("a", tmp_path / "wide")
    with pytest.raises(PermissionDenied, match="Model ctr: a reload may name"):
        roots.require([inside, ModelConfig("ctr", Path(f"{tmp_path}/{path}"))])
