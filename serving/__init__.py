"""The online side: a gRPC service that speaks TensorFlow Serving's protocol, and its client.

The names below are imported when they are first used, so that `import serving` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
_MODULES = {
    "AsyncClient": "serving.client.asynchronous",
    "Client": "serving.client.blocking",
    "ClientOptions": "serving.client.options",
    "Ranking": "serving.client.ranking",
    "Tls": "serving.common.tls",
}
_ERRORS = "serving.common.errors"


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES.get(name, _ERRORS)), name)


def __dir__() -> list[str]:
    return __all__
