"""The options of a server: ranges, combinations, spelling and `--help`."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

import click
import pytest
from click.testing import CliRunner

from serving.cli import serve
from serving.config.click_options import either_spelling, options_of
from serving.config.server_config import CPUS, ServerConfig


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"port": 70000}, "`port` must be from 0 to 65535. Received: port=70000"),
        ({"grace_seconds": -1}, "`grace_seconds` must be at least 0"),
        ({"max_message_bytes": 2**31}, "`max_message_bytes` must be from 1 to"),
        ({"prediction_log_sampling_rate": 1.5}, "must be from 0 to 1"),
        ({"model_base_path": ""}, "Expected `model_base_path` or `model_config_file`"),
        ({"backend": "grpc://a:1"}, "With `backend`, `model_name` must be the name of its model"),
        ({"monitoring_config_file": "m.txt"}, "needs `rest_api_port`"),
        ({"canary": "ctr:0.1"}, "`canary` needs `model_config_file`"),
        ({"batching_parameters_file": "b.txt"}, "needs `enable_batching`"),
        ({"enable_per_model_batching_parameters": True}, "needs `enable_batching`"),
    ],
)
def test_invalid_options_are_rejected(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ServerConfig(**{"model_base_path": "models", **options})


def test_defaults_are_those_of_tensorflow_serving() -> None:
    config = ServerConfig("models")
    expected = {
        "port": 8500, "rest_api_port": 0, "rest_api_timeout_in_ms": 30_000,
        "requests_at_once": CPUS + 1, "max_message_bytes": 2**31 - 1,
        "file_system_poll_wait_seconds": 1.0, "model_config_file_poll_wait_seconds": 0.0,
        "num_load_threads": 0, "max_num_load_retries": 5, "load_retry_interval_micros": 60_000_000,
        "allow_version_labels_for_unavailable_models": False, "enable_batching": False,
        "enable_per_model_batching_parameters": False, "enable_model_warmup": True,
        "num_request_iterations_for_warmup": 1,
    }  # fmt: skip
    assert {name: getattr(config, name) for name in expected} == expected


def test_tls_options_of_a_backend_need_each_other() -> None:
    with pytest.raises(ValueError, match=r"`backend_tls_ca` needs a `backend` of grpcs://"):
        ServerConfig(backend="grpc://a:1", model_name="ctr", backend_tls_ca="ca.pem")
    with pytest.raises(ValueError, match=r"need each other. Received: .* backend_tls_key=''"):
        ServerConfig(backend="grpcs://a:1", model_name="ctr", backend_tls_cert="a.pem")
    with pytest.raises(ValueError, match=r"`backend_token_file` needs a `backend` of grpcs://"):
        ServerConfig(backend="grpc://a:1", model_name="ctr", backend_token_file="token")
    assert ServerConfig(backend="grpcs://a:1", model_name="ctr").backend_uses_tls


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "ctr.example.com"])
def test_other_hosts_than_loopback_need_encryption(host: str) -> None:
    with pytest.raises(ValueError, match="without encryption"):
        ServerConfig("models", host=host)
    ServerConfig("models", host=host, allow_insecure=True)
    ServerConfig("models", host=host, ssl_config_file="ssl.config")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.53", "::1", "localhost"])
def test_loopback_needs_no_encryption(host: str) -> None:
    ServerConfig("models", host=host)


def test_reload_roots_are_a_list() -> None:
    assert ServerConfig("models").reload_roots == ()
    config = ServerConfig("models", reload_root="/data/a,/data/b/,")
    assert [str(root) for root in config.reload_roots] == ["/data/a", "/data/b"]


def test_the_model_is_named_after_its_folder() -> None:
    assert ServerConfig("models/ctr/").model_name == "ctr"
    assert ServerConfig("models/ctr", model_name="click").model_name == "click"
    assert ServerConfig("models/ctr", host="::1", port=1).address == "[::1]:1"


def test_the_command_line_has_every_option() -> None:
    """With its default, in both spellings."""
    seen: list[dict[str, Any]] = []

    @click.command(context_settings={"token_normalize_func": either_spelling})
    @options_of(ServerConfig)
    def command(**options: Any) -> None:
        seen.append(options)

    def run(*arguments: str) -> None:
        found = CliRunner().invoke(command, arguments)
        assert found.exit_code == 0, found.output

    run()
    run("--model_base_path=m", "--enable_batching", "--port", "9", "--enable_model_warmup=false")
    run("--model-base-path", "m", "--enable-batching=true", "--port=9", "--enable-model-warmup=0")
    run("--enable_model_warmup", "--enable_grpc_healthcheck_service")
    assert seen.pop() == seen[0], "an option without a value is on"
    assert seen[0] == {one.name: one.default for one in fields(ServerConfig)}
    assert seen[1] == seen[2]
    changed = {name: value for name, value in seen[1].items() if value != seen[0][name]}
    assert changed == {
        "model_base_path": "m", "enable_batching": True, "port": 9, "enable_model_warmup": False,
    }  # fmt: skip


def test_help_shows_ten_options_before_the_advanced_ones() -> None:
    """Under headings that name every option once."""
    output = CliRunner().invoke(serve, ["--help"]).output
    first, *advanced = output.partition("\nOptions:\n")[2].split("\nAdvanced: ")
    assert len(re.findall(r"^  (?:-h, )?--", first, re.M)) == 10 + len(["--help"])
    assert [text.partition(":")[0] for text in advanced] == [
        "models and versions", "batching and computation", "state of users and items", "limits",
        "gRPC", "security", "logs and shadow traffic", "proxy of TensorFlow Serving",
    ]  # fmt: skip
    names = re.findall(r"^  (?:-h, )?--(\S+)", output, re.M)
    assert sorted(names) == sorted(
        ["help", *(either_spelling(one.name) for one in fields(ServerConfig))]
    )
