"""Writes the reference of the experiment file: `python -m docs.experiment_keys`.

Keys, types, limits and defaults are those of the code, descriptions those of its docstrings.
`docs/key_examples.py` has a value for each key without a default.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator
from pydantic.fields import FieldInfo

from docs.key_examples import EXAMPLES, OF_SEQUENCES
from pipelines.experiment.config import experiment_type
from pipelines.ingest.data_options import known_source
from pipelines.ingest.source import SOURCES
from pipelines.pretraining.experiment import SequenceExperiment
from recsys_attn.attention import positions, presets
from recsys_attn.blocks import activations, norms
from recsys_attn.id_transforms import Vocabulary
from recsys_attn.interactions.field_update import FieldUpdate
from recsys_attn.models import MODELS, encoders, option_types, placements
from recsys_attn.objectives import ITEM_LOSSES

_REFERENCE = Path(__file__).parent / "reference"
PAGES: Mapping[Path, tuple[type, str]] = {
    _REFERENCE / "experiment-keys.md": (
        experiment_type(tuple(MODELS)),
        """# Keys of the experiment file

Every key with its type, its default and an example, from the code by `python -m \
docs.experiment_keys`. [The experiment file](../guides/experiment-file.md) is the guide.
""",
    ),
    _REFERENCE / "sequence-keys.md": (
        SequenceExperiment,
        """# Keys of the file of a sequence model

Every key of the file of a sequence model, from the code by `python -m \
docs.experiment_keys`. [Next items from event logs](../guides/sequence-models.md) is the guide.
""",
    ),
}
_WORDS = {str: "string", int: "whole number", float: "number", bool: "boolean", Path: "path"}
_MECHANISM = "name or table of a [mechanism](attention.md)"
_CHECKED = {  # options of models, by the function that checks them
    option_types.count: "whole number ≥ 1",
    option_types.heads: "whole number ≥ 1, or a list of two: heads of queries, heads of keys",
    option_types.head_size: "whole number ≥ 1, or a list of two: size of keys, size of values",
    option_types.share: "number from 0 to 1",
    option_types.factor: "number ≥ 0",
    option_types.sizes: "list of whole numbers ≥ 1",
    option_types.layers: "list of whole numbers ≥ 1, at least one",
    option_types.names: "list of names of features",
    activations.serialize: "name of an activation",
    presets.get: _MECHANISM,
    norms.NORMS.get: "name or table of a [normalisation](attention.md#blocks)",
    positions.get: "name or table of [positions](attention.md#positions)",
    encoders.get: "name or table of a [mechanism, a mixer or a block](attention.md)",
    FieldUpdate.of: "table of `residual`, `norm` and `relu`",
    placements.check_gates: "name or table of a [gate](attention.md#gates), or a table by place",
    placements.check_disagreement: "table of numbers, or a table by place",
    ITEM_LOSSES.get: "name or table of a [loss](../guides/sequence-models.md#losses)",
    known_source: ", ".join(f'`"{name}"`' for name in SOURCES),
}
# Type and default of keys that the file has in other forms than the code.
_IN_FILE = {
    "data.aggregates.name": ("string", ""),
    "data.aggregates.of": ("string or list of strings", ""),
    "data.aggregates.by": ("string, list of strings, or list of such lists", "required"),
    "data.histories.of": ("string or list of strings", "required"),
    "data.histories.by": ("string, or list of lists of a string", "required"),
}
_LIMITS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


class Key(NamedTuple):
    """One key of a table: its annotation with limits, and its default (`...`: required)."""

    name: str
    annotation: Any
    default: Any


class Table(NamedTuple):
    """One table of the file: its dotted path, whether it is a list, its class and its kind.

    `outer` is the kind of the table around it, such as the model, by which a reader tells it from
    others of the same path.
    """

    path: str
    listed: bool
    owner: type
    kind: str
    outer: str = ""

    @property
    def anchor(self) -> str:
        """The anchor of its heading."""
        words = [*self.path.split("."), *([self.kind.split('"')[1]] if self.kind else [])]
        return "-".join(words).replace("_", "-") or "top-level"

    @property
    def heading(self) -> str:
        """Its heading, as in the file."""
        if not self.path:
            return "Top level"
        name = f"`[[{self.path}]]`" if self.listed else f"`[{self.path}]`"
        return f"{name}, `{self.kind}`" if self.kind else name


def keys(owner: type) -> list[Key]:
    """The keys of a table's class."""
    if issubclass(owner, BaseModel):
        return [
            Key(
                name,
                _annotation(field),
                ... if field.is_required() else field.get_default(call_default_factory=True),
            )
            for name, field in owner.model_fields.items()
        ]
    hints = typing.get_type_hints(owner)
    return [Key(f.name, hints[f.name], _default(f)) for f in dataclasses.fields(owner)]


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return ... if field.default is dataclasses.MISSING else field.default


def _annotation(field: FieldInfo) -> Any:
    """The annotation with its limits, which pydantic keeps apart."""
    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def tables(root: type) -> list[Table]:
    """All tables of a file, each class once."""
    by_class: dict[type, Table] = {}
    _collect(Table("", False, root, ""), by_class)
    names = Counter((table.path, table.kind) for table in by_class.values())
    return [
        table._replace(kind=table.outer) if names[table.path, table.kind] > 1 else table
        for table in by_class.values()
    ]


