"""A validation error as one line per problem: the key, what was expected, what was received."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

# What pydantic puts into a location to tell which class of a union it tried.
_TAGS = {"categorical", "numeric", "sequence", "vocabulary", "hash", "quantile"}
_UNKNOWN_KEY = {"extra_forbidden", "unexpected_keyword_argument"}


def explain(error: ValidationError, roots: Sequence[type], where: str) -> str:
    """All problems, each on a line that starts with `where`; `roots` are the classes tried."""
    lines = [
        f"{where}: {_sentence(problem, problem['loc'], roots)}"
        for problem in error.errors(include_url=False)
    ]
    return "\n".join(dict.fromkeys(lines))


def _sentence(problem: Any, location: tuple[Any, ...], roots: Sequence[type]) -> str:
    key = _dotted(location)
    if problem["type"] in _UNKNOWN_KEY:
        known = sorted(_fields(roots, location[:-1]))
        near = difflib.get_close_matches(str(location[-1]), known, n=1)
        hint = f"Did you mean `{near[0]}`? " if near else ""
        return f"`{key}` is not a known key. {hint}Known keys here: {', '.join(known)}."
    if problem["type"] == "missing":
        return f"`{key}` is missing. Add it."
    if problem["type"] == "value_error":
        inner = problem["ctx"]["error"]
        return f"`{key}`: {inner}" if key else str(inner)
    if problem["type"] == "union_tag_not_found":
        return f"`{key}` has no `kind`. Expected kind = one of categorical, numeric, sequence."
    if problem["type"] == "union_tag_invalid":
        ctx = problem["ctx"]
        near = difflib.get_close_matches(
            ctx["tag"], ctx["expected_tags"].replace("'", "").split(", ")
        )
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return (
            f"`{key}.kind`: expected one of {ctx['expected_tags']}. Received: {ctx['tag']!r}.{hint}"
        )
    expected = problem["msg"].replace("Input should be", "expected").replace("a valid ", "a ")
    near = difflib.get_close_matches(
        str(problem["input"]), str(problem.get("ctx", {}).get("expected", "")).split("'"), n=1
    )
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"`{key}`: {expected}. Received: {problem['input']!r}.{hint}"


def _dotted(location: tuple[Any, ...]) -> str:
    """`features[2].min_count`, without the names of classes and kinds pydantic puts between."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part not in _TAGS:
            text += f".{part}" if text else part
    return text


def _fields(roots: Sequence[type], location: tuple[Any, ...]) -> set[str]:
    """Names that are valid at a place: walks the annotations along the location."""
    here = list(roots)
    for part in location:
        if isinstance(part, int):
            continue
        by_name = [c for c in here if part in _annotations(c)]
        if by_name:
            here = [leaf for c in by_name for leaf in _classes(_annotations(c)[part])]
        else:  # a tag
            here = [c for c in here if str(part).lower() == c.__name__.lower()] or here
    return {name for c in here for name in _annotations(c)}


def _annotations(cls: Any) -> dict[str, Any]:
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return {name: field.annotation for name, field in cls.model_fields.items()}
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return {}


def _classes(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return [annotation]
    return [leaf for arg in typing.get_args(annotation) for leaf in _classes(arg)]
