"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.config import load_experiment

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("python")
    namespace: dict[str, Any] = {}
    exec(compile(example, "README.md", "exec"), namespace)
    scores = namespace["model"].probabilities(namespace["inputs"])
    assert {task: score.shape for task, score in scores.items()} == {
        "click": (256, 5),
        "purchase": (256, 5),
    }
    assert np.isfinite(scores["click"]).all()
    assert "(2, 5, 16)" in capsys.readouterr().out


def test_the_experiment_is_valid(tmp_path: Path) -> None:
    (example,) = blocks("toml")
    (tmp_path / "clicks.toml").write_text(example, encoding="utf-8")
    experiment = load_experiment(tmp_path / "clicks.toml")
    assert [feature.name for feature in experiment.features][-1] == "clicked_items"


@pytest.mark.parametrize(
    "path", sorted((ROOT / "experiments").glob("*.toml")), ids=lambda p: p.stem
)
def test_every_experiment_is_valid(path: Path) -> None:
    assert load_experiment(path).name == path.stem


def test_every_command_is_named() -> None:
    from pipelines.cli import main

    named = set(re.findall(r"^\| `recsys-attn ([a-z]+)", README, re.MULTILINE))
    assert named == set(main.list_commands(None))


def test_every_link_inside_the_repository_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing
