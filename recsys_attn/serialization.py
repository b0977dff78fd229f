"""How layers that hold other layers are named, saved and read back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from recsys_attn.checks import unknown_name
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


@dataclass(frozen=True)
class Family:
    """What fills one slot, by name.

    Args:
        kind: What a member is called in an error, with its article.
        members: What makes the member of each name; takes the member's arguments by keyword.
        type: What every member is an instance of.
    """

    kind: str
    members: Mapping[str, Callable[..., Any]]
    type: type = keras.layers.Layer

    def get(self, identifier: Any, **defaults: Any) -> Any:
        """A member from an instance, a name or a config dict.

        Args:
            identifier: An instance (returned as it is), a name, what `serialize` wrote, or the
                short form `{"class_name": name, "config": {...}}`.
            defaults: Arguments of a member made here, such as its dtype policy; an instance or a
                saved config has its own.
        """
        if isinstance(identifier, self.type):
            return identifier
        if not isinstance(identifier, Mapping):
            return self._made(identifier, self._named(identifier), {}, defaults)
        if "registered_name" in identifier:
            return deserialize(identifier)
        name, config = identifier.get("class_name"), identifier.get("config") or {}
        make = self._named(name)
        unknown = set(identifier) - {"class_name", "config"}
        if unknown:
            raise ValueError(
                f"Arguments of {name!r} stand in a table of their own: "
                f"{{ class_name = {name!r}, config = {{ ... }} }}. Received: {sorted(unknown)} "
                "beside `class_name`"
            )
        return self._made(name, make, config, defaults)

    def _made(
        self, name: Any, make: Callable[..., Any], config: Mapping[str, Any], defaults: Any
    ) -> Any:
        _check_arguments(name, make, config)
        return make(**{**defaults, **config})

    def _named(self, name: Any) -> Callable[..., Any]:
        if isinstance(name, str) and name in self.members:
            return self.members[name]
        raise ValueError(
            f"Expected {self.kind} as an instance, a config dict or a name. "
            + unknown_name(name, self.members)
        )


def _check_arguments(name: Any, make: Callable[..., Any], config: Mapping[str, Any]) -> None:
    known = _argument_names(make)
    for argument in config:
        if argument not in known | {"name", "dtype", "trainable"}:
            raise ValueError(
                f"{name!r} has no argument {argument!r}. {unknown_name(argument, known)}"
            )
    missing = [
        p.name
        for p in inspect.signature(make).parameters.values()
        if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD and p.name not in config
    ]
    if missing:
        raise ValueError(
            f"{name!r} needs {', '.join(map(repr, missing))}: "
            f"{{ class_name = {name!r}, config = {{ {missing[0]} = ... }} }}"
        )


def _argument_names(make: Callable[..., Any]) -> set[str]:
    """Those of a class; of a function also those of the class that it makes with `**kwargs`."""
    if isinstance(make, functools.partial):
        return _argument_names(make.func)
    if isinstance(make, type):
        parameters = inspect.signature(make).parameters.values()
        return {
            p.name
            for p in parameters
            if p.kind is p.POSITIONAL_OR_KEYWORD or p.kind is p.KEYWORD_ONLY
        }
    signature = inspect.signature(make, eval_str=True)
    names = {p.name for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD}
    return names | _argument_names(signature.return_annotation)
