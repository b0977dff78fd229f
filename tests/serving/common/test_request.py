"""Request ids."""

from __future__ import annotations

import pytest

from serving.common.request import request_id_of


def test_the_clients_id_is_kept() -> None:
    assert request_id_of("r-1 of me") == "r-1 of me"


@pytest.mark.parametrize("sent", [None, "", "a\nb", "\x00", "\ufffd", "\xff", "a\x7f"])
def test_an_id_that_no_header_can_carry_is_replaced(sent: str | None) -> None:
    first, second = request_id_of(sent), request_id_of(sent)
    assert first != second
    assert first.isalnum()
