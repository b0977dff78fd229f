"""Explains a validation error: one line per problem with key, expected and received."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from pipelines.common.errors import sentence
from pipelines.experiment.several_columns import Origins
from recsys_attn.model_names import OTHER_NAMES, new_key
from serving.state.errors import did_you_mean

# The expectation by pydantic's error type, filled with its context.
_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a string",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "dataclass_type": "a table",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "too_short": "a list of at least {min_length}",
    "literal_error": "{expected}",
    "union_tag_invalid": "one of {expected_tags}",
    "string_pattern_mismatch": "letters, digits, '_', '.' and '-' after a letter or digit",
}


# Keys that other tools have for a column of the rows' weights.
_ROW_WEIGHTS = re.compile(
    r"(sample|row|example|instance|event|importance)s?_?weights?(_?(col|column))?"
    r"|weights?_?(col|column|field|by)|weights"
)
_NO_ROW_WEIGHTS = (
    " A column cannot weigh rows: the `weight` of a task is one number for all its rows. Leave "
    "rows out, or write them twice."
)


class _Location(NamedTuple):
    """A location in the file: the key, and the allowed types of its value."""

    key: str
    types: list[Any]


def explain(
    error: ValidationError,
    root: type[Any],
    where: str,
    copied: Collection[str] = (),
    within: str = "",
    values: Mapping[str, Any] = types.MappingProxyType({}),
    origins: Origins = types.MappingProxyType({}),
) -> str:
    """Returns all problems, each on a line that starts with `where`.

    Args:
        error: Pydantic's error.
        root: The checked class.
        where: The file.
        copied: Keys with copied values; their problems are reported for the original key.
        within: Key of the table that was checked alone, with a dot.
        values: The values of the file; tables of a list, such as features, are named by their
            `name`.
        origins: By key of a list, the index in the file of each checked entry.
    """
    problems: Any = error.errors(include_url=False)
    wrong_kinds = {p["loc"][:-1] for p in problems if _is_wrong_kind(p)}
    mismatches: dict[tuple[str, str], list[str]] = {}  # one sentence for all types of a union
    sentences = []
    for problem in problems:
        key = _walk(root, problem["loc"]).key
        if key.startswith(tuple(copied)) or _of_another_kind(problem, wrong_kinds, root):
            continue
        if _of_another_type(problem, problems) or _of_items(problem):
            continue
        if problem["type"] in _EXPECTED:
            key, received = _received(problem, root)
            expected = _EXPECTED[problem["type"]].format(**problem.get("ctx", {}))
            mismatches.setdefault((key, received), []).append(expected)
        else:
            sentences.append(_sentence(problem, root, within))
    for (key, received), several in mismatches.items():
        expected = _one_of(several)
        hint = _hint(key, received.strip('"'), re.findall("'([^']+)'", expected))
        if re.fullmatch(r"tasks\[\d+\]\.weight", key) and received.startswith('"'):
            hint = _NO_ROW_WEIGHTS
        sentences.append(f"`{within}{key}`: expected {expected}. Received: {received}.{hint}")
    in_file = dict.fromkeys(_with_origin(sentence, origins) for sentence in sentences)
    named = (_with_name(sentence, values) for sentence in in_file)
    return "\n".join(f"{where}: {sentence}" for sentence in named)


def _with_origin(text: str, origins: Origins) -> str:
    """The sentence with the indices of the file."""

    def indexed(match: re.Match[str]) -> str:
        return (
            f"`{match[1]}[{origins[match[1]][int(match[2])]}]" if match[1] in origins else match[0]
        )

    return re.sub(r"`([\w.]+)\[(\d+)\]", indexed, text)


def _with_name(text: str, values: Mapping[str, Any]) -> str:
    """The sentence with the names of tables in lists: "`features[4].share` of 'price' ..."."""

    def named(match: re.Match[str]) -> str:
        tables: Any = values
        for key in match[1].split("."):
            tables = tables.get(key) if isinstance(tables, Mapping) else None
        table = tables[int(match[2])] if isinstance(tables, list) else None
        name = table.get("name") if isinstance(table, dict) else None
        return f"{match[0]} of {name!r}" if name else match[0]

    return re.sub(r"`([\w.]+)\[(\d+)\][^`]*`", named, text)


def _one_of(several: Sequence[str]) -> str:
    """Joins expectations, of which some list quoted names: "'a', 'b' or a table"."""
    parts: list[str] = []
    for text in several:
        parts += re.split(r", (?=')| or (?=')", text) if text.startswith("'") else [text]
    *first, last = dict.fromkeys(parts)
    return f"{', '.join(first)} or {last}" if first else last


def _received(problem: Any, root: type) -> tuple[str, str]:
    """The key and the value in the file."""
    key, value = _walk(root, problem["loc"]).key, problem["input"]
    if problem["type"] == "union_tag_invalid":
        key, value = f"{key}.{_discriminator(problem)}", problem["ctx"]["tag"]
    text = json.dumps(value, default=str, ensure_ascii=False)
    return key, text if len(text) <= 80 else f"{text[:77]}..."


def _sentence(problem: Any, root: type, within: str) -> str:
    *parents, last = problem["loc"] or [""]
    place = _walk(root, problem["loc"])
    place = place._replace(key=(within + place.key).rstrip("."))
    if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        known = sorted({n for t in _walk(root, parents).types for n in _fields(t)})
        if moved := _new_key(str(last), problem["input"], _walk(root, parents), within):
            return moved
        of_rows = _ROW_WEIGHTS.fullmatch(str(last).lower())
        hint = _NO_ROW_WEIGHTS if of_rows else _near(str(last), known)
        return f"`{place.key}` is not a known key.{hint} Known keys here: {', '.join(known)}."
    if problem["type"] == "missing":
        return f"`{place.key}` is missing. Add it."
    if problem["type"] == "union_tag_not_found":
        kinds = ", ".join(repr(kind) for t in place.types for kind in _kinds(t))
        return f"`{place.key}.{_discriminator(problem)}` is missing. Expected one of {kinds}."
    text = sentence(problem.get("ctx", {}).get("error", problem["msg"]))
    return f"`{place.key}`: {text}" if place.key else text


def _new_key(key: str, value: Any, place: _Location, within: str) -> str:
    """The sentence about an argument of a model that is a key of a table now; else nothing."""
    fields = {name: kind for owner in place.types for name, kind in _fields(owner).items()}
    tables = {
        name: {k for leaf in _leaves(kind) for k in _fields(leaf)} for name, kind in fields.items()
    }
    return new_key(key, value, tables, f"{within}{place.key}.")


def _is_wrong_kind(problem: Any) -> bool:
    return problem["type"] == "literal_error" and problem["loc"][-1] in ("kind", "name")


def _of_another_kind(problem: Any, wrong_kinds: set[tuple[Any, ...]], root: type) -> bool:
    """Whether a problem belongs to a class other than `kind` names: pydantic tries them all."""
    location = problem["loc"]
    if _is_wrong_kind(problem):
        tried = _walk(root, location[:-2]).types
        return any(problem["input"] in _kinds(cls) for cls in tried)
    return any(location[:depth] in wrong_kinds for depth in range(len(location)))


def _of_another_type(problem: Any, problems: Sequence[Any]) -> bool:
    """Whether a table stands where a value may, and the problem is inside the table."""
    location, inside = problem["loc"], len(problem["loc"])
    return (
        isinstance(problem["input"], dict)
        and problem["type"] in ("string_type", "tuple_type", "literal_error")
        and any(
            o["loc"][: inside - 1] == location[:-1] and len(o["loc"]) > inside for o in problems
        )
    )


def _of_items(problem: Any) -> bool:
    """Whether a list is too short only as wrong items do not count; they have problems too."""
    return problem["type"] == "too_short" and len(problem["input"]) >= problem["ctx"]["min_length"]


def _discriminator(problem: Any) -> str:
    return problem["ctx"]["discriminator"].strip("'")


def _hint(key: str, received: str, known: list[str]) -> str:
    """Suggests a valid name; for a paper's other name of a model, the option that gives it."""
    other = OTHER_NAMES.get(received, "") if key == "model.name" else ""
    if any(other.startswith(repr(name)) for name in known):
        return f" Use {other}."
    return _near(received, known)


