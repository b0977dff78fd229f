"""How layers that hold other layers are named, saved and read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from recsys_attn.checks import unknown_name
from recsys_attn.tensors import Config


def serialize(layer: keras.layers.Layer | None) -> Config | None:
    """The config of a layer held by another one; None for None.

    Keras adds `build_config` to a built child, and on reading would build the child before its
    parent does. The parent builds its children, so it is left out.
    """
    if layer is None:
        return None
    config = keras.saving.serialize_keras_object(layer)
    config.pop("build_config", None)
    return config


def deserialize(config: Any) -> keras.layers.Layer | None:
    """The layer that `serialize` wrote; a layer or None is returned as it is.

    So an argument that takes a layer takes its config too, and `from_config` needs no override.
    """
    if config is None or isinstance(config, keras.layers.Layer):
        return config
    return keras.saving.deserialize_keras_object(config)


@dataclass(frozen=True)
class Family:
    """Layers that fill one slot, by name.

    Args:
        kind: What a member is called in an error, with its article.
        members: What makes the member of each name; takes the member's arguments by keyword.
    """

    kind: str
    members: Mapping[str, Callable[..., keras.layers.Layer]]

    def get(self, identifier: Any, dtype: Any = None) -> keras.layers.Layer:
        """A member from an instance, a name or a config dict.

        Args:
            identifier: A layer (returned as it is), a name, what `serialize` wrote, or the short
                form `{"class_name": name, "config": {...}}`.
            dtype: Dtype policy of a member made here; an instance or a saved config has its own.
        """
        if isinstance(identifier, keras.layers.Layer):
            return identifier
        if not isinstance(identifier, Mapping):
            return self._named(identifier)(dtype=dtype)
        if "registered_name" in identifier:
            return deserialize(identifier)
        make = self._named(identifier.get("class_name"))
        return make(**{"dtype": dtype, **identifier.get("config", {})})

    def _named(self, name: Any) -> Callable[..., keras.layers.Layer]:
        if isinstance(name, str) and name in self.members:
            return self.members[name]
        raise ValueError(
            f"Expected {self.kind} as a layer, a config dict or a name. "
            + unknown_name(name, self.members)
        )
