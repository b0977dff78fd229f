"""A front and its fleet: whose versions it has, and what it says where the fleet has them not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from serving.codec import decode
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.stubs import predict, send

SPECIFIC = "model_version_policy { specific { versions: 5 } }"
LABEL = 'version_labels { key: "stable" value: 5 }'


@pytest.fixture
def moved(
    tmp_path: Path, base_path: Path, threefold: Path, start_server: StartServer
) -> Callable[..., str]:
    """A front that found version 5, does not poll, and whose fleet went on to version 6 since."""

    def start(policy: str = "", **options: object) -> str:
        fleet, backend = start_server(base_path)
        entry = f'name: "tiny" base_path: "/remote" model_platform: "tensorflow" {policy}'
        models = tmp_path / "models.config"
        models.write_text(f"model_config_list {{ config {{ {entry} }} }}")
        _, address = start_server(
            "", backend=f"grpc://{backend}", model_config_file=str(models),
            file_system_poll_wait_seconds=0.0, **options,
        )  # fmt: skip
        with grpc.insecure_channel(address) as channel:
            assert _answer(channel) == (5, 105.0)
        install(threefold, base_path, 6)
        wait_until(lambda: fleet.manager.models["tiny"].current == 6)
        return address

    return start


def _answer(channel: grpc.Channel, **spec: Any) -> tuple[int, float]:
    """The version that an answer names, and the score that tells which one computed it."""
    answer = send(channel, predict(**spec))
    return answer.model_spec.version.value, float(decode("", answer.outputs["click"])[0])


def _code(channel: grpc.Channel, **spec: Any) -> str:
    with pytest.raises(grpc.RpcError) as raised:
        send(channel, predict(**spec))
    return str(raised.value.code().name)


@pytest.mark.parametrize("batching", [False, True], ids=["alone", "in batches"])
def test_who_names_no_version_is_answered_by_the_next_under_its_own_number(
    moved: Callable[..., str], batching: bool
) -> None:
    with grpc.insecure_channel(moved(enable_batching=batching)) as channel:
        assert _answer(channel) == (6, 106.5)
        assert _answer(channel, version=6) == (6, 106.5)
        assert _code(channel, version=5) == "NOT_FOUND"


def test_who_names_a_version_is_answered_by_no_other(moved: Callable[..., str]) -> None:
    with grpc.insecure_channel(moved(LABEL)) as channel:
        assert _code(channel, version=5) == "NOT_FOUND"
        assert _code(channel, version_label="stable") == "NOT_FOUND"
        assert _answer(channel) == (6, 106.5)


def test_the_policy_specific_is_answered_by_no_other(moved: Callable[..., str]) -> None:
    with grpc.insecure_channel(moved(SPECIFIC)) as channel:
        assert [_code(channel), _code(channel)] == ["NOT_FOUND", "NOT_FOUND"]
        assert _code(channel, version=5) == "NOT_FOUND"
