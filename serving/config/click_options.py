"""The command line's options, made from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any

import click

_TYPES = {"str": click.STRING, "bool": click.BOOL}


def either_spelling(name: str) -> str:
    """`--model_config_file`, as TensorFlow Serving has it, is `--model-config-file`."""
    return name.replace("_", "-")


def options_of(config: type) -> Callable[[Any], Any]:
    """Gives a command an option for each field, with the field's default, range and help.

    Args:
        config: A dataclass; `metadata` of its fields has `help`, `low` and `high`.
    """

    def decorate(command: Any) -> Any:
        for one in reversed(fields(config)):
            command = _option(one)(command)
        return command

    return decorate


def _option(one: Field[Any]) -> Callable[[Any], Any]:
    more: dict[str, Any] = {}
    if one.type == "bool":
        more = {"is_flag": False, "flag_value": True}
    return click.option(
        f"--{either_spelling(one.name)}",
        one.name,
        default=one.default,
        type=_type(one),
        show_default=one.default not in ("", False),
        help=one.metadata["help"],
        **more,
    )


def _type(one: Field[Any]) -> click.ParamType[Any]:
    low, high = one.metadata["low"], one.metadata["high"]
    if one.type == "int":
        return click.IntRange(low, high)
    if one.type == "float":
        return click.FloatRange(low, high)
    return _TYPES[str(one.type)]
