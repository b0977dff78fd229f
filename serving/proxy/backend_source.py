"""The versions that a backend has available, as a version source."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from tensorflow_serving.apis import get_model_status_pb2, model_pb2, model_service_pb2_grpc

from serving.common.errors import InvalidArgument
from serving.common.status import State
from serving.common.tls import Tls
from serving.config.files import read_token
from serving.config.server_config import ServerConfig
from serving.models.completeness import FolderCheck
from serving.models.load_retries import LoadRetries
from serving.proxy.backend_pool import BackendPool, backend_addresses
from serving.proxy.remote_model import RemoteModel

_FIRST_RETRY_SECONDS = 1.0


class BackendSource:
    """Versions on other servers, opened as `RemoteModel`.

    It is authoritative: a version that the backend no longer has cannot be computed.

    Args:
        pool: The servers.
    """

    is_authoritative = True

    def __init__(self, pool: BackendPool) -> None:
        self._pool = pool

    @classmethod
    def from_config(cls, config: ServerConfig) -> BackendSource:
        """Connects to the servers of the option `backend`.

        Raises:
            InvalidArgument: A certificate or a token file is not valid.
            ValueError: `backend` has no valid form.
        """
        try:
            return cls(BackendPool(backend_addresses(config.backend), _tls(config)))
        except InvalidArgument as error:
            raise InvalidArgument(f"TLS to `backend`: {error}") from error

    def find(self, name: str, base_path: Path) -> Mapping[int, Path]:
        """Returns the available versions of the first server that has any; paths do not exist."""
        spec = model_pb2.ModelSpec(name=name)
        responses = self._pool.query(
            lambda channel: model_service_pb2_grpc.ModelServiceStub(channel).GetModelStatus,
            get_model_status_pb2.GetModelStatusRequest(model_spec=spec),
        )
        for response in responses:
            statuses = response.model_version_status
            versions = [status.version for status in statuses if status.state == State.AVAILABLE]
            if versions:  # a server without any is still loading
                return {
                    number: base_path / str(number) for number in sorted(versions, reverse=True)
                }
        return {}

    def find_again(
        self, name: str, base_path: Path, known: Mapping[int, Path]
    ) -> Mapping[int, Path]:
        """Returns the known versions if the backend can be reached, or the first ones found."""
        versions = self.find(name, base_path)
        return known or versions

    def check(self, path: Path, before: FolderCheck | None) -> FolderCheck:
        """Returns that the version is complete, as the backend has it available."""
        return FolderCheck()

    def load_retries(self, times: int, interval_seconds: float) -> LoadRetries:
        """Retries without a limit: first after a second, then after twice the time before."""
        return LoadRetries(math.inf, interval_seconds, _FIRST_RETRY_SECONDS)

    def open(self, name: str, version: int, path: Path) -> RemoteModel:
        return RemoteModel(self._pool, name, version)


@dataclass(frozen=True)
class TlsWithToken(Tls):
    """TLS to a server, and the bearer token of every call; none if it is empty."""

    token: str = field(default="", repr=False)

    def credentials(self) -> grpc.ChannelCredentials:
        encrypted = super().credentials()
        if not self.token:
            return encrypted
        return grpc.composite_channel_credentials(
            encrypted, grpc.access_token_call_credentials(self.token)
        )


def _tls(config: ServerConfig) -> Tls | None:
    if not config.backend_uses_tls:
        return None
    path = config.backend_token_file
    return TlsWithToken(
        token=read_token(path) if path else "",
        ca=config.backend_tls_ca or None,
        certificate=config.backend_tls_cert or None,
        key=config.backend_tls_key or None,
        server_name=config.backend_tls_server_name or None,
    )
