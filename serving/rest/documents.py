"""The JSON document of a body."""

from __future__ import annotations

import json
import re
from typing import Any

from serving.common import errors
from serving.rest.tensors import shown

# Matches every escape, so that none is found inside another. The group holds a surrogate without
# its other half, which is no character.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(u[dD][89a-fA-F])|.)", re.DOTALL
)


def parsed(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body.

    Raises:
        InvalidArgument: The body is no JSON object.
    """
    if not body:
        raise errors.InvalidArgument("JSON Parse error: The document is empty")
    try:
        text = body.decode()
        document = json.loads(text)
    except UnicodeError as error:
        raise _no_text() from error
    except (ValueError, RecursionError) as error:
        raise errors.InvalidArgument(f"JSON Parse error: {error}") from error
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise _no_text()
    if not isinstance(document, dict):
        raise errors.InvalidArgument(f"JSON Value: {shown(document)} Is not object")
    return document


def _no_text() -> errors.ServingError:
    return errors.InvalidArgument("JSON Parse error: not valid UTF-8")
