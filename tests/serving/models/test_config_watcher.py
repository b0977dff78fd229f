"""Reloads after changes of the model config file."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.common.errors import NotFound, Unavailable
from serving.config.models import ModelConfig
from serving.models.config_watcher import ConfigWatcher
from tests.serving.conftest import wait_until


class _Reloads:
    """The models of each reload; raises `error` if there is one."""

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


@pytest.fixture
def reload() -> _Reloads:
    return _Reloads()


@pytest.fixture
def watcher(path: Path, reload: _Reloads) -> ConfigWatcher:
    watcher = ConfigWatcher(path, reload)
    assert [model.name for model in watcher.read()] == ["a"]
    return watcher


def _write(path: Path, *names: str) -> None:
    configs = " ".join(f"config {{ name: '{name}' base_path: '/{name}' }}" for name in names)
    path.write_text(f"model_config_list {{ {configs} }}")


def test_invalid_file_is_logged_once(
    path: Path, reload: _Reloads, watcher: ConfigWatcher, caplog: pytest.LogCaptureFixture
) -> None:
    for content in ("model_config_list {", "nonsense", None):
        if content is None:
            path.unlink()
        else:
            path.write_text(content)
        watcher.poll()
        watcher.poll()
    errors = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 3
    assert all(str(path) in error for error in errors)
    assert all("the loaded models keep serving" in error for error in errors)
    assert reload.names == []
    with pytest.raises(NotFound, match=r"Cannot read .*models.pbtxt: No such file"):
        watcher.read()
    _write(path, "b")
    watcher.poll()
    assert reload.names == [["b"]]


def test_change_is_reloaded_until_it_succeeds(
    path: Path, reload: _Reloads, watcher: ConfigWatcher, caplog: pytest.LogCaptureFixture
) -> None:
    watcher.poll()
    assert reload.names == []
    _write(path, "a", "b")
    reload.error = Unavailable("not yet")
    for _ in range(3):
        watcher.poll()
    assert caplog.text.count("not yet") == 1
    reload.error = None
    watcher.poll()
    watcher.poll()
    assert reload.names == [["a", "b"]] * 4


@pytest.mark.parametrize("seconds", [0.005, 0.0])
def test_file_is_read_again_at_the_interval(
    path: Path, reload: _Reloads, watcher: ConfigWatcher, seconds: float
) -> None:
    watcher.start(seconds)
    _write(path, "b")
    if seconds:
        wait_until(lambda: ["b"] in reload.names)
    watcher.stop()
    assert bool(reload.names) == bool(seconds)
