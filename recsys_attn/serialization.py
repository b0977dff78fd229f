"""How layers that hold other layers are named, saved and read back."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

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


@dataclass(frozen=True)
class Family:
    """What fills one slot, by name.

    Args:
        kind: What a member is called in an error, with its article.
        members: What makes the member of each name; takes the member's arguments by keyword.
        type: What every member is an instance of.
        call: The first arguments of a member's `call`, where a layer of any class may be one.
        hint: What to do with a layer that has others.
    """

    kind: str
    members: Mapping[str, Callable[..., Any]]
    type: type = keras.layers.Layer
    call: tuple[str, ...] = ()
    hint: str = ""

    def get(self, identifier: Any, **defaults: Any) -> Any:
        """A member from an instance, a name or a config dict.

        Args:
            identifier: An instance (returned as it is), a name, what `serialize` wrote, or the
                short form `{"class_name": name, "config": {...}}`.
            defaults: Arguments of a member made here, such as its dtype policy; an instance or a
                saved config has its own.
        """
        if isinstance(identifier, Mapping) and "registered_name" not in identifier:
            return self._from_short_form(identifier, defaults)
        member = deserialize(identifier)
        if isinstance(member, self.type):
            self._require_call(member)
            return member
        return self._made(member, self._named(member), {}, defaults)

    def _from_short_form(self, given: Mapping[str, Any], defaults: Any) -> Any:
        name, config = given.get("class_name"), given.get("config") or {}
        make = self._named(name)
        unknown = set(given) - {"class_name", "config"}
        if unknown or not isinstance(config, Mapping):
            received = f"{sorted(unknown)} beside `class_name`" if unknown else f"config={config!r}"
            raise ValueError(
                f"Arguments of {name!r} stand in a table of their own: "
                f"{{ class_name = {name!r}, config = {{ ... }} }}. Received: {received}"
            )
        return self._made(name, make, config, defaults)

    def _require_call(self, member: Any) -> None:
        """Raises where a layer is called otherwise than a member of the family."""
        if not self.call:
            return
        received = arguments_of(member)[: len(self.call)]
        if received != self.call:
            expected, found = (", ".join([*names, "..."]) for names in (self.call, received))
            raise TypeError(
                f"Expected {self.kind}, which is a layer with `call({expected})`. {self.hint}. "
                f"Received: {member!r} with `call({found})`"
            )

    def _made(
        self, name: Any, make: Callable[..., Any], config: Mapping[str, Any], defaults: Any
    ) -> Any:
        _check_arguments(name, make, config)
        try:
            return make(**{**defaults, **config})
        except TypeError as error:
            twice = re.search(r"multiple values for (?:keyword )?argument '(\w+)'", str(error))
            if twice is None:
                raise
            raise ValueError(
                f"{name!r} has a {twice[1]!r} of its own; to choose another use the mechanism that "
                f"it is made of. Received: {name!r} with {twice[1]}={config.get(twice[1])!r}"
            ) from None

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
        if argument not in known | {"name", "dtype"}:
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
