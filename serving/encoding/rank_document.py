"""The JSON document of a ranking, which the command `request` and REST's `:rank` read.

    {"context": {"user_id": "u7", "clicked_items": ["i1", "i2"]},
     "candidates": [{"item_id": "i3", "price": 9.5}, {"item_id": "i4"}],
     "rank_by": "click", "top_k": 10, "explain": true}

The context and the last three may be left out. Absent features and null are missing values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.common.errors import InvalidArgument
from serving.encoding.features import Row
from serving.encoding.raw_values import shortened

FORM = '{"context": {...}, "candidates": [{...}, ...]}'
_OPTIONS = ("rank_by", "top_k", "explain")
_COUNT = "a number of candidates, from 0"


@dataclass(frozen=True)
class RankDocument:
    """One context and its candidates.

    Args:
        context: Raw values that the candidates share.
        candidates: Their own.
        rank_by: The task that ranks; empty for the model's default.
        top_k: Length of the ranking; 0 for all candidates.
        explain: Whether to return what the scores come from.
    """

    context: Row
    candidates: Sequence[Row]
    rank_by: str = ""
    top_k: int = 0
    explain: bool = False

    @classmethod
    def read(cls, document: Mapping[str, Any], source: str) -> RankDocument:
        """Checks the form of a document; the model checks its features.

        Args:
            document: A JSON object.
            source: Its name, for errors.

        Raises:
            InvalidArgument: A key is unknown or missing, or has a value of another form.
        """
        known = {"context", "candidates", *_OPTIONS}
        if "candidates" not in document or not document.keys() <= known:
            keys = shortened(sorted(document))
            raise InvalidArgument(
                f"{source} holds the keys {keys}. Expected {FORM}, and optionally "
                f"{', '.join(_OPTIONS)}."
            )
        entries = {key: v for key, v in document.items() if v is not None or key == "candidates"}
        check_rows_of(entries, source)
        for key, kind, form in (
            ("rank_by", str, "the name of a task"),
            ("top_k", int, _COUNT),
            ("explain", bool, "true or false"),
        ):
            if type(entries.get(key, kind())) is not kind:
                raise _wrong(source, key, form, entries[key])
        if not 0 <= entries.get("top_k", 0) < 2**31:
            raise _wrong(source, "top_k", _COUNT, entries["top_k"])
        return cls(**{"context": {}, **entries})


def check_rows_of(document: Mapping[str, Any], source: str) -> None:
    """Raises InvalidArgument unless `context` is an object, `candidates` and `rows` lists of them.

    Args:
        document: A JSON object; other keys are ignored.
        source: Its name, for errors.
    """
    for key in ("context", "candidates", "rows"):
        if key in document:
            value = document[key]
            rows = [value] if key == "context" else value
            if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                form = "an object {...}" if key == "context" else "a list of objects [{...}, ...]"
                raise _wrong(source, key, form, value)


def _wrong(source: str, key: str, form: str, value: Any) -> InvalidArgument:
    return InvalidArgument(
        f"{source}: {key!r} must be {form}. Received: {shortened(value, json.dumps)}"
    )
