"""Configs of layers inside other layers."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import keras
import numpy as np

from recsys_attn.tensors import Config

_REPLACEMENTS: ContextVar[Mapping[int, Any] | None] = ContextVar("replacements", default=None)


def serialize(part: Any) -> Config | None:
    """Returns the config of a part of a layer; None for None.

    It has no `build_config`, with which Keras would build the part before its owner does.
    """
    part = (_REPLACEMENTS.get() or {}).get(id(part), part)
    if part is None:
        return None
    config = keras.saving.serialize_keras_object(part)
    config.pop("build_config", None)
    return config


@contextmanager
def replaced(parts: Mapping[Any, Any]) -> Iterator[None]:
    """Makes `serialize` return the configs of other layers in place of some.

    Layers are found by identity: names repeat, as a loaded layer keeps the name of another process.
    """
    token = _REPLACEMENTS.set({id(old): new for old, new in parts.items()})
    try:
        yield
    finally:
        _REPLACEMENTS.reset(token)


def deserialize(config: Any) -> Any:
    """Returns the part of a config; other objects are returned unchanged.

    So every argument for a layer accepts its config too, and `from_config` needs no override.
    """
    if not isinstance(config, Mapping):
        return config
    return keras.saving.deserialize_keras_object(config)


def unshared(config: Any) -> Any:
    """Returns the config of a part without the marks of shared objects.

    While Keras loads a model it marks objects by their address, and gives one that it has made for
    the same mark: not a new one, and after an address has come again that of another layer.
    """
    if isinstance(config, Mapping):
        return {key: unshared(x) for key, x in config.items() if key != "shared_object_id"}
    return [unshared(x) for x in config] if isinstance(config, list) else config


def with_own_seed(config: Any, index: int) -> Any:
    """Returns the config of a part for one of several equal layers, with its own seed.

    The seed is derived from that of the part and the index, so that layers have different noise.
    """
    seed = None if config is None else config["config"].get("seed")
    if not isinstance(seed, int):
        return config
    drawn = np.random.SeedSequence([seed, index]).generate_state(1) >> 1  # an int32
    return {**config, "config": {**config["config"], "seed": int(drawn[0])}}


def layer_of(name: str, identifier: Any, *arguments: str, such_as: str) -> Any:
    """Returns a layer for an instance or a config, and checks its call arguments.

    Raises:
        TypeError: It is not a layer, or its `call` does not have all arguments.
    """
    layer = deserialize(identifier)
    if isinstance(layer, keras.layers.Layer) and takes(layer, *arguments):
        return layer
    names = " and ".join(f"`{argument}`" for argument in arguments)
    raise TypeError(
        f"`{name}` must be a layer that takes {names}, such as {such_as}, or its config. "
        f"Received: {identifier!r} of type {type(identifier).__name__}"
    )


def takes(layer: keras.layers.Layer, *arguments: str) -> bool:
    """Returns whether a layer accepts all of these arguments by name."""
    names, takes_any = _parameters(getattr(layer.call, "__func__", layer.call))
    return takes_any or names.issuperset(arguments)


@functools.lru_cache(maxsize=1024)  # `inspect` takes longer than a small layer
def _parameters(call: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    """Returns the names of the parameters of a function, and whether it takes any other."""
    parameters = inspect.signature(call).parameters.values()
    several = [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = frozenset(p.name for p in parameters if p not in several)
    return names, any(p.kind is p.VAR_KEYWORD for p in several)


def arguments_of(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Returns the names of the call arguments of a layer."""
    parameters = inspect.signature(layer.call).parameters.values()
    return tuple(p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))


def nameless(config: Any) -> Any:
    """Returns a config without the names of its layers, so that a copy gets new names."""
    if isinstance(config, list | tuple):
        return [nameless(value) for value in config]
    if not isinstance(config, Mapping):
        return config
    options = config.get("config")
    if "registered_name" in config and isinstance(options, Mapping):
        options = {key: value for key, value in options.items() if key != "name"}
        config = {**config, "config": options}
    return {key: nameless(value) for key, value in config.items()}
