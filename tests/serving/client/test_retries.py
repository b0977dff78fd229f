"""Failed calls are retried on other servers, until the deadline and within the budget."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from serving.client import ClientOptions
from serving.common.errors import (
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    ResourceExhausted,
    Unavailable,
)
from tests.serving.client import stub_server
from tests.serving.client.conftest import ANSWERS, ONCE, Connect, Handle, StartStub
from tests.serving.conftest import wait_until

SCORES = [2.0, 3.0, 5.0]
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def processes() -> Iterator[list[tuple[subprocess.Popen[str], str]]]:
    """Two servers in processes of their own, with their addresses."""
    command = [sys.executable, stub_server.__file__, ANSWERS["Predict"].hex()]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    with started[0], started[1]:
        yield [(p, f"localhost:{p.stdout.readline().strip()}") for p in started if p.stdout]
        for process in started:
            process.kill()


def _answers_during(handle: Handle, disturb: Callable[[], object]) -> list[object]:
    """Returns the answers of calls before, during and after a disturbance, four at a time."""
    answers: list[object] = []
    disturbance = threading.Timer(0.3, disturb)
    disturbance.start()
    end = time.monotonic() + 1.2
    while disturbance.is_alive() or time.monotonic() < end:
        answers += handle.predict_together(4)
    return answers


def test_killed_server_fails_no_call(
    connect: Connect, processes: list[tuple[subprocess.Popen[str], str]]
) -> None:
    (first, one), (_, other) = processes
    handle = connect([one, other], timeout=20)
    assert handle.predict() == SCORES
    answers = _answers_during(handle, first.kill)
    assert len(answers) > 20
    assert [answer for answer in answers if answer != SCORES] == []


def test_draining_server_fails_no_call(connect: Connect, start_stub: StartStub) -> None:
    """As the server drains: it rejects calls, ends the connections, and closes."""
    leaving, staying = start_stub(), start_stub()

    def drain() -> None:
        leaving.is_failing = True
        time.sleep(0.2)
        leaving.server.stop(5.0).wait()

    handle = connect([leaving.address, staying.address], timeout=20)
    answers = _answers_during(handle, drain)
    assert any(seen for seen in leaving.seen), "both were asked"
    assert [answer for answer in answers if answer != SCORES] == []


def test_restarted_server_is_found(connect: Connect, start_stub: StartStub) -> None:
    before = start_stub()
    handle = connect(before.address, options=ONCE)
    assert handle.predict() == SCORES
    before.server.stop(None).wait()
    with pytest.raises(Unavailable):
        handle.predict()
    start_stub(before.port)

    def is_back() -> bool:
        try:
            return handle.predict() == SCORES
        except Unavailable:
            return False

    wait_until(is_back, 10.0)


@pytest.mark.parametrize("size", [1, 500_000], ids=["small", "2 MB"])
def test_retry_sends_the_same_request(connect: Connect, start_stub: StartStub, size: int) -> None:
    stub = start_stub()
    stub.failures = [UNAVAILABLE, grpc.StatusCode.CANCELLED]
    assert connect(stub.address).predict(size, request_id="r-7") == SCORES
    assert len(stub.seen) == 3
    assert {seen.metadata["x-request-id"] for seen in stub.seen} == {"r-7"}
    assert len({seen.request for seen in stub.seen}) == 1


@pytest.mark.parametrize("error", [Internal, InvalidArgument])
def test_other_errors_are_not_retried(
    connect: Connect, start_stub: StartStub, error: type[Internal]
) -> None:
    stub = start_stub()
    stub.failures = [error.code]
    handle = connect(stub.address)
    with pytest.raises(error, match="as the test wants it") as raised:
        handle.predict(request_id="r-8")
    assert raised.value.request_id == "r-8"
    assert len(stub.seen) == 1


def test_refusals_of_a_busy_server_are_no_load(connect: Connect, start_stub: StartStub) -> None:
    """A refused request is not retried; the retry of a full queue waits as the server says."""
    stub = start_stub()
    stub.pushback, stub.failures = "300", [grpc.StatusCode.RESOURCE_EXHAUSTED]
    handle = connect(stub.address, options=ClientOptions(initial_backoff=0.01, max_backoff=0.01))
    with pytest.raises(ResourceExhausted) as raised:
        handle.predict()
    assert raised.value.retry_after == 0.3
    assert len(stub.seen) == 1
    stub.failures = [UNAVAILABLE]
    begin = time.monotonic()
    assert handle.predict() == SCORES
    assert time.monotonic() - begin >= 0.3


def test_deadline_covers_all_attempts(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    stub.is_failing = True
    handle = connect(stub.address, options=ClientOptions(initial_backoff=20, max_backoff=20))
    begin = time.monotonic()
    with pytest.raises((DeadlineExceeded, Unavailable)):
        handle.predict(timeout=0.3)
    assert time.monotonic() - begin < 5, "the wait before the second attempt is far longer"
    assert len(stub.seen) == 1


def test_timeout_of_a_call(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    stub.seconds = 0.3
    handle = connect(stub.address, timeout=0.05)
    with pytest.raises(DeadlineExceeded, match=f"No answer from {stub.address} within 0.05 s"):
        handle.predict()
    stub.seconds = 0.0
    for timeout in (20, None, 1e10, 1e300, float("inf")):
        assert handle.predict(timeout=timeout) == SCORES


def test_calls_of_one_method_share_its_deadline(connect: Connect, start_stub: StartStub) -> None:
    """Also the call for the name of the only model."""
    names = health_pb2.HealthListResponse(statuses={"tiny": health_pb2.HealthCheckResponse()})
    stub = start_stub(answers={**ANSWERS, "List": names.SerializeToString()})
    stub.seconds = 0.2
    handle = connect(stub.address, model=None)
    with pytest.raises(DeadlineExceeded, match=r"within 0\.3 s"):
        handle.predict(timeout=0.3)
    assert [seen.method for seen in stub.seen] == ["List", "Predict"]
    assert handle.client.model == "tiny"


def test_retry_budget_spares_failing_servers(connect: Connect, start_stub: StartStub) -> None:
    stub = start_stub()
    stub.is_failing = True
    options = ClientOptions(initial_backoff=0.01, max_backoff=0.01, retry_tokens=6)
    handle = connect(stub.address, options=options)
    for _ in range(10):
        with pytest.raises(Unavailable):
            handle.predict()
    # Three failures spend half of the budget; after that each call is one attempt.
    assert 10 < len(stub.seen) <= 13


def _with_health(start_stub: StartStub, status: int) -> stub_server.Stub:
    servicer = health.HealthServicer()
    servicer.set("", status)
    return start_stub(0, None, partial(health_pb2_grpc.add_HealthServicer_to_server, servicer))


def test_unhealthy_servers_get_no_calls(connect: Connect, start_stub: StartStub) -> None:
    """By default, and of several servers. Calls about models go to each of them."""
    well = _with_health(start_stub, health_pb2.HealthCheckResponse.SERVING)
    ill = _with_health(start_stub, health_pb2.HealthCheckResponse.NOT_SERVING)
    plain = start_stub()  # without a health service, so it counts as healthy
    handle = connect([ill.address, well.address, plain.address])
    wait_until(lambda: handle.predict() == SCORES and bool(well.seen) and bool(plain.seen))
    assert ill.seen == []
    wait_until(lambda: handle.ask("status") == [] and bool(ill.seen))
    assert {seen.method for seen in ill.seen} == {"GetModelStatus"}
    careless = connect([ill.address, well.address], options=ClientOptions(health_service=None))
    wait_until(lambda: careless.predict() == SCORES and "Predict" in {s.method for s in ill.seen})


def test_a_single_server_is_called_in_any_health(connect: Connect, start_stub: StartStub) -> None:
    """It may have the model although another one makes it NOT_SERVING."""
    ill = _with_health(start_stub, health_pb2.HealthCheckResponse.NOT_SERVING)
    assert connect(ill.address).predict() == SCORES


def test_no_server_listens(connect: Connect) -> None:
    handle = connect(["localhost:1", "127.0.0.1:2"], options=ONCE)
    with pytest.raises(Unavailable) as raised:
        handle.predict()
    message = str(raised.value)
    assert message.startswith("Cannot reach localhost:1, 127.0.0.1:2. ")
    assert "Check that the server runs and listens there" in message
    assert len(raised.value.request_id or "") == 32
