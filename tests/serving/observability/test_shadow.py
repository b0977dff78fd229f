"""Shadow traffic: its comparisons, and no effect on the requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serving.common.errors import InvalidArgument
from serving.inference.service import PREDICT, InferenceService
from serving.observability.shadow import ShadowOptions, ShadowTraffic, differences
from tests.serving.exports import install, load_model
from tests.serving.fakes import Leases
from tests.serving.stubs import predict
from tests.serving.traces import trace


@pytest.fixture(scope="module")
def manager(tmp_path_factory: pytest.TempPathFactory, twofold: Path, threefold: Path) -> Leases:
    folder = tmp_path_factory.mktemp("models")
    found = {5: install(twofold, folder, 5), 6: install(threefold, folder, 6)}
    return Leases({n: load_model("tiny", n, path) for n, path in found.items()})


def _ask(service: InferenceService, request_id: str = "r") -> None:
    service.handle(PREDICT, predict(), trace(request_id=request_id))


@pytest.mark.parametrize("version", [6, "canary"])
def test_largest_difference_of_each_task_is_reported(manager: Leases, version: int | str) -> None:
    seen: list[tuple[Any, ...]] = []
    shadow = ShadowTraffic(
        ShadowOptions("tiny", version, 1.0), manager, lambda *found: seen.append(found)
    )
    _ask(InferenceService(manager, [shadow.observe]))
    shadow.close()
    assert sorted(seen) == [("tiny", 6, "click", 1.5), ("tiny", 6, "convert", 0.0)]


def test_missing_version_is_logged_once(manager: Leases, caplog: pytest.LogCaptureFixture) -> None:
    shadow = ShadowTraffic(ShadowOptions("tiny", 9, 1.0), manager, lambda *found: None)
    for request_id in ("r7", "r8"):
        _ask(InferenceService(manager, [shadow.observe]), request_id)
    shadow.close()
    assert [record.getMessage() for record in caplog.records] == [
        "No shadow of request r7: version 9"
    ]


def test_only_floats_of_the_same_shape_are_compared() -> None:
    ours = {
        "a": np.float32([1, 2]), "b": np.float32([1]), "c": np.array([b"x"]), "d": np.float32([1]),
    }  # fmt: skip
    theirs = {"a": np.float32([1, 2.5]), "b": np.float32([1, 2]), "c": np.array([b"y"])}
    assert differences(ours, theirs) == {"a": 0.5}


@pytest.mark.parametrize("text", ["", "ctr", "ctr:6", "ctr:6:0", "ctr:6:2", "ctr:6:x", "::0.1"])
def test_invalid_option_is_rejected(text: str) -> None:
    with pytest.raises(InvalidArgument, match="`shadow` must be MODEL:VERSION:SHARE"):
        ShadowOptions.parse(text)


def test_version_is_a_number_or_a_label() -> None:
    assert ShadowOptions.parse("ctr:6:0.1") == ShadowOptions("ctr", 6, 0.1)
    assert ShadowOptions.parse("ctr:canary:1") == ShadowOptions("ctr", "canary", 1.0)
