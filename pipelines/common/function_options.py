"""Tables of the experiment file made from the keyword arguments of a function."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, create_model

from pipelines.common.toml_table import TomlTable
from recsys_attn import options

Table = TypeVar("Table", bound=TomlTable)


def options_of(
    function: Callable[..., Any],
    base: type[Table],
    without: Collection[str] = (),
    **more: Any,
) -> type[Table]:
    """A table with a key for each keyword-only argument of a function.

    Args:
        function: Its annotations are the types; `Annotated[type, check]` has a function that
            raises a ValueError or a TypeError for a wrong value, or an `options.Table`, which is a
            table of the file too. Without one, any value fits.
        base: The class to extend.
        without: Arguments that are no keys.
        more: More fields, as `pydantic.create_model` takes them.
    """
    fields: dict[str, Any] = {
        name: _field(parameter)
        for name, parameter in options.parameters(function).items()
        if parameter.kind is parameter.KEYWORD_ONLY and name not in without
    }
    name = f"{function.__name__}_options"
    return create_model(name, __base__=base, __doc__=function.__doc__, **{**fields, **more})


def short_form(table: type[TomlTable], keys: Collection[str]) -> Any:
    """The type of a table of which the value of its key `name` may stand alone."""
    return Annotated[table, BeforeValidator(functools.partial(_expanded, keys=keys))]


def _expanded(value: Any, keys: Collection[str]) -> Any:
    """The whole table. Its lists are tuples, as pydantic is strict about values of a validator."""
    table = options.expanded(value, keys)
    if not isinstance(table, dict):
        return table
    return {key: tuple(item) if isinstance(item, list) else item for key, item in table.items()}


def _field(parameter: inspect.Parameter) -> tuple[Any, Any]:
    """The type of an option and its default."""
    default = ... if parameter.default is parameter.empty else parameter.default
    table: Any = options.table_of(parameter.annotation)
    if table is not None:
        kind = _table(table, default if isinstance(default, table) else None)
        field: Any = short_form(kind, kind.model_fields)
        if isinstance(default, table):
            return field, kind()
        return (field | None if default is None else field), default
    annotation = parameter.annotation
    return Any if annotation is parameter.empty else _checked(annotation), default


@functools.cache
def _table(table: Any, default: options.Table | None) -> type[TomlTable]:
    """The table of the file for a table of options; its keys have the values of `default`."""
    parent = table.__bases__[0]
    base = TomlTable if parent is options.Table else _table(parent, None)
    defaults = {} if default is None else vars(default)
    fields: dict[str, Any] = {
        name: _field(parameter.replace(default=defaults.get(name, parameter.default)))
        for name, parameter in options.parameters(table).items()
    }
    return create_model(table.__name__, __base__=base, __doc__=table.__doc__, **fields)


def _checked(annotation: Any) -> Any:
    """The annotation of an option; parts of attention are built once, to check them."""
    if get_origin(annotation) is Annotated:
        plain, make = get_args(annotation)
        return Annotated[_plain(plain), AfterValidator(functools.partial(_try, make)), make]
    if get_origin(annotation) in (types.UnionType, Union):
        return functools.reduce(operator.or_, map(_checked, get_args(annotation)))
    return annotation


def _plain(annotation: Any) -> Any:
    """A type without checks; a list of the file equals a tuple of the code."""
    if get_origin(annotation) is Sequence:
        return types.GenericAlias(tuple, (get_args(annotation)[0], ...))
    if get_origin(annotation) in (types.UnionType, Union):
        return functools.reduce(operator.or_, map(_plain, get_args(annotation)))
    return annotation


def _try(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        make(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value
