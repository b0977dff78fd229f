"""The label that answers a request without a version or a label, as labels and versions change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from serving.common.errors import NotFound
from serving.common.request import ModelRef
from serving.common.sampling import is_sampled
from serving.config.canary import CanaryOptions
from serving.config.version_policy import All, Specific
from serving.inference.service import InferenceService
from serving.models.manager import ModelManager
from tests.serving.fakes import remove, served
from tests.serving.models.conftest import Manage, config, folder, manage
from tests.serving.traces import trace

__all__ = ["folder", "manage"]  # fixtures

IDS = [f"r{number}" for number in range(101)]
SHARE = 0.3
IN_SHARE = [is_sampled(name, SHARE, "canary") for name in IDS]


def _routed(manager: ModelManager, name: str = "tiny", **named: Any) -> list[tuple[int, str]]:
    """The version and the label of each request."""
    service = InferenceService(manager, canary=CanaryOptions("tiny", SHARE))
    answers = []
    for request_id in IDS:
        record = trace(request_id=request_id)
        version = service.answer(ModelRef(name, **named), lambda model: model.version, record)
        assert record.version == version
        answers.append((version, record.label))
    return answers


def _expected(in_share: tuple[int, str], otherwise: tuple[int, str]) -> list[tuple[int, str]]:
    return [in_share if is_in else otherwise for is_in in IN_SHARE]


def test_labels_answer_their_shares(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder, policy=All(), stable=3, canary=5))
    assert _routed(manager) == _expected((5, "canary"), (3, "stable"))
    assert set(_routed(manager, version=7)) == {(7, "")}
    assert set(_routed(manager, label="canary")) == {(5, "canary")}


@pytest.mark.parametrize(
    ("labels", "in_share", "otherwise"),
    [
        ({"stable": 3}, (3, "stable"), (3, "stable")),
        ({"canary": 5}, (5, "canary"), (7, "")),
        ({"stable": 3, "canary": 11}, (3, "stable"), (3, "stable")),
        ({"stable": 11, "canary": 5}, (5, "canary"), (7, "")),
        ({}, (7, ""), (7, "")),
    ],
    ids=["no canary", "no stable", "canary is not loaded", "stable is not loaded", "no label"],
)
def test_next_choice_answers_where_one_lacks(
    manage: Manage,
    folder: Path,
    labels: dict[str, int],
    in_share: tuple[int, str],
    otherwise: tuple[int, str],
) -> None:
    manager = manage(config(folder, policy=All(), **labels))
    assert _routed(manager) == _expected(in_share, otherwise)


def test_other_models_are_answered_by_the_newest(manage: Manage, folder: Path) -> None:
    manager = manage(config(folder, "other", policy=All(), stable=3, canary=5))
    assert set(_routed(manager, "other")) == {(7, "")}
    with pytest.raises(NotFound, match=r"Latest\(tiny\)"):
        _routed(manager)


def test_gone_version_of_a_label_is_refreshed(manage: Manage, folder: Path) -> None:
    """As after a backend has removed it; the newest version need not be the one that has gone."""
    manager = manage(config(folder, policy=Specific([3, 7]), stable=3, canary=7))
    assert not manager.refresh("tiny", 3, None)
    remove(folder / "tiny", 3)
    assert served(manager, label="stable") == 3
    assert manager.refresh("tiny", 3, None)
    assert _routed(manager) == _expected((7, "canary"), (7, ""))
