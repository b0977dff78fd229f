"""Input and output of the commands: request documents, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from serving.common.errors import InvalidArgument
from serving.encoding.features import TensorSpec, shortened
from serving.models.model import Model

_EXAMPLES = ({"inputs"}, {"context", "examples"})  # inputs of signatures for Examples
_EXPECTED = 'Expected {"rows": [{...}]} or {"context": {...}, "candidates": [{...}, ...]}.'


def read_document(text: bytes, source: str) -> dict[str, Any]:
    """Returns the request in a JSON document: rows, or a context and its candidates.

    Raises:
        InvalidArgument: The text is not JSON or not a request; the message names `source`.
    """
    try:
        document = json.loads(text)
    except RecursionError as error:
        raise InvalidArgument(f"{source} is nested too deeply. {_EXPECTED}") from error
    except ValueError as error:
        raise InvalidArgument(f"{source} is not JSON: {error}. {_EXPECTED}") from error
    if not isinstance(document, dict):
        kind = "null" if document is None else f"a {type(document).__name__}"
        raise InvalidArgument(f"{source} holds {kind}. {_EXPECTED}")
    if set(document) not in ({"rows"}, {"candidates"}, {"context", "candidates"}):
        keys = shortened(sorted(document))
        raise InvalidArgument(f"{source} holds the keys {keys}. {_EXPECTED}")
    for key, value in document.items():
        rows = [value] if key == "context" else value
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            form = "an object {...}" if key == "context" else "a list of objects [{...}, ...]"
            raise InvalidArgument(
                f"{source}: {key!r} must be {form}. Received: {shortened(value, json.dumps)}"
            )
    return document


def score_table(
    scores: Mapping[str, np.ndarray],
    candidates: Sequence[Mapping[str, Any]] | None,
    by: str | None = None,
) -> Table:
    """Returns a table of rows, or of candidates ranked by the task `by`, best first.

    Raises:
        InvalidArgument: No task has the name `by`.
    """
    table = Table()
    tasks = list(scores)
    by = by or tasks[0]
    if by not in scores:
        raise InvalidArgument(f"No task is named {by!r}. Tasks: {', '.join(tasks)}.")
    order: Sequence[int] = range(len(scores[tasks[0]]))
    if candidates is None:
        heads = ["row"]
    else:
        # The first feature of a candidate usually identifies it.
        feature = next(iter(candidates[0]), None)
        heads = ["rank", "candidate", *([] if feature is None else [feature])]
        order = np.argsort(-scores[by], kind="stable").tolist()
    for head in [*heads, *tasks]:
        table.add_column(Text(head), justify="right")
    for place, i in enumerate(order, start=1):
        cells: list[Any] = [i] if candidates is None else [place, i]
        if len(heads) == 3 and candidates is not None:
            known_by = candidates[i].get(heads[2])
            cells.append("-" if known_by is None else known_by)
        cells += [_cell(scores[task][i]) for task in tasks]
        table.add_row(*(Text(str(cell)) for cell in cells))
    return table


def to_json(scores: Mapping[str, np.ndarray]) -> str:
    """Returns scores by task, in the order of the request."""
    return json.dumps({"scores": {task: values.tolist() for task, values in scores.items()}})


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


def _cell(value: Any) -> str:
    return f"{value:.6f}" if isinstance(value, (float, np.floating)) else str(value)