def _near(name: str, known: list[str]) -> str:
    return did_you_mean(name, known, lambda near: f"`{near}`")


def _walk(root: type, location: Sequence[Any]) -> _Location:
    """Follows a location through the annotations; pydantic inserts names of classes."""
    key, here = "", [root]
    for part in location:
        if isinstance(part, int):
            key += f"[{part}]"
            here = [leaf for t in here for arg in typing.get_args(t) for leaf in _leaves(arg)]
        elif len(here) > 1:
            here = [t for t in here if part in _kinds(t) or _is_label(part, t)] or here
        else:
            key += f".{part}" if key else part
            here = [leaf for t in here for leaf in _leaves(_fields(t).get(part))]
    return _Location(key, here)


def _is_label(part: str, cls: Any) -> bool:
    """Whether pydantic names a class so; of one with a check, it names the check too."""
    return part == _name(cls) or part.endswith(f", {_name(cls)}]")


def _leaves(annotation: Any) -> list[Any]:
    """The types of a union, without None."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _leaves(typing.get_args(annotation)[0])
    if origin in (typing.Union, types.UnionType):
        return [leaf for arg in typing.get_args(annotation) for leaf in _leaves(arg)]
    return [] if annotation in (None, type(None), Ellipsis) else [annotation]


def _fields(cls: Any) -> dict[str, Any]:
    """Annotations by key of a table."""
    if isinstance(cls, type) and issubclass(cls, BaseModel):
        return {name: field.annotation for name, field in cls.model_fields.items()}
    if dataclasses.is_dataclass(cls):
        hints = typing.get_type_hints(cls)
        return {field.name: hints[field.name] for field in dataclasses.fields(cls)}
    return {}


def _kinds(cls: Any) -> tuple[Any, ...]:
    """The values of `kind` (of a model, `name`) for this class."""
    fields = _fields(cls)
    return typing.get_args(fields.get("name")) or typing.get_args(fields.get("kind"))


def _name(cls: Any) -> str:
    return cls.__name__ if isinstance(cls, type) else str(cls)
