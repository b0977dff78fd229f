"""Reads and checks the models of a server from TensorFlow Serving's `ModelServerConfig`.

    model_config_list {
      config {
        name: "ctr"
        base_path: "/models/ctr"
        model_platform: "tensorflow"
        model_version_policy { specific { versions: 42 versions: 43 } }
        version_labels { key: "stable" value: 42 }
      }
    }

Everything is checked before a server changes anything.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from tensorflow_serving.config import model_server_config_pb2

from serving.common.errors import InvalidArgument, ServingError
from serving.config.text_protos import parse_text
from serving.config.version_policy import All, Latest, Policy, Specific

_LOGGER = logging.getLogger(__name__)
_PLATFORM = "tensorflow"
_LABEL = re.compile(r"[a-zA-Z0-9_]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")  # would break lines of the log
_NAME_LENGTH = 128
_URI = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")


@dataclass(frozen=True)
class ModelConfig:
    """One model of a server.

    Args:
        name: Name of the model in requests.
        base_path: Folder of its versions, `<version>/saved_model.pb`.
        policy: Chooses the versions to serve. Defaults to the newest.
        version_labels: Versions by label, such as `{"stable": 42}`.
    """

    name: str
    base_path: Path
    policy: Policy = field(default_factory=Latest)
    version_labels: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_path", Path(self.base_path))
        object.__setattr__(self, "version_labels", MappingProxyType(dict(self.version_labels)))
        _require_name(self.name)
        if _CONTROL.search(str(self.base_path)):
            raise InvalidArgument(
                f"Model {self.name}: a base_path must not have control characters. "
                f"Received: {str(self.base_path)!r}"
            )
        for label in self.version_labels:
            if _LABEL.fullmatch(label) is None:
                raise InvalidArgument(
                    f"Model {self.name}: a version label must have letters, digits and _ only. "
                    f"Received: {label!r}"
                )


def _require_name(name: str) -> None:
    if name and len(name) <= _NAME_LENGTH and not (_CONTROL.search(name) or set("/:") & set(name)):
        return
    raise InvalidArgument(
        f"A model's name must have 1 to {_NAME_LENGTH} characters, none of them /, : or a control "
        f"character. Received: {name[: _NAME_LENGTH + 1]!r}"
    )


def require_unique(models: Iterable[ModelConfig]) -> None:
    """Raises an error if two models have the same name."""
    names = set()
    for model in models:
        if model.name in names:
            raise InvalidArgument(
                f"Illegal to list model {model.name} multiple times in config list"
            )
        names.add(model.name)


def parse_model_config(content: bytes, source: str) -> tuple[ModelConfig, ...]:
    """Parses the models of a text proto.

    Raises:
        ServingError: The text or a model is not valid; the message starts with `source` and
            names the line or the model.
    """
    message = parse_text(model_server_config_pb2.ModelServerConfig, content, source)
    try:
        return model_configs(message)
    except ServingError as error:
        raise type(error)(f"{source}: {error}", error.code) from error


def model_configs(
    message: model_server_config_pb2.ModelServerConfig,
) -> tuple[ModelConfig, ...]:
    """Returns the models of a message; the list may be empty.

    Raises:
        InvalidArgument: The message has no list of models, or one of them is not valid.
    """
    if message.WhichOneof("config") != "model_config_list":
        raise InvalidArgument(
            "ServerModelConfig type not supported by HandleReloadConfigRequest. "
            "Only ModelConfigList is currently supported"
        )
    models = tuple(_model(config) for config in message.model_config_list.config)
    require_unique(models)
    return models


def _model(config: model_server_config_pb2.ModelConfig) -> ModelConfig:
    _require_name(config.name)
    _require_tensorflow(config)
    _require_folder(config)
    try:
        policy = _policy(config)
    except InvalidArgument as error:
        raise InvalidArgument(f"Model {config.name}: {error}") from error
    if config.HasField("logging_config"):
        _LOGGER.warning(
            "Model %s: logging_config is ignored. The options prediction_log_dir and "
            "prediction_log_sampling_rate log the requests of all models",
            config.name,
        )
    return ModelConfig(config.name, Path(config.base_path), policy, dict(config.version_labels))


def _require_tensorflow(config: model_server_config_pb2.ModelConfig) -> None:
    if config.model_type and config.model_platform:
        raise InvalidArgument(
            f"Model {config.name}: Illegal setting both ModelServerConfig::model_type (deprecated) "
            "and ModelServerConfig::model_platform."
        )
    if config.model_type not in (0, model_server_config_pb2.TENSORFLOW):
        raise InvalidArgument(
            f"Model {config.name}: ModelServerConfig::model_type choice {config.model_type} "
            "not supported."
        )
    if config.model_platform not in ("", _PLATFORM):
        raise InvalidArgument(
            f"Model {config.name} requests unsupported platform {config.model_platform}. "
            f"Expected: {_PLATFORM}"
        )


def _require_folder(config: model_server_config_pb2.ModelConfig) -> None:
    if not config.base_path:
        raise InvalidArgument(f"Model {config.name} has no base_path.")
    if _URI.match(config.base_path):
        raise InvalidArgument(
            f"Model {config.name} needs a base_path on this machine: mount the volume. "
            f"Received: base_path()={config.base_path}"
        )
    if not Path(config.base_path).is_absolute():
        raise InvalidArgument(
            f"Expected model {config.name} to have an absolute path or URI; "
            f"got base_path()={config.base_path}"
        )


def _policy(config: model_server_config_pb2.ModelConfig) -> Policy:
    message = config.model_version_policy
    match message.WhichOneof("policy_choice"):
        case "all":
            return All()
        case "specific":
            return Specific(message.specific.versions)
    # As TensorFlow Serving reads it, `latest { }` asks for one version.
    return Latest(max(message.latest.num_versions, 1))
