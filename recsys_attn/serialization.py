"""How layers that hold other layers are named, saved and read back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from recsys_attn.tensors import Config


def serialize(part: Any) -> Config | None:
    """The config of a layer or a pattern held by a layer; None for None.

    Keras adds `build_config` to a built child, and on reading would build the child before its
    parent does. The parent builds its children, so it is left out.
    """
    if part is None:
        return None
    config = keras.saving.serialize_keras_object(part)
    config.pop("build_config", None)
    return config


def deserialize(config: Any) -> Any:
    """What `serialize` wrote; anything but a config is returned as it is.

    So an argument that takes a layer takes its config too, and `from_config` needs no override.
    """
    if not isinstance(config, Mapping):
        return config
    return keras.saving.deserialize_keras_object(config)


def with_own_seed(config: Any, index: int) -> Any:
    """What `serialize` wrote of a part, for the layer of this index among several alike.

    Where the part has a seed, each layer's is drawn from it, so that no two have the same noise.
    """
    seed = None if config is None else config["config"].get("seed")
    if not isinstance(seed, int):
        return config
    own = np.random.SeedSequence([seed, index]).generate_state(1) >> 1  # an int32
    return {**config, "config": {**config["config"], "seed": int(own[0])}}


def layer_of(name: str, given: Any, *arguments: str, such_as: str) -> Any:
    """A layer that takes these arguments, from an instance or its config.

    Raises:
        TypeError: It is no layer, or its `call` has not all of the arguments.
    """
    layer = deserialize(given)
    if isinstance(layer, keras.layers.Layer) and takes(layer, *arguments):
        return layer
    wanted = " and ".join(f"`{argument}`" for argument in arguments)
    raise TypeError(
        f"`{name}` must be a layer that takes {wanted}, such as {such_as}, or its config. "
        f"Received: {given!r} of type {type(given).__name__}"
    )


def takes(layer: keras.layers.Layer, *arguments: str) -> bool:
    """Whether a layer can be called with all of these by keyword."""
    parameters = inspect.signature(layer.call).parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return takes_any or set(arguments) <= set(arguments_of(layer))


def arguments_of(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Names of what a layer is called with."""
    parameters = inspect.signature(layer.call).parameters.values()
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
