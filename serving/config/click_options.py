"""Options of a command line, made from the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from typing import Any

import click

_TYPES = {"str": click.STRING, "bool": click.BOOL, "int": click.INT, "float": click.FLOAT}
_METAVARS = {"bool": "[true|false]", "int": "INTEGER", "float": "NUMBER"}


class GroupedCommand(click.Command):
    """A command whose `--help` shows its options under the headings of their groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", "Options"), []).append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


class _GroupedOption(click.Option):
    def __init__(self, *names: Any, group: str, **settings: Any) -> None:
        super().__init__(*names, **settings)
        self.group = group


def either_spelling(name: str) -> str:
    """Turns TensorFlow Serving's `--model_config_file` into `--model-config-file`."""
    return name.replace("_", "-")


def options_of(config: type) -> Callable[[Any], Any]:
    """Adds an option for each field to a command, with the field's default, range and help.

    Args:
        config: A dataclass; `metadata` of its fields has `help`, `low`, `high` and `group`.
    """

    def decorate(command: Any) -> Any:
        for one in reversed(fields(config)):
            command = _option(one)(command)
        return command

    return decorate


def _option(one: Field[Any]) -> Callable[[Any], Any]:
    settings: dict[str, Any] = {}
    if one.type == "bool":
        settings = {"is_flag": False, "flag_value": True}
    return click.option(
        f"--{either_spelling(one.name)}",
        one.name,
        cls=_GroupedOption,
        group=one.metadata["group"],
        default=one.default,
        type=_type(one),
        metavar=_METAVARS.get(str(one.type)),
        show_default=one.default not in ("", False),
        help=one.metadata["help"],
        **settings,
    )


def _type(one: Field[Any]) -> click.ParamType[Any]:
    low, high = one.metadata["low"], one.metadata["high"]
    if one.metadata["choices"]:
        return click.Choice(one.metadata["choices"])
    if low is None and high is None:
        return _TYPES[str(one.type)]
    return click.IntRange(low, high) if one.type == "int" else click.FloatRange(low, high)
