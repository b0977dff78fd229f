"""The option `canary`: its form, and the labels that it gives to each request."""

from __future__ import annotations

import math

import pytest

from serving.common.errors import InvalidArgument
from serving.common.sampling import is_sampled
from serving.config.canary import CanaryOptions

IDS = [f"request-{number}" for number in range(10_007)]


@pytest.mark.parametrize(
    "text", ["", "ctr", ":0.1", "ctr:", "ctr:x", "ctr:0", "ctr:1.1", "ctr:-0.1", "ctr:nan"]
)
def test_invalid_option_is_rejected(text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"`canary` must be MODEL:SHARE, .*Received: "):
        CanaryOptions.parse(text, ["ctr"])


def test_option_names_model_and_share() -> None:
    assert CanaryOptions.parse("ctr:0.25", ["cvr", "ctr"]) == CanaryOptions("ctr", 0.25)


def test_unknown_model_is_rejected() -> None:
    with pytest.raises(InvalidArgument, match=r"a model of .*: cvr, cart\. Received: 'ctr:0.1'"):
        CanaryOptions.parse("ctr:0.1", ["cvr", "cart"])


def test_share_of_the_requests_prefers_the_canary() -> None:
    """Whether the log has a request says nothing about its label."""
    canary = CanaryOptions("ctr", 0.3)
    labels = {name: canary.labels("ctr", name) for name in IDS}
    assert set(labels.values()) == {("canary", "stable"), ("stable",)}
    logged = [name for name in IDS if is_sampled(name, 0.4, "log")]
    for names in (IDS, logged):
        count = sum(labels[name][0] == "canary" for name in names)
        assert abs(count - 0.3 * len(names)) <= 4 * math.sqrt(0.3 * 0.7 * len(names))
