"""What the README shows works as it stands there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.config import TrainingOptions, load_experiment
from recsys_attn.attention import presets

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_the_attention_example_runs() -> None:
    namespace: dict[str, Any] = {}
    exec(compile(blocks("python")[1], "README.md", "exec"), namespace)
    assert namespace["output"].shape == (2, 1, 16)


def test_the_attention_table_names_what_is_there(tmp_path: Path) -> None:
    """Its Python runs, its TOML is valid, and every preset has a row."""
    text = (ROOT / "recsys_attn/attention/README.md").read_text(encoding="utf-8")
    for block in blocks("python", text):
        exec(compile(block, "README.md", "exec"), {})
    (model,) = blocks("toml", text)
    experiment = re.sub(r"\[model\]\nname = .*\n", model, blocks("toml")[0])
    (tmp_path / "clicks.toml").write_text(experiment, encoding="utf-8")
    assert load_experiment(tmp_path / "clicks.toml").model.arguments["interaction"]
    named = set(re.findall(r"[`\"](\w+)", text))
    assert set(presets.PRESETS) - named == set()


def test_the_library_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    example = blocks("python")[0]
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

    named = set(re.findall(r"^\| `recsys-attn ([a-z-]+)", README, re.MULTILINE))
    assert named == set(main.list_commands(None))


def test_every_key_of_training_is_named_with_its_default() -> None:
    table = README.partition("| `[training]` |")[2].partition("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = [key for row in rows for key in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(TrainingOptions.model_fields)
    text = " ".join(rows)
    for name, field in TrainingOptions.model_fields.items():
        if isinstance(field.default, int | float) and not isinstance(field.default, bool):
            number = f"{field.default:,}" if field.default > 9999 else f"{field.default:g}"
            assert f"({number})" in text, name


def test_every_link_inside_the_repository_leads_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing
