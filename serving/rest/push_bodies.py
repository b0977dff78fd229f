"""The body of `:push` as rows, and its answer as a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from google.protobuf import json_format

from serving.common.errors import InvalidArgument
from serving.encoding.events import PushedRows, write_added
from serving.encoding.raw_values import shortened
from serving.state.online.writer import Added


def pushed_rows(document: Mapping[str, Any]) -> PushedRows:
    """Returns the rows of `{"events": [{...}, ...], "users": [...], "items": [...]}`.

    Raises:
        InvalidArgument: The document has another form.
    """
    tables = {field.name for field in fields(PushedRows)}
    if not document or not document.keys() <= tables or not all(map(_is_rows, document.values())):
        raise InvalidArgument(
            'The body: expected {"events": [{column: value, ...}, ...]}, or such lists of "users" '
            f'or "items". Received: {shortened(dict(document))}'
        )
    return PushedRows(**document)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(row, dict) for row in value)


def push_answer(added: Added) -> dict[str, Any]:
    """Returns the document of an answer, with the names of `PushResponse`."""
    return json_format.MessageToDict(
        write_added(added),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
