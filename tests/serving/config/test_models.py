"""The model config file: what is read of it, and one clear error for each thing that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_serving.config import model_server_config_pb2

from serving.common.errors import InvalidArgument, NotFound
from serving.config.models import ModelConfig, model_configs
from serving.config.version_policy import All, Latest, Specific
from serving.models.config_watcher import ConfigWatcher

WHOLE = """
model_config_list {
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
}
"""


def _message(config: str) -> model_server_config_pb2.ModelServerConfig:
    return text_format.Parse(
        f"model_config_list {{ {config} }}", model_server_config_pb2.ModelServerConfig()
    )


def test_every_field_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "models.pbtxt"
    file.write_text(WHOLE)
    ctr, cvr, every, two, one = ConfigWatcher(file, pytest.fail).read()
    assert ctr == ModelConfig(
        "ctr",
        Path("/models/ctr"),
        Specific([42, 43]),
        {"stable": 42, "canary_2": 43},
    )
    assert "Model ctr: logging_config is ignored" in caplog.text
    assert cvr == ModelConfig("cvr", Path("/models/cvr"), Latest(1))
    assert (every.policy, two.policy, one.policy) == (All(), Latest(2), Latest(1))


def test_no_models_are_a_configuration_too() -> None:
    assert model_configs(_message("")) == ()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("base_path: '/m'", "A model's name must have 1 to 128 characters"),
        ("name: 'a'", "Model a has no base_path"),
        ("name: 'a' base_path: '/m\\0'", "Model a: a base_path must not have control characters"),
        ("name: 'a' base_path: '/m\\nERROR'", "Received: '/m\\nERROR'"),
        ("name: 'a' base_path: 'm/a'", "Expected model a to have an absolute path or URI; "
         "got base_path()=m/a"),
        ("name: 'a' base_path: 'gs://m/a'", "on this machine: mount the volume. Received: "
         "base_path()=gs://m/a"),
        ("name: 'a' base_path: '/m' model_platform: 'caffe'",
         "Model a requests unsupported platform caffe"),
        ("name: 'a' base_path: '/m' model_type: OTHER", "model_type choice 2 not supported"),
        ("name: 'a' base_path: '/m' model_type: TENSORFLOW model_platform: 'tensorflow'",
         "Model a: Illegal setting both"),
        ("name: 'a' base_path: '/m' version_labels { key: 'a-b' value: 1 }",
         "Model a: a version label must have letters, digits and _ only. Received: 'a-b'"),
        ("name: 'a' base_path: '/m' version_labels { key: '' value: 1 }", "Received: ''"),
        ("name: 'a' base_path: '/m' model_version_policy { specific {} }",
         "Model a: The policy specific names no version"),
    ],
)  # fmt: skip
def test_a_model_that_is_not_valid(config: str, words: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        model_configs(_message(f"config {{ {config} }}"))
    assert words in str(raised.value)


def test_a_name_twice() -> None:
    twice = "config { name: 'a' base_path: '/1' } config { name: 'a' base_path: '/2' }"
    with pytest.raises(InvalidArgument, match="Illegal to list model a multiple times"):
        model_configs(_message(twice))


def test_another_kind_of_configuration() -> None:
    message = model_server_config_pb2.ModelServerConfig()
    message.custom_model_config.SetInParent()
    for unsupported in (message, model_server_config_pb2.ModelServerConfig()):
        with pytest.raises(InvalidArgument, match="Only ModelConfigList is currently supported"):
            model_configs(unsupported)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"model_config_list {\n  config {\n    nme: 'a' } }", r"3:5 : .* no field named \"nme\""),
        (b"model_config_list {", "1:19 : "),
        (b"\xff\xfe", "is not a ModelServerConfig as text: byte 0 is not UTF-8"),
        (b"model_config_list { config { name: 'a' base_path: 'b' } }", "Expected model a to have"),
        (b"", "ServerModelConfig type not supported"),
    ],
    ids=["field", "end", "bytes", "model", "empty"],
)
def test_a_file_that_is_not_valid_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    file = tmp_path / "models.pbtxt"
    file.write_bytes(content)
    with pytest.raises(InvalidArgument, match=words) as raised:
        ConfigWatcher(file, pytest.fail).read()
    assert str(raised.value).startswith(str(file))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"none\.pbtxt: No such file"):
        ConfigWatcher(tmp_path / "none.pbtxt", pytest.fail).read()


def test_a_policy_for_no_version() -> None:
    with pytest.raises(InvalidArgument, match="num_versions to be 1 or more"):
        Latest(0)
