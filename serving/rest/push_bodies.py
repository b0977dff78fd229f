"""The body of `:push` as events, and its answer as a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format

from serving.common.errors import InvalidArgument
from serving.encoding.events import write_added
from serving.encoding.raw_values import shortened
from serving.state.online.writer import Added


def pushed_events(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the events of `{"events": [{...}, ...]}`.

    Raises:
        InvalidArgument: The document has another form.
    """
    events = document.get("events")
    is_right = isinstance(events, list) and all(isinstance(event, dict) for event in events)
    if not is_right or len(document) > 1:
        raise InvalidArgument(
            'The body: expected {"events": [{column: value, ...}, ...]}. Received: '
            f"{shortened(dict(document))}"
        )
    return list(events or ())


def push_answer(added: Added) -> dict[str, Any]:
    """Returns the document of an answer, with the names of `PushResponse`."""
    return json_format.MessageToDict(
        write_added(added),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
