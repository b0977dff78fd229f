"""The model config file that is followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.common.errors import NotFound, Unavailable
from serving.config.models import ModelConfig
from serving.models.config_watcher import ConfigWatcher
from tests.serving.conftest import wait_until


class _Reloads:
    """Takes what is reloaded; raises `error` while there is one."""

    def __init__(self) -> None:
        self.names: list[list[str]] = []
        self.error: Exception | None = None

    def __call__(self, models: tuple[ModelConfig, ...]) -> None:
        self.names.append([model.name for model in models])
        if self.error is not None:
            raise self.error


@pytest.fixture
def path(tmp_path: Path) -> Path:
    _write(tmp_path / "models.pbtxt", "a")
    return tmp_path / "models.pbtxt"


def _write(path: Path, *names: str) -> None:
    configs = " ".join(f"config {{ name: '{name}' base_path: '/{name}' }}" for name in names)
    path.write_text(f"model_config_list {{ {configs} }}")


def test_a_change_is_reloaded_once(path: Path) -> None:
    reload = _Reloads()
    file = ConfigWatcher(path, reload)
    assert [model.name for model in file.read()] == ["a"]
    file.poll()
    assert reload.names == [], "nothing has changed since it was read"
    _write(path, "a", "b")
    file.poll()
    file.poll()
    assert reload.names == [["a", "b"]]


def test_a_broken_file_is_logged_once_per_content(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reload = _Reloads()
    file = ConfigWatcher(path, reload)
    file.read()
    for content in ("model_config_list {", "nonsense"):
        path.write_text(content)
        file.poll()
        file.poll()
    path.unlink()
    file.poll()
    file.poll()
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 3
    assert all(str(path) in error and "the loaded models keep serving" in error for error in errors)
    assert reload.names == []
    _write(path, "b")
    file.poll()
    assert reload.names == [["b"]]


def test_a_reload_that_fails_is_tried_again_and_logged_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    reload = _Reloads()
    file = ConfigWatcher(path, reload)
    file.read()
    _write(path, "b")
    reload.error = Unavailable("not yet")
    for _ in range(3):
        file.poll()
    assert caplog.text.count("not yet") == 1
    reload.error = None
    file.poll()
    file.poll()
    assert reload.names == [["b"]] * 4


def test_it_is_read_at_intervals(path: Path) -> None:
    reload = _Reloads()
    file = ConfigWatcher(path, reload)
    file.read()
    file.start(0.005)
    _write(path, "b")
    wait_until(lambda: ["b"] in reload.names)
    file.stop()


def test_it_is_never_read_again_at_no_interval(path: Path) -> None:
    file = ConfigWatcher(path, _Reloads())
    file.start(0)
    file.stop()


def test_a_file_that_is_not_there_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"Cannot read .*none: No such file"):
        ConfigWatcher(tmp_path / "none", _Reloads()).read()
