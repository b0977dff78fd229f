"""Events as messages."""

from typing import Any

import pytest

from serving.common.errors import InvalidFeature
from serving.encoding.events import PushedRows, push_request


@pytest.mark.parametrize("events", [{"user_id": "u7", "click": 1}, ["u7"]], ids=str)
def test_events_that_are_no_rows_are_refused(events: Any) -> None:
    with pytest.raises(InvalidFeature, match=r"`events`: expected a list of rows.* Received: .*u7"):
        push_request("clicks", PushedRows(events))
