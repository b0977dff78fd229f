"""The model config file: every field is read, and every mistake is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from serving.common.errors import InvalidArgument, NotFound
from serving.config.models import ModelConfig
from serving.config.version_policy import All, Latest, Specific
from serving.models.config_watcher import ConfigWatcher

WHOLE = """
config {
  name: 'ctr'
  base_path: '/models/ctr'
  model_platform: 'tensorflow'
  model_version_policy { specific { versions: 42 versions: 43 } }
  version_labels { key: 'stable' value: 42 }
  version_labels { key: 'canary_2' value: 43 }
  logging_config {
    sampling_config { sampling_rate: 0.25 }
    log_collector_config { type: 'parquet' filename_prefix: '/logs/ctr' }
  }
}
config { name: 'cvr' base_path: '/models/cvr' model_type: TENSORFLOW }
config { name: 'all' base_path: '/models/all' model_version_policy { all {} } }
config { name: 'two' base_path: '/m/2' model_version_policy { latest { num_versions: 2 } } }
config { name: 'one' base_path: '/m/1' model_version_policy { latest {} } }
"""
Read = Callable[[bytes], tuple[ModelConfig, ...]]
A = "config { name: 'a' base_path: '/m' %s }"


def _list(*configs: str) -> bytes:
    return f"model_config_list {{ {' '.join(configs)} }}".encode()


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a model config file of this content."""

    def read(content: bytes) -> tuple[ModelConfig, ...]:
        (tmp_path / "models.pbtxt").write_bytes(content)
        return ConfigWatcher(tmp_path / "models.pbtxt", pytest.fail).read()

    return read


def test_every_field_is_read(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    ctr, cvr, every, two, one = read(_list(WHOLE))
    assert ctr == ModelConfig(
        "ctr", Path("/models/ctr"), Specific([42, 43]), {"stable": 42, "canary_2": 43}
    )
    assert "Model ctr: logging_config is ignored" in caplog.text
    assert cvr == ModelConfig("cvr", Path("/models/cvr"), Latest(1))
    assert (every.policy, two.policy, one.policy) == (All(), Latest(2), Latest(1))
    assert read(_list()) == ()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (_list("config { base_path: '/m' }"), "A model's name must have 1 to 128 characters"),
        (_list("config { name: 'a' }"), "Model a has no base_path"),
        (_list(r"config { name: 'a' base_path: '/m\0' }"), "must not have control characters"),
        (_list(r"config { name: 'a' base_path: '/m\nERROR' }"), r"Received: '/m\nERROR'"),
        (
            _list("config { name: 'a' base_path: 'm/a' }"),
            "Expected model a to have an absolute path or URI; got base_path()=m/a",
        ),
        (
            _list("config { name: 'a' base_path: 'gs://m/a' }"),
            "on this machine: mount the volume. Received: base_path()=gs://m/a",
        ),
        (_list(A % "model_platform: 'caffe'"), "Model a requests unsupported platform caffe"),
        (_list(A % "model_type: OTHER"), "model_type choice 2 not supported"),
        (
            _list(A % "model_type: TENSORFLOW model_platform: 'tensorflow'"),
            "Model a: Illegal setting both",
        ),
        (_list(A % "version_labels { key: 'a-b' value: 1 }"), "digits and _ only. Received: 'a-b'"),
        (_list(A % "version_labels { key: '' value: 1 }"), "Received: ''"),
        (
            _list(A % "model_version_policy { specific {} }"),
            "Model a: The policy specific names no version",
        ),
        (_list(A % "", A % ""), "Illegal to list model a multiple times"),
        (b"custom_model_config {}", "Only ModelConfigList is currently supported"),
        (b"", "ServerModelConfig type not supported"),
        (b"model_config_list {\n  config {\n    nme: 'a' } }", "3:5 : "),
        (b"model_config_list {", "1:19 : "),
        (b"\xff\xfe", "is not a ModelServerConfig as text: byte 0 is not UTF-8"),
    ],
)
def test_invalid_config_error_names_the_file(read: Read, content: bytes, words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        read(content)
    assert words in str(raised.value)
    assert "models.pbtxt: " in str(raised.value) or "models.pbtxt is not" in str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.pbtxt: No such file"):
        ConfigWatcher(tmp_path / "none.pbtxt", pytest.fail).read()


def test_a_policy_needs_a_version() -> None:
    with pytest.raises(InvalidArgument, match="num_versions to be 1 or more"):
        Latest(0)
