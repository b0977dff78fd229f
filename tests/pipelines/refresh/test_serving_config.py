"""The server reads exactly the versions that the decisions leave."""

from pathlib import Path

from pipelines.refresh.history import History
from pipelines.refresh.serving_config import FILE, write_serving_config
from serving.config.models import ModelConfig, parse_model_config
from serving.config.version_policy import Specific


def served(run: Path, history: History) -> ModelConfig:
    write_serving_config(history, run / "export/clicks")
    (model,) = parse_model_config((run / FILE).read_bytes(), FILE)
    return model


def test_config_follows_the_decisions(tmp_path: Path) -> None:
    history = History.of(tmp_path).add(1, "adopted")
    model = served(tmp_path, history)
    assert (model.name, model.base_path) == ("clicks", (tmp_path / "export/clicks").resolve())
    assert (model.policy, dict(model.version_labels)) == (Specific((1,)), {"stable": 1})

    history = history.add(2, "refused", behind=1).add(3, "published", behind=1)
    model = served(tmp_path, history)
    assert model.policy == Specific((1, 3))
    assert dict(model.version_labels) == {"stable": 1, "canary": 3}

    rolled_back = served(tmp_path, History(history.path, history.add(3, "rolled back").decisions))
    assert rolled_back.policy == Specific((1,))
    promoted = served(tmp_path, History(history.path, history.decisions).add(3, "promoted"))
    assert (promoted.policy, dict(promoted.version_labels)) == (Specific((3,)), {"stable": 3})


def test_config_that_is_current_is_not_written(tmp_path: Path) -> None:
    history = History.of(tmp_path).add(1, "adopted")
    served(tmp_path, history)
    before = (tmp_path / FILE).stat().st_mtime_ns
    served(tmp_path, history)
    assert (tmp_path / FILE).stat().st_mtime_ns == before
