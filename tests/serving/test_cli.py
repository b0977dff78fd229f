"""The output of the commands, and their errors."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from grpc_health.v1 import health_pb2
from rich.console import Console

from serving.cli import request, serve
from serving.cli_output import Answer
from tests.serving.certificates import (
    make_authority,
    make_certificate,
    needs_openssl,
    server_credentials,
)
from tests.serving.client.stub_server import Stub

ROOT = Path(__file__).parents[2]
RANKING = {
    "context": {"user": "ann", "history": ["a"]},
    "candidates": [{"price": 1, "tags": []}, {"price": 2.5}, {}],
}


def _request(address: str, document: Any, *options: str) -> Result:
    text = document if isinstance(document, str) else json.dumps(document)
    return CliRunner().invoke(request, ["--address", address, *options], input=text)


def _refused(result: Result, code: int, words: str = "") -> None:
    """Checks that the only output is one line of an error with these words."""
    assert result.exit_code == code
    assert result.output.startswith("Error: ")
    assert words in result.output
    assert len(result.output.splitlines()) == 1


def _cells(output: str) -> list[list[str]]:
    lines = [line for line in output.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in line[1:-1].replace("┃", "│").split("│")] for line in lines]


def _shown(answer: Answer) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    with console.capture() as captured:
        console.print(answer.table())
    return [" ".join(row) for row in _cells(captured.get())]


TABLES: list[tuple[Any, list[str], list[str]]] = [
    ({"rows": [{"user": "ann"}, {"price": 1.25, "tags": ["t"]}]}, [], [
        "row click convert", "0 0.000000 3.000000", "1 102.500000 0.000000",
    ]),
    (RANKING, ["--model", "tiny"], [
        "rank candidate price click convert", "1 1 2.5 6.000000 3.000000",
        "2 0 1 3.000000 3.000000", "3 2 - 1.000000 3.000000",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("document", "options", "expected"), TABLES, ids=["rows", "candidates"])
def test_table_of_scores(
    shared_address: str, document: Any, options: list[str], expected: list[str]
) -> None:
    result = _request(shared_address, document, *options)
    assert result.exit_code == 0, result.output
    assert [" ".join(row) for row in _cells(result.output)] == expected


def test_items_of_a_next_item_model_have_a_column_of_their_own() -> None:
    scores = {"score": np.float32([0.5, 0.75])}
    answer = Answer(scores, [{"candidate": "i4"}, {"candidate": "i9"}], np.array([1, 0]))
    assert _shown(answer) == ["rank place item score", "1 1 i9 0.750000", "2 0 i4 0.500000"]


def test_long_lists_are_shortened_in_the_table() -> None:
    items = np.array([[b"a", b"b", b"c", b"d", b"e", b"f"]], object)
    answer = Answer({"items": items, "scores": np.arange(5)[None]})
    assert _shown(answer) == ["row items scores", "0 a, b, c, d, e, ... 0, 1, 2, 3, 4"]
    assert json.loads(answer.to_json())["scores"]["items"] == [list("abcdef")]


def test_candidates_are_ranked_by_a_task(shared_address: str) -> None:
    result = _request(shared_address, RANKING, "--by", "convert")
    order = [row[1] for row in _cells(result.output)[1:]]
    assert order == ["0", "1", "2"], "equal scores keep the order of the request"
    result = _request(shared_address, RANKING, "--by", "convrt")
    _refused(result, 1, "`rank_by` must be one of the tasks click, convert. Received: 'convrt'")


def test_document_may_name_the_task_and_the_count(shared_address: str) -> None:
    document = {**RANKING, "rank_by": "convert", "top_k": 2}
    for options, expected in (([], ["0", "1"]), (["--by", "click"], ["1", "0"])):
        result = _request(shared_address, document, *options)
        assert [row[1] for row in _cells(result.output)[1:]] == expected


def test_json_keeps_the_order_of_the_request(shared_address: str, tmp_path: Path) -> None:
    (tmp_path / "request.json").write_text(json.dumps(RANKING), encoding="utf-8")
    result = CliRunner().invoke(
        request, ["--address", shared_address, "--file", f"{tmp_path}/request.json", "--json"]
    )
    assert json.loads(result.output) == {
        "scores": {"click": [3, 6, 1], "convert": [3, 3, 3]}, "ranking": [1, 0, 2],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ("{", "The standard input is not JSON"),
        ("[" * 100_000, "The standard input is nested too deeply. Expected"),
        ("null", "The standard input holds null. Expected"),
        ({"rows": None}, "'rows' must be a list of objects [{...}, ...]. Received: null"),
        ([1], "The standard input holds a list. Expected"),
        ({"row": []}, "holds the keys ['row']. Expected"),
        ({"rows": [], "context": {}}, "holds the keys ['context', 'rows']. Expected"),
        ({"rows": {"user": "a"}}, "The standard input: 'rows' must be a list of objects [{...}, "),
        ({"context": [], "candidates": [{}]}, "'context' must be an object {...}. Received: []"),
        ({**RANKING, "explain": True}, "'explain' adds weights to JSON only: add --json."),
        ({"rows": []}, "`rows` must hold at least one row"),
        ({"rows": [{"usr": "a"}]}, "Did you mean 'user'?"),
    ],
)
def test_invalid_request(shared_address: str, document: Any, words: str) -> None:
    _refused(_request(shared_address, document), 1, words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--address", "localhost:1"], "Error: Cannot reach localhost:1"),
        (["--model", "ctr"], "Error: Servable not found for request: Latest(ctr)"),
        (["--file", "/nowhere.json"], "Error: Cannot read /nowhere.json: No such file"),
        (["--address", "ctr:8500", "--token", "s3cret"],
         "Error: A token would cross the network in plaintext to ctr"),
        (["--tls-key", "a.pem"], "Error: `tls.key` needs `tls.certificate` too."),
    ],
)  # fmt: skip
def test_failed_request(shared_address: str, options: list[str], words: str) -> None:
    given = [] if "--address" in options else ["--address", shared_address]
    result = CliRunner().invoke(request, [*given, *options], input=json.dumps(RANKING))
    _refused(result, 1, words)
    assert "s3cret" not in result.output


@needs_openssl
def test_tls_and_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = make_authority(tmp_path)
    own = make_certificate(tmp_path, authority, "ctr.example")
    reader = make_certificate(tmp_path, authority, "reader", client=True)
    names = health_pb2.HealthListResponse(statuses={"tiny": health_pb2.HealthCheckResponse()})
    credentials = server_credentials(own, authority, asks=True)
    stub = Stub({"List": names.SerializeToString()}).start(0, credentials)
    monkeypatch.setenv("RECSYS_ATTN_TOKEN", "s3cret")
    addresses = ["--address", f"localhost:{stub.port}"]
    options = [
        "--tls-ca", str(authority.certificate), "--tls-cert", str(reader.certificate),
        "--tls-key", str(reader.key), "--tls-server-name", "ctr.example",
    ]  # fmt: skip
    result = _request(f"127.0.0.1:{stub.port}", RANKING, *addresses, *options)
    assert result.output == "Error: Method not found!\n", "the stub only lists its models"
    assert stub.seen[0].metadata["authorization"] == "Bearer s3cret"
    stub.server.stop(None).wait()


def test_no_version_to_serve(tmp_path: Path, twofold: Path) -> None:
    (tmp_path / "1").mkdir()
    result = CliRunner().invoke(serve, ["--model-base-path", str(tmp_path), "--port", "0"])
    assert result.exit_code == 2
    assert result.output == (
        f"Error: Version 1 of model {tmp_path.name} is incomplete: saved_model.pb is missing. "
        f"Folder: {tmp_path / '1'}\n"
    )
    itself = CliRunner().invoke(serve, ["--model-base-path", str(twofold), "--port", "0"])
    _refused(itself, 2, f"Error: The model base path {twofold} is itself a version")


def test_suggests_the_model_in_a_run(tmp_path: Path, base_path: Path) -> None:
    model = tmp_path / "run/export/ctr"
    model.parent.mkdir(parents=True)
    model.symlink_to(base_path)
    for named in (tmp_path / "run", tmp_path / "run/export"):
        result = CliRunner().invoke(serve, ["--model-base-path", str(named), "--port", "0"])
        _refused(result, 2, f"Did you mean {model}?")


def test_host_of_another_machine(base_path: Path) -> None:
    arguments = ["--host", "192.0.2.1", "--port", "0", "--allow-insecure"]
    result = CliRunner().invoke(serve, ["--model-base-path", str(base_path), *arguments])
    _refused(result, 2)


def test_processes_print_nothing_else(shared_address: str, base_path: Path) -> None:
    """One line of error for a used port, and the table of a request; gRPC logs nothing."""
    port = shared_address.rsplit(":", 1)[1]
    commands = (
        ("serve", ["--model-base-path", str(base_path), "--port", port], ""),
        ("request", ["--address", shared_address], json.dumps(RANKING)),
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", f"from serving.cli import {name}; {name}()", *options],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=ROOT,
        )
        for name, options, _ in commands
    ]  # fmt: skip
    refused, answered = (
        process.communicate(text) for process, (*_, text) in zip(processes, commands, strict=True)
    )
    assert [process.returncode for process in processes] == [2, 0]
    lines = [line for line in refused[1].splitlines() if " INFO " not in line]
    assert len(lines) == 1
    assert lines[0].startswith("Error: ")
    assert answered[1] == ""
    assert _cells(answered[0])[1] == ["1", "1", "2.5", "6.000000", "3.000000"]


def test_help_shows_the_document() -> None:
    output = CliRunner().invoke(request, ["--help"]).output
    assert '{"context": {"user_id": "u7", "clicked_items": ["i1", "i2"]},' in output
    assert re.search(r"default:\s+8500", CliRunner().invoke(serve, ["--help"]).output)
