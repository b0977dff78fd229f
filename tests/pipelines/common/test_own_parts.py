"""A user's modules are found, imported once, and hashed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.common.errors import PipelineError
from pipelines.common.own_parts import OwnParts
from tests.support import registries


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with registries.restored(tmp_path.resolve()):
        yield tmp_path.resolve()


def test_module_beside_the_file_is_imported(folder: Path) -> None:
    (folder / "own_first.py").write_text("VALUE = 7")
    (folder / "own_package").mkdir()
    (folder / "own_package" / "__init__.py").touch()
    (folder / "own_package" / "part.py").write_text("import own_first\nVALUE = own_first.VALUE")
    OwnParts(("own_package.part",), str(folder)).load()
    assert sys.modules["own_package.part"].VALUE == 7


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("own_absent", None, r"no module 'own_absent' is found.*own_absent\.py in .*Searched: "),
        ("my scores", None, "names modules, such as 'my_scores'.* Received: 'my scores'"),
        ("json", "", r"is at .*json\.py, but Python finds another module .* first: .*Rename yours"),
        ("own_wrong", "x = 1\nraise KeyError('x')", r"KeyError: 'x' \(.*own_wrong\.py, line 2\)"),
        ("own_needs", "import not_installed", "No module named 'not_installed'"),
        (
            "own_taken",
            "from recsys_attn.models import MODELS\n@MODELS.register('din')\ndef mine(): ...",
            r"The name 'din' belongs to another model, recsys_attn\.models\.din\.din",
        ),
        (
            "own_preset",
            "from recsys_attn.attention.mechanisms import MECHANISMS, Mechanism\n"
            "@MECHANISMS.register('performer')\nclass Mine(Mechanism): ...",
            r"The name 'performer' belongs to another mechanism, .*presets\.performer",
        ),
    ],
)
def test_module_that_cannot_be_used_is_an_error(
    name: str, text: str | None, message: str, folder: Path
) -> None:
    if text is not None:
        (folder / f"{name}.py").write_text(text)
    with pytest.raises(PipelineError, match=message):
        OwnParts((name,), str(folder)).load()


def test_hash_follows_all_files_of_a_package(folder: Path) -> None:
    package = folder / "own_hashed"
    package.mkdir()
    (package / "__init__.py").touch()
    parts = OwnParts(("own_hashed",), str(folder))
    hashes = [parts.hashes()]
    for text in ("x = 1", "x = 2", "x = 1"):
        (package / "more.py").write_text(text)
        hashes.append(parts.hashes())
    assert hashes[1] == hashes[3]
    assert len({found["own_hashed"] for found in hashes}) == 3
