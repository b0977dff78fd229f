"""The online side: a gRPC service that speaks TensorFlow Serving's protocol, and its client.

The names below are imported when they are first used, so that `import serving` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from recsys_attn.lazy import lazy_names

if TYPE_CHECKING:
    from serving.client.asynchronous import AsyncClient
    from serving.client.blocking import Client
    from serving.client.options import ClientOptions
    from serving.client.ranking import Ranking
    from serving.common.errors import (
        Cancelled,
        DataLoss,
        DeadlineExceeded,
        FailedPrecondition,
        Internal,
        InvalidArgument,
        InvalidFeature,
        NotFound,
        PermissionDenied,
        ResourceExhausted,
        ServingError,
        Unauthenticated,
        Unavailable,
        Unimplemented,
    )
    from serving.common.tls import Tls

__all__ = [
    "AsyncClient",
    "Cancelled",
    "Client",
    "ClientOptions",
    "DataLoss",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Internal",
    "InvalidArgument",
    "InvalidFeature",
    "NotFound",
    "PermissionDenied",
    "Ranking",
    "ResourceExhausted",
    "ServingError",
    "Tls",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
]
_CLIENT = {
    "AsyncClient": "client.asynchronous",
    "Client": "client.blocking",
    "ClientOptions": "client.options",
    "Ranking": "client.ranking",
    "Tls": "common.tls",
}

__getattr__, __dir__ = lazy_names(
    __name__, {name: _CLIENT.get(name, "common.errors") for name in __all__}
)
