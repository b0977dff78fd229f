"""A canary on a running server: its share on every route, and its whole life under load."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pyarrow.parquet as pq
import pytest

from serving.client import Client
from serving.common.sampling import is_sampled
from serving.models.versions import ModelVersions
from serving.protos import scoring_pb2_grpc
from tests.serving.commands import free_port
from tests.serving.conftest import StartServer, wait_until
from tests.serving.exports import install
from tests.serving.rank_messages import make_rank_request
from tests.serving.rest.conftest import ask_port
from tests.serving.stubs import (
    classify,
    examples,
    metadata,
    multi_inference,
    predict,
    regress,
    send,
)

CONTEXT = {"user": "ann", "age": 31}
CANDIDATES = [{"price": 1.5}, {"price": 7.0}]
ROW = {**CONTEXT, "price": 1.5, "history": [""], "tags": [""]}
LABEL = 'version_labels { key: "%s" value: %d }'
MODEL = """model_config_list { config {
  name: "tiny" base_path: "%s" model_platform: "tensorflow"
  model_version_policy { specific { %s } }
  %s
} }"""

Publish = Callable[..., str]


@pytest.fixture
def publish(tmp_path: Path, base_path: Path) -> Publish:
    """Replaces the model config file at once; returns its path."""

    def publish(*versions: int, **labels: int) -> str:
        numbers = " ".join(f"versions: {version}" for version in versions)
        lines = "\n  ".join(LABEL % label for label in labels.items())
        (tmp_path / "draft").write_text(MODEL % (base_path, numbers, lines))
        os.replace(tmp_path / "draft", tmp_path / "models.config")
        return str(tmp_path / "models.config")

    return publish


def test_every_route_has_the_canary(
    start_server: StartServer, publish: Publish, base_path: Path, tmp_path: Path, threefold: Path
) -> None:
    """Signatures are those of the stable version; the log has the label of each answer."""
    install(threefold, base_path, 6)
    rest = free_port()
    server, address = start_server(
        "", model_config_file=publish(5, 6, stable=5, canary=6), canary="tiny:1",
        rest_api_port=rest, prediction_log_dir=str(tmp_path / "log"),
        prediction_log_sampling_rate=1.0,
    )  # fmt: skip
    rows = examples({"user": "ann", "price": 1.5})
    with grpc.insecure_channel(address) as channel:
        for request in (predict(), classify(rows), regress(rows)):
            assert send(channel, request).model_spec.version.value == 6
        (result,) = send(channel, multi_inference(rows, ("regress", "regress"))).results
        assert result.model_spec.version.value == 6
        rank = scoring_pb2_grpc.ScoringServiceStub(channel).Rank
        assert rank(make_rank_request("tiny", CONTEXT, CANDIDATES)).model_spec.version.value == 6
        assert send(channel, metadata("signature_def")).model_spec.version.value == 5
        for named in ({"version": 5}, {"version_label": "stable"}):
            assert send(channel, predict(**named)).model_spec.version.value == 5
    with Client(address, model="tiny") as client:
        assert client.predict_rows([ROW])["click"] == [4.5]
    for path, body, score in (
        (":predict", {"instances": [ROW]}, 4.5),
        ("/versions/5:predict", {"instances": [ROW]}, 3.0),
        (":rank", {"context": CONTEXT, "candidates": CANDIDATES}, 4.5),
        (":regress", {"signature_name": "regress", "examples": [{"price": 1.5}]}, 4.5),
    ):
        status, document = ask_port(rest, "POST", f"/v1/models/tiny{path}", body)
        assert (status, str(score) in str(document)) == (200, True), document
    status, document = ask_port(rest, "GET", "/v1/models/tiny/metadata")
    assert document["model_spec"]["version"] == "5"
    server.stop()
    (file,) = (tmp_path / "log").glob("*.parquet")
    logged = pq.read_table(file, columns=["version", "label"]).to_pylist()
    labels = [(row["version"], row["label"]) for row in logged]
    assert sorted(set(labels)) == [(5, ""), (5, "stable"), (6, "canary")]
    assert (len(labels), labels.count((5, "")), labels.count((5, "stable"))) == (12, 2, 1)


class _Stream:
    """Requests one after another, without a version, from several threads."""

    def __init__(self, address: str) -> None:
        self.answers: list[tuple[int, str, int]] = []  # phase, request id and version
        self.phase = 0
        self.errors: list[Exception] = []
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._send, args=(address, number)) for number in range(3)
        ]
        for thread in self._threads:
            thread.start()

    def _send(self, address: str, number: int) -> None:
        with grpc.insecure_channel(address) as channel:
            count = 0
            while not (self._stop.is_set() or self.errors):
                count += 1
                phase, name = self.phase, f"{number}-{count}"
                try:
                    answer = send(channel, predict(), metadata=[("x-request-id", name)])
                    self.answers.append((phase, name, answer.model_spec.version.value))
                except Exception as error:
                    self.errors.append(error)

    def next(self, count: int = 30) -> dict[str, int]:
        """The versions of the next answers, whose requests begin after this call."""
        self.phase += 1

        def answers() -> dict[str, int]:
            return {name: version for phase, name, version in self.answers if phase == self.phase}

        wait_until(lambda: bool(self.errors) or len(answers()) >= count)
        assert not self.errors
        return answers()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()


@pytest.fixture
def stream() -> Iterator[Callable[[str], _Stream]]:
    streams: list[_Stream] = []

    def start(address: str) -> _Stream:
        streams.append(_Stream(address))
        return streams[-1]

    yield start
    for one in streams:
        one.stop()


@pytest.mark.parametrize("allowed", [False, True], ids=["strict", "allowed"])
def test_canary_comes_and_goes_under_load(
    start_server: StartServer,
    publish: Publish,
    stream: Callable[[str], _Stream],
    base_path: Path,
    twofold: Path,
    allowed: bool,
) -> None:
    """Published, rolled back, published, promoted: one file each, and no request fails."""
    for version in (6, 7):
        install(twofold, base_path, version)
    server, address = start_server(
        "", model_config_file=publish(5, stable=5), model_config_file_poll_wait_seconds=0.02,
        canary="tiny:0.3", allow_version_labels_for_unavailable_models=allowed,
    )  # fmt: skip
    requests = stream(address)

    model = server.manager.models["tiny"]
    for versions, labels in (
        ((5, 6), {"stable": 5, "canary": 6}),
        ((5,), {"stable": 5}),
        ((5, 7), {"stable": 5, "canary": 7}),
        ((7,), {"stable": 7}),
    ):
        publish(*versions, **labels)
        wait_until(functools.partial(_is_as, model, versions, labels))
        stable = labels["stable"]
        canary = labels.get("canary", stable)
        for name, version in requests.next().items():
            assert version == (canary if _in_share(name) else stable)
    requests.stop()
    assert not requests.errors
    of_canary = [name for _, name, version in requests.answers if version == 6]
    assert of_canary
    assert all(map(_in_share, of_canary))


def _is_as(model: ModelVersions, versions: tuple[int, ...], labels: dict[str, int]) -> bool:
    available = tuple(one for one in (5, 6, 7) if model.available(one))
    return (available, dict(model.labels)) == (versions, labels)


def _in_share(name: str) -> bool:
    return is_sampled(name, 0.3, "canary")
