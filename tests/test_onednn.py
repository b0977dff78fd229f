"""TensorFlow's operations of oneDNN are on in the commands, in training and in serving alike."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

import pytest

from pipelines.calls.import_tensorflow import import_tensorflow
from serving.server.process import import_tensorflow_quietly

NAME = "TF_ENABLE_ONEDNN_OPTS"


@pytest.mark.parametrize("importing", [import_tensorflow, import_tensorflow_quietly])
@pytest.mark.parametrize(
    ("machine", "before", "after"),
    [("x86_64", None, "1"), ("AMD64", None, "1"), ("x86_64", "0", "0"), ("aarch64", None, None)],
)
def test_onednn_is_on_unless_the_user_or_the_processor_differs(
    importing: Callable[[], None],
    machine: str,
    before: str | None,
    after: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setenv(NAME, before or "")
    if before is None:
        monkeypatch.delenv(NAME)
    importing()
    assert os.environ.get(NAME) == after
