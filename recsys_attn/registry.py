"""Registries of layers, which make a part from a name or a config."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import keras

from recsys_attn.checks import unknown_name
from recsys_attn.named_parts import require_free
from recsys_attn.serialization import arguments_of, deserialize

Member = TypeVar("Member", bound=type)


@dataclass(frozen=True)
class Registry:
    """The members of one kind of part, such as the scores, by name.

    Each folder defines its registry in `base.py`, and each class registers itself. So a class that
    contains other members (`Sum` of scores) needs no import of them.

    Args:
        kind: The name of a member in an error, with its article.
        folder: Prefix of the name under which Keras saves a class, as in `scores.Dot`.
        type: The base class of every member.
        call: The first arguments of a member's `call`, if any layer may be a member.
        hint: Advice in the error for a layer with other arguments.
        members: The classes by name, or functions that make a member; `register` fills it.
        reserved: Functions by name that stand beside the members, such as the presets; no member
            may take such a name.

    Example:

    >>> import keras
    >>> from recsys_attn.registry import Registry
    >>> SHAPES = Registry("a shape", "shapes")
    >>> @SHAPES.register("circle", unit_circle={"radius": 1.0})
    ... class Circle(keras.layers.Layer):
    ...     def __init__(self, radius=2.0, **kwargs):
    ...         super().__init__(**kwargs)
    ...         self.radius = radius
    >>> SHAPES.get("circle").radius, SHAPES.get("unit_circle").radius
    (2.0, 1.0)
    """

    kind: str
    folder: str
    type: type = keras.layers.Layer
    call: tuple[str, ...] = ()
    hint: str = ""
    members: MutableMapping[str, Callable[..., Any]] = field(default_factory=dict)
    reserved: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def register(
        self, name: str, *, saved_as: str = "", **aliases: Mapping[str, Any]
    ) -> Callable[[Member], Member]:
        """Returns the decorator that enters a class here and at Keras.

        Args:
            name: The name of the member.
            saved_as: The name of the class in saved models. Defaults to its own name.
            aliases: More names, each with the arguments that it fixes.

        Raises:
            ValueError: Another class has one of the names.
        """

        def enter(member: Member) -> Member:
            kind = self.kind.partition(" ")[2]
            for taken in (name, *aliases):
                require_free(kind, taken, member, {**self.members, **self.reserved})
            self.members[name] = member
            for alias, fixed in aliases.items():
                self.members[alias] = functools.partial(member, **fixed)
            saved_name = f"{self.folder}.{saved_as or member.__name__}"
            return keras.saving.register_keras_serializable("recsys_attn", saved_name)(member)

        return enter

    def get(self, identifier: Any, **defaults: Any) -> Any:
        """Returns a member for an instance, a name or a config dict.

        Args:
            identifier: An instance (returned as it is), a name, the result of `serialize`, or the
                short form `{"class_name": name, "config": {...}}`.
            defaults: Arguments for a new member, such as its dtype policy. An instance or a saved
                config keeps its own.
        """
        if isinstance(identifier, Mapping) and "registered_name" not in identifier:
            return self._from_short_form(identifier, defaults)
        member = deserialize(identifier)
        if isinstance(member, self.type):
            self._require_call(member)
            return member
        if self.hint and isinstance(member, keras.layers.Layer):
            raise TypeError(f"Expected {self.kind}. {self.hint}. Received: {member!r}")
        return _make(member, self._maker(member), {}, defaults)

    def _from_short_form(self, short_form: Mapping[str, Any], defaults: Any) -> Any:
        name, config = short_form.get("class_name"), short_form.get("config") or {}
        if name is None:
            raise ValueError(
                f"Expected `class_name` in the config of {self.kind}: {{ class_name = ..., "
                f"config = {{ ... }} }}. Received: {sorted(short_form)}"
            )
        make = self._maker(name)
        unknown = set(short_form) - {"class_name", "config"}
        if unknown or not isinstance(config, Mapping):
            received = f"{sorted(unknown)} beside `class_name`" if unknown else f"config={config!r}"
            raise ValueError(
                f"Arguments of {name!r} stand in a table of their own: "
                f"{{ class_name = {name!r}, config = {{ ... }} }}. Received: {received}"
            )
        return _make(name, make, config, defaults)

    def _require_call(self, member: Any) -> None:
        """Raises if `call` of a layer has other arguments than a member's."""
        if not self.call:
            return
        received = arguments_of(member)[: len(self.call)]
        if received != self.call:
            expected, actual = (", ".join([*names, "..."]) for names in (self.call, received))
            raise TypeError(
                f"Expected {self.kind}, which is a layer with `call({expected})`. {self.hint}. "
                f"Received: {member!r} with `call({actual})`"
            )

    def _maker(self, name: Any) -> Callable[..., Any]:
        if isinstance(name, str) and name in self.members:
            return self.members[name]
        raise ValueError(
            f"Expected {self.kind} as a name, a config or an instance. "
            + unknown_name(name, self.members)
        )


def _make(
    name: Any, make: Callable[..., Any], config: Mapping[str, Any], defaults: Mapping[str, Any]
) -> Any:
    _check_arguments(name, make, config)
    policy = defaults.get("dtype")
    if (
        policy is not None and type(policy) is keras.DTypePolicy
    ):  # Keras makes the config of a class with plain arguments
        defaults = {**defaults, "dtype": policy.name}
    try:
        return make(**{**defaults, **config})
    except TypeError as error:
        twice = re.search(r"multiple values for (?:keyword )?argument '(\w+)'", str(error))
        if twice is None:
            raise
        raise ValueError(
            f"{name!r} sets {twice[1]!r} itself; to choose another, use the mechanism behind the "
            f"preset. Received: {name!r} with {twice[1]}={config.get(twice[1])!r}"
        ) from None


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
    """Returns the arguments of a class; for a function also those of the class it returns."""
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
