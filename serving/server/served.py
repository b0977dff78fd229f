"""The description of a served model, which the command `serve` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from serving.encoding.features import TensorSpec
from serving.models.model import Model

_EXAMPLES = ({"inputs"}, {"context", "examples"})  # inputs of signatures for Examples


def served_model(model: Model) -> RenderableType:
    """Returns the description of a model: version, signatures, and those for Examples by name."""
    table = Table("signature", "inputs", "outputs", show_lines=True)
    of_examples = []
    for key, signature in sorted(model.signatures.items()):
        definition = signature.definition
        if set(definition.inputs) in _EXAMPLES:
            of_examples.append(key)
        else:
            table.add_row(*map(Text, (key, _lines(definition.inputs), _lines(definition.outputs))))
    parts: list[RenderableType] = [
        Text(f"Serving model {model.name}, version {model.version}, from {model.path}")
    ]
    if table.rows:
        parts.append(table)
    if of_examples:
        parts.append(Text(f"Signatures of serialized Examples: {', '.join(of_examples)}"))
    return Group(*parts)


def _lines(infos: Mapping[str, Any]) -> str:
    return "\n".join(f"{name}: {TensorSpec.from_proto(infos[name])}" for name in sorted(infos))
