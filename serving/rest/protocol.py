"""HTTP/1.1 that waits for a request, but not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 75.0


class Http(H11Protocol):
    """Closes a connection that has no request under way for `HEAD_SECONDS`.

    uvicorn's own time for that begins with the first answer and ends with any byte: who sends
    nothing, or half a head, or a body that was answered already, keeps his connection for ever.
    """

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._wait()
        super().on_response_complete()

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(HEAD_SECONDS, self._close_unless_busy)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()

    def _close_unless_busy(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
