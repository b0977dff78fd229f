"""Tables of the experiment file made from the keyword arguments of a function."""

from __future__ import annotations

import functools
import inspect
import operator
import types
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, create_model

from pipelines.common.toml_table import TomlTable

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
            raises a ValueError or a TypeError for a wrong value. Without one, any value fits.
        base: The class to extend.
        without: Arguments that are no keys.
        more: More fields, as `pydantic.create_model` takes them.
    """
    fields: dict[str, Any] = {
        parameter.name: (
            Any if parameter.annotation is parameter.empty else _checked(parameter.annotation),
            ... if parameter.default is parameter.empty else parameter.default,
        )
        for parameter in inspect.signature(function, eval_str=True).parameters.values()
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name not in without
    }
    name = f"{function.__name__}_options"
    return create_model(name, __base__=base, __doc__=function.__doc__, **fields, **more)


def _checked(annotation: Any) -> Any:
    """The annotation of an option; parts of attention are built once, to check them."""
    if get_origin(annotation) is Annotated:
        plain, make = get_args(annotation)
        if get_origin(plain) is Sequence:  # a list of the file equals a tuple of the code
            plain = types.GenericAlias(tuple, (get_args(plain)[0], ...))
        return Annotated[plain, AfterValidator(functools.partial(_try, make)), make]
    if get_origin(annotation) in (types.UnionType, Union):
        return functools.reduce(operator.or_, map(_checked, get_args(annotation)))
    return annotation


def _try(make: Callable[[Any], Any], value: Any) -> Any:
    try:
        make(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    return value