def _collect(table: Table, by_class: dict[type, Table]) -> None:
    by_class[table.owner] = table
    for key in keys(table.owner):
        path = f"{table.path}.{key.name}" if table.path else key.name
        owners = list(classes(key.annotation))
        for owner in owners:
            if owner not in by_class:
                kind = _kind(owner) if len(owners) > 1 else ""
                _collect(Table(path, _is_list(key.annotation), owner, kind, table.kind), by_class)


def classes(annotation: Any) -> Iterator[type]:
    """The tables' classes in an annotation."""
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation):
            yield annotation
        return
    for part in get_args(annotation):
        yield from classes(part)


def _is_list(annotation: Any) -> bool:
    if get_origin(annotation) is Annotated:
        return _is_list(get_args(annotation)[0])
    return get_origin(annotation) is tuple


def _kind(owner: type) -> str:
    """What tells the class from others in its place, such as `kind = "hash"`."""
    for key in keys(owner):
        if key.name in ("kind", "name") and get_origin(key.annotation) is Literal:
            several = get_args(key.annotation) if key.default is ... else (key.default,)
            return f"{key.name} = {', '.join(map(toml, several))}"
    return ""


def words(annotation: Any, links: Mapping[type, str]) -> str:
    """A type in plain words."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        if any(isinstance(part, BeforeValidator) for part in args[1:]):
            alone = " or its `name`" if "name" in args[0].model_fields else ""
            return f"{words(args[0], links)}{alone}"
        checks = [getattr(part, "func", part) for part in args[1:]]
        checked = next((_CHECKED[c] for c in checks if inspect.isroutine(c)), None)
        return checked or " ".join([words(args[0], links), *_limits(args[1:])])
    if origin in (Union, types.UnionType):
        several = (words(part, links) for part in args if part is not types.NoneType)
        return " or ".join(dict.fromkeys(several))
    if origin is Literal:
        return ", ".join(f"`{toml(value)}`" for value in args)
    if origin in (tuple, Sequence, dict, Mapping):
        kind, of = ("list", args[0]) if origin in (tuple, Sequence) else ("table", args[-1])
        several = {str: "strings", int: "whole numbers", float: "numbers"}.get(of)
        return kind if of is Any else f"{kind} of {several or words(of, links)}"
    return links.get(annotation) or _WORDS[annotation]


def _limits(metadata: Sequence[Any]) -> list[str]:
    limits = [
        f"{sign} {toml(getattr(limit, name))}"
        for limit in metadata
        for name, sign in _LIMITS.items()
        if getattr(limit, name, None) is not None
    ]
    return [" and ".join(limits)] if limits else []


def toml(value: Any) -> str:
    """A value as in the file."""
    if isinstance(value, bool | str | Path):
        return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, int):
        return f"{value:_}" if value > 9999 else str(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {toml(item)}' for name, item in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list | tuple) else repr(value)


def descriptions(owner: type) -> dict[str, str]:
    """The descriptions of keys in a docstring."""
    texts = {}
    for cls in reversed(owner.__mro__):
        text = inspect.cleandoc(cls.__doc__ or "") + "\n"
        section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", text, re.MULTILINE)
        entry = re.compile(r"^    ([\w, ]+): (.+(?:\n        .*)*)", re.MULTILINE)
        for names, lines in entry.findall(section[1] if section else ""):
            one = re.sub(r"\s+", " ", lines).replace("None: ", "Left out: ")
            texts |= dict.fromkeys(names.split(", "), one)
    return texts


def example(root: type, table: Table, key: Key) -> Any:
    """An example of a key's value: its default, or that of the file's examples."""
    path = f"{table.path}.{key.name}" if table.path else key.name
    examples = {**EXAMPLES, **(OF_SEQUENCES if root is SequenceExperiment else {})}
    says_nothing = key.default in (..., None, ()) or key.default == {}
    if says_nothing or (key.default is False and path in examples):
        return examples.get(path)
    return key.default


def written(value: Any) -> str:
    """A default as the page has it; nothing for None and tables."""
    if value is ...:
        return "required"
    if value == Vocabulary():
        return '`"vocabulary"`'
    nothing = value is None or value == {} or isinstance(value, BaseModel)
    return "" if nothing else f"`{toml(value)}`"


def _row(root: type, table: Table, key: Key, text: str, links: Mapping[type, str]) -> str:
    kind, default = words(key.annotation, links), written(key.default)
    kind, default = _IN_FILE.get(f"{table.path}.{key.name}", (kind, default))
    sample = ""
    if not list(classes(key.annotation)):
        sample = f"`{key.name} = {toml(example(root, table, key))}`"
    cells = [f"`{key.name}`", kind, default, text, sample]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def page(root: type, head: str) -> str:
    """The whole page of a file."""
    every = tables(root)
    links = {
        table.owner: f"[table](#{table.anchor})"
        if table.kind in ("", table.outer)
        else f"[`{table.kind}`](#{table.anchor})"
        for table in every
    }
    parts = [head]
    for table in every:
        level = "#" * (2 + table.path.count(".") + bool(table.kind))
        first = inspect.cleandoc(table.owner.__doc__ or "").partition("\n")[0]
        parts.append(f"{level} {table.heading} {{ #{table.anchor} }}\n\n{first}\n")
        texts = descriptions(table.owner)
        rows = [
            _row(root, table, key, texts.get(key.name, ""), links)
            for key in keys(table.owner)
            if f"{key.name} = {toml(key.default)}" != table.kind
        ]
        if rows:
            head = ["| key | type | default | what it sets | example |", "|---|---|---|---|---|"]
            parts.append("\n".join([*head, *rows]) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    for path, (owner, first) in PAGES.items():
        path.write_text(page(owner, first), "utf-8")
