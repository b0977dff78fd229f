"""Input and output of the command `request`: its document, tables and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from serving.client.blocking import Client
from serving.client.ranking import best_first
from serving.common.errors import InvalidArgument
from serving.encoding.features import Row
from serving.encoding.rank_document import FORM, RankDocument, check_rows_of
from serving.encoding.raw_values import shortened

_LISTED = 5  # values of a list in a table; the JSON has all
_EXPECTED = f'Expected {{"rows": [{{...}}]}} or {FORM}.'


def read_document(text: bytes, source: str, as_json: bool) -> list[Row] | RankDocument:
    """Returns the request in a JSON document: rows, or a context and its candidates.

    Raises:
        InvalidArgument: The text is not JSON or not a request; the message names `source`. Or it
            asks for weights, and the answer is not wanted `as_json`.
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
    if "candidates" in document and "rows" not in document:
        ranking = RankDocument.read(document, source)
        if ranking.explain and not as_json:
            raise InvalidArgument(f"{source}: 'explain' adds weights to JSON only: add --json.")
        return ranking
    if set(document) != {"rows"}:
        keys = shortened(sorted(document))
        raise InvalidArgument(f"{source} holds the keys {keys}. {_EXPECTED}")
    check_rows_of(document, source)
    rows: list[Row] = document["rows"]
    return rows


@dataclass(frozen=True)
class Answer:
    """The answer to a document.

    Args:
        scores: By task, in the order of the request.
        candidates: Those of the request; None for independent rows.
        ranking: Indices of the candidates, best first; None for independent rows.
        explanation: Weights by history, task and field, if the document asks for them.
    """

    scores: Mapping[str, np.ndarray]
    candidates: Sequence[Row] | None = None
    ranking: np.ndarray | None = None
    explanation: Mapping[str, Mapping[str, np.ndarray]] | None = None

    def to_json(self) -> str:
        """Returns the answer as REST has it."""
        document: dict[str, Any] = {"scores": _lists(self.scores)}
        if self.ranking is not None:
            document["ranking"] = self.ranking.tolist()
        if self.explanation is not None:
            document["explanation"] = {
                kind: _lists(weights) for kind, weights in self.explanation.items()
            }
        return json.dumps(document)

    def table(self) -> Table:
        """Returns a table of rows, or of candidates, best first."""
        if self.candidates is None or self.ranking is None:
            table = _table(["row", *self.scores])
            for i in range(len(next(iter(self.scores.values())))):
                table.add_row(*map(Text, [str(i), *self._cells(i)]))
            return table
        # The first feature of a candidate usually identifies it.
        feature = next(iter(self.candidates[0]), None)
        features = [] if feature is None else [feature]
        columns = ["candidate", *features]
        if feature == "candidate":  # the items of a next-item model
            columns = ["place", "item"]
        table = _table(["rank", *columns, *self.scores])
        for place, i in enumerate(self.ranking.tolist(), start=1):
            values = [self.candidates[i].get(name) for name in features]
            labels = ["-" if value is None else str(value) for value in values]
            table.add_row(*map(Text, [str(place), str(i), *labels, *self._cells(i)]))
        return table

    def _cells(self, i: int) -> list[str]:
        return [_cell(values[i]) for values in self.scores.values()]


def answer(client: Client, document: list[Row] | RankDocument, by: str | None = None) -> Answer:
    """Sends a document.

    Args:
        client: Sends it.
        document: Rows, or a context and its candidates.
        by: The task that ranks, in place of the document's; None for that.

    Raises:
        ServingError: The request failed, or no task has the name `by`.
    """
    if isinstance(document, list):
        return Answer(client.predict_rows(document))
    context, candidates = document.context, document.candidates
    by, top_k = by or document.rank_by, document.top_k
    first = by or client.metadata().first_task
    if document.explain:
        ranking = client.explain(context, candidates, rank_by=by, top_k=top_k)
        weights = {"attention": ranking.attention, "gates": ranking.gates, "fields": ranking.fields}
        return Answer(_led_by(first, ranking.scores), candidates, ranking.ranking, weights)
    scores = client.rank(context, candidates)
    order = best_first(scores, by, first)[: top_k or None]
    return Answer(_led_by(first, scores), candidates, order)


def _led_by(task: str | None, scores: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Returns the scores, those of the task that ranks first."""
    return dict(sorted(scores.items(), key=lambda item: item[0] != task))


def _lists(arrays: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
    return {name: _texts(values).tolist() for name, values in arrays.items()}


def _texts(values: np.ndarray) -> np.ndarray:
    """Returns strings in place of bytes, such as the items of a next-item model."""
    if values.dtype != object:
        return values
    texts = [value.decode(errors="replace") for value in values.ravel().tolist()]
    return np.array(texts, object).reshape(values.shape)


def _table(heads: Iterable[str]) -> Table:
    table = Table()
    for head in heads:
        table.add_column(Text(head), justify="right")
    return table


def _cell(value: Any) -> str:
    if isinstance(value, np.ndarray):
        ellipsis = ["..."] if len(value) > _LISTED else []
        return ", ".join([*map(_cell, _texts(value[:_LISTED]).tolist()), *ellipsis])
    return f"{value:.6f}" if isinstance(value, (float, np.floating)) else str(value)
