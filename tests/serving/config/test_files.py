"""The configuration files of a server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tensorflow_serving.config import model_server_config_pb2

from serving.common.errors import InvalidArgument, NotFound
from serving.config.batching import BatchingParameters
from serving.config.files import (
    METRICS_PATH,
    read_batching_parameters,
    read_certificates,
    read_metrics_path,
    read_token,
    read_tokens,
)
from serving.config.text_protos import parse_text

KEY, CERTIFICATE = "-----BEGIN PRIVATE KEY-----", "-----BEGIN CERTIFICATE-----"


def _write(tmp_path: Path, text: str) -> str:
    (tmp_path / "config").write_text(text)
    return str(tmp_path / "config")


def test_batching_parameters_are_tensorflow_servings(tmp_path: Path) -> None:
    text = """
        max_batch_size { value: 128 }
        batch_timeout_micros { value: 0 }
        max_enqueued_batches { value: 3 }
        num_batch_threads { value: 4 }
        thread_pool_name { value: "model_server_batch_threads" }
        allowed_batch_sizes: 8 allowed_batch_sizes: 64
        pad_variable_length_inputs: true
        enable_large_batch_splitting { value: true }
        max_execution_batch_size { value: 64 }
    """
    assert read_batching_parameters(_write(tmp_path, text)) == BatchingParameters(
        max_batch_size=128,
        max_enqueued_batches=3,
        num_batch_threads=4,
        allowed_batch_sizes=(8, 64),
        pad_variable_length_inputs=True,
        enable_large_batch_splitting=True,
        max_execution_batch_size=64,
    )
    found = read_batching_parameters(_write(tmp_path, ""))
    assert (found.max_batch_size, found.batch_timeout_micros) == (1000, 0)
    assert (found.max_enqueued_batches, found.num_batch_threads) == (10, os.cpu_count())
    assert found == BatchingParameters()


@pytest.mark.parametrize("verify", [False, True])
def test_certificates_are_read(tmp_path: Path, verify: bool) -> None:
    text = f'server_key: "{KEY}" server_cert: "{CERTIFICATE}"'
    text += f' custom_ca: "{CERTIFICATE}" client_verify: true' * verify
    key, certificate = KEY.encode(), CERTIFICATE.encode()
    assert read_certificates(_write(tmp_path, text)) == (
        key, certificate, certificate * verify, verify,
    )  # fmt: skip


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_pem_may_span_several_lines(tmp_path: Path, quote: str, end: str) -> None:
    pem = [f"{KEY}\nMIGH+/==\n", f"{CERTIFICATE}\nMIIB\n"]
    key, certificate = (f"{quote}{text}{quote}" for text in pem)
    text = f"# the server's \"own\nserver_key: {key} # it's secret\nserver_cert: {certificate}\n"
    path = tmp_path / "config"
    path.write_bytes(text.replace("\n", end).encode())
    found = read_certificates(str(path))
    assert [found.key.decode(), found.certificate.decode()] == pem


def test_errors_have_the_right_line_after_long_strings(tmp_path: Path) -> None:
    text = 'model_config_list {\n  config { name: "a\nb"\n\n base_pat: "/models" } }'
    with pytest.raises(InvalidArgument, match=r" as text: 5:2 : .*base_pat"):
        parse_text(model_server_config_pb2.ModelServerConfig, text.encode(), "config")


def test_an_error_shows_no_part_of_a_key(tmp_path: Path) -> None:
    path = _write(tmp_path, f'server_key: "{KEY}\\n"\n MIGHAgEAMB\n"-----END PRIVATE KEY-----"')
    with pytest.raises(InvalidArgument, match=r"SSLConfig as text: line 2, column 2 ") as raised:
        read_certificates(path)
    assert "MIGH" not in str(raised.value)
    assert raised.value.__suppress_context__


def test_the_path_of_the_metrics_is_read(tmp_path: Path) -> None:
    for text, path in (
        ("", None),
        ("prometheus_config { enable: true }", METRICS_PATH),
        ('prometheus_config { enable: true, path: "/metrics" }', "/metrics"),
        ('prometheus_config { path: "/metrics" }', None),
    ):
        assert read_metrics_path(_write(tmp_path, text)) == path


def test_tokens_are_read(tmp_path: Path) -> None:
    assert read_tokens(_write(tmp_path, "one\n\n two \n")) == {b"one", b"two"}
    assert read_token(_write(tmp_path, "one\n")) == "one"


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_batching_parameters, "max_batch_size: 3", r"is not a BatchingParameters.*1:"),
        (read_batching_parameters, "max_batch_size { value: -3 }", "must be a positive number"),
        (read_certificates, f'server_key: "/key.pem" server_cert: "{CERTIFICATE}"', "`server_key`"),
        (read_certificates, f'server_key: "{KEY}"', "`server_cert` must be PEM"),
        (
            read_certificates,
            f'server_key: "{KEY}" server_cert: "{CERTIFICATE}" client_verify: true',
            "`client_verify` needs `custom_ca`",
        ),
        (read_metrics_path, 'prometheus_config { enable: true, path: "m" }', "must start with /"),
        (read_tokens, "\n", "has no token"),
        (read_token, "one\ntwo\n", "has 2 tokens. Expected one."),
        (read_token, "\N{EURO SIGN}\n", "not printable ASCII"),
    ],
)
def test_a_wrong_file_is_named(
    tmp_path: Path, read: Callable[[str], Any], text: str, words: str
) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(InvalidArgument, match=words) as raised:
        read(path)
    assert path in str(raised.value)


@pytest.mark.parametrize(
    "read", [read_batching_parameters, read_certificates, read_metrics_path, read_tokens]
)
def test_a_missing_file_is_named(tmp_path: Path, read: Callable[[str], Any]) -> None:
    with pytest.raises(NotFound, match=r"Cannot read .*nowhere: No such file"):
        read(str(tmp_path / "nowhere"))
