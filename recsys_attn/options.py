"""Options of functions and tables, checked by their annotations. It takes no Keras."""

from __future__ import annotations

import functools
import inspect
import random
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from recsys_attn.checks import unknown_name
from recsys_attn.model_names import new_key
from recsys_attn.named_parts import NamedParts

Part = TypeVar("Part", bound=Callable[..., Any])
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Table:
    """The base class of tables of options: a subclass has an annotated field for each key.

    Example:

    >>> from dataclasses import dataclass
    >>> from recsys_attn.options import Table
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Shape(Table):
    ...     name: str = "circle"
    ...     filled: bool = False
    >>> Shape.of("square"), Shape.of({"filled": True}, default=Shape(name="line"))
    (Shape(name='square', filled=False), Shape(name='line', filled=True))
    """

    @classmethod
    def of(cls, options: Any, path: str = "", default: Self | None = None) -> Self:
        """Returns the checked table.

        Args:
            options: A table, a mapping of some of its keys, or the value of its key `name` alone.
            path: Its name in errors.
            default: Has the values of the keys that `options` leaves out.

        Raises:
            ValueError: A key is unknown or missing, or a value is wrong.
        """
        keys = vars(options) if isinstance(options, cls) else expanded(options, parameters(cls))
        if not isinstance(keys, Mapping):
            raise ValueError(
                f"`{path}`: expected a table with keys of {sorted(parameters(cls))}. "
                f"Received: {options!r}"
            )
        return cls(**check_options(cls, {**(vars(default) if default else {}), **keys}, path))


class CheckedFunctions(NamedParts[Part]):
    """Functions by name whose options are checked by their annotations."""

    def register(self, name: str) -> Callable[[Function], Function]:
        """Returns the decorator that enters a function, and returns it with its checks.

        Raises:
            ValueError: Another function has this name.
        """
        enter = super().register(name)
        return lambda function: enter(checked(function))


def checked(function: Function) -> Function:
    """Returns a function that checks its keyword arguments by their annotations.

    An annotation is `Annotated[type, check]`, with a function that raises a `ValueError` or a
    `TypeError` for a wrong value, or with a `Table`, which the function gets for any form of it; or
    a boolean, a string or a `Literal`. Others are not checked.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **check_options(function, options))

    return typing.cast(Function, call)


def check_options(owner: Any, options: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Returns the checked options of a function or of a table, whose name is `path`.

    Raises:
        ValueError: A name is unknown, a table lacks a key, or a value is wrong.
        TypeError: A part has another type.
    """
    known, prefix = parameters(owner), f"{path}." if path else ""
    for name in options:
        if name not in known and not _accepts_any(owner):
            moved = new_key(name, options[name], {key: table_keys(known[key]) for key in known})
            raise ValueError(moved or f"`{prefix}{name}` is unknown. {unknown_name(name, known)}")
    for name, parameter in known.items():
        required = _is_table(owner) and parameter.default is parameter.empty
        if required and name not in options:
            raise ValueError(f"`{prefix}{name}` is missing. Received: {dict(options)}")
    return {
        name: _checked(f"{prefix}{name}", known[name], value) if name in known else value
        for name, value in options.items()
    }


def expanded(options: Any, keys: Collection[str]) -> Any:
    """Returns the table for a short form, the value of its key `name`; others as they are."""
    is_config = isinstance(options, Mapping) and {"class_name", "registered_name"} & set(options)
    is_short = is_config or not isinstance(options, Mapping)
    return {"name": options} if is_short and "name" in keys else options


@functools.cache
def _parameters(owner: Any) -> Mapping[str, inspect.Parameter]:
    """Returns the named arguments of a function, or the keys of a table, with their types."""
    if not _is_table(owner):
        arguments = inspect.signature(owner, eval_str=True).parameters
        several = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return {
            name: argument for name, argument in arguments.items() if argument.kind not in several
        }
    hints = typing.get_type_hints(owner, include_extras=True)
    return {
        name: field.replace(annotation=hints[name])
        for name, field in inspect.signature(owner).parameters.items()
    }


# With a type of its own: mypy takes the class of a frozen dataclass for one without a hash.
parameters: Callable[[Any], Mapping[str, inspect.Parameter]] = _parameters


def _accepts_any(owner: Any) -> bool:
    """Returns whether a function takes keyword arguments of any name."""
    kinds = [argument.kind for argument in inspect.signature(owner).parameters.values()]
    return inspect.Parameter.VAR_KEYWORD in kinds


def table_of(annotation: Any) -> type[Table] | None:
    """Returns the class of the table that an option is; None for another option."""
    check = check_of(annotation)[0]
    return typing.cast(type[Table], check) if _is_table(check) else None


def table_keys(parameter: inspect.Parameter) -> Collection[str]:
    """Returns the keys of an option; none for one that is no table."""
    table = table_of(parameter.annotation)
    return () if table is None else tuple(parameters(table))


def check_of(annotation: Any) -> tuple[Callable[[Any], Any] | None, bool]:
    """Returns the check of an option, or None, and whether the option may be None."""
    kinds = [annotation]
    if get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = list(get_args(annotation))
    values = [kind for kind in kinds if kind is not type(None)]
    check = _check_of(values[0]) if len(values) == 1 else None
    return check, len(values) < len(kinds)


def _is_table(owner: Any) -> bool:
    return isinstance(owner, type) and issubclass(owner, Table)


def _check_of(kind: Any) -> Callable[[Any], Any] | None:
    if get_origin(kind) is Annotated:
        return get_args(kind)[1]
    if get_origin(kind) is Literal:
        return functools.partial(_require_name, get_args(kind))
    words = {bool: "True or False", str: "a string"}
    return functools.partial(_require_type, kind, words[kind]) if kind in words else None


def _checked(path: str, parameter: inspect.Parameter, value: Any) -> Any:
    check, optional = check_of(parameter.annotation)
    if check is None or (value is None and optional):
        return value
    table = table_of(parameter.annotation)
    if table is not None:
        default = parameter.default if isinstance(parameter.default, Table) else None
        return table.of(value, path, default)
    state = random.getstate()
    try:
        check(value)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"`{path}`: {error}") from None
    finally:
        random.setstate(state)  # a part that is made for its check draws seeds of initial weights
    return value


def _require_name(names: tuple[str, ...], value: Any) -> None:
    if not isinstance(value, str) or value not in names:
        raise ValueError(f"expected a name. {unknown_name(value, names)}")


def _require_type(kind: type, words: str, value: Any) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"expected {words}. Received: {value!r}")
