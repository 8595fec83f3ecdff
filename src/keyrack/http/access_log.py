"""Observation of a request: its id in the response, metrics, span and access log line.

`RequestState` has the route and the customer as soon as they are known.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable
from time import perf_counter, time_ns
from typing import Any

import structlog

from keyrack.core.metrics.catalog import CUSTOMERS, REQUEST_SECONDS, REQUESTS, REQUESTS_OF, UNDER_WAY
from keyrack.core.tracing.context import TraceContext
from keyrack.core.tracing.spans import SECOND, TRACES
from keyrack.http.request_ids import caller, is_made
from keyrack.http.request_state import request_state

log = structlog.get_logger("keyrack.requests")

UNKNOWN, NONE, OTHER = "unknown", "none", "other"  # an unknown path; no route yet; an unknown method
BROKEN_OFF = "499"  # in place of a status: the client disconnected before the response
_under_way = UNDER_WAY.of()
LONGEST = 1_000  # maximum characters of a path in the log


class RequestObserver:
    """One active request. It replaces `send` from the first to the last message."""

    __slots__ = ("_bytes", "_headers", "_place", "_scope", "_seconds", "_send", "_started_at", "_state", "_status")

    def __init__(self, scope: dict[str, Any], send: Any, headers: tuple[tuple[bytes, bytes], ...]) -> None:
        self._scope = scope
        self._state = request_state(scope)
        self._send = send
        self._headers = headers  # additional headers of the response
        self._started_at = perf_counter()
        self._seconds: float | None = None
        self._status = BROKEN_OFF
        self._bytes = 0
        self._place = _traced(scope) if TRACES.on else None
        _under_way.value += 1

    def __call__(self, message: dict[str, Any]) -> Awaitable[None]:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *self._headers]
            self._status = str(message["status"])
            if message["status"] in (429, 503):
                self._state.is_retried_later = True
            if self._state.subscription is not None:
                self._seconds = perf_counter() - self._started_at - self._state.subscription.wait_seconds
        else:
            self._bytes += len(message.get("body", b""))
        return self._send(message)

    def failed(self) -> None:
        """The request raised an exception. Uvicorn responds with 500 if the response has not begun."""
        if self._status == BROKEN_OFF:
            self._status = "500"

    def end(self, method: str, path: str, *, logged: bool) -> None:
        """The request has ended. `path` is the path as the client sent it."""
        _under_way.value -= 1
        state, whole = self._state, perf_counter() - self._started_at
        seconds = whole if self._seconds is None else self._seconds
        route = state.route or NONE
        REQUESTS.of(method, route, self._status).value += 1
        REQUEST_SECONDS.of(method, route).observe(seconds)
        if CUSTOMERS.any and state.customer:
            REQUESTS_OF.count(state.customer, self._status[0] + "xx")
        if logged:
            self._log(method, route, path, whole)
        if self._place is not None and self._place.sampled:
            self._trace(self._place, method, route, whole)

    def _trace(self, place: TraceContext, method: str, route: str, seconds: float) -> None:
        failed = "" if self._status < "5" and self._status != BROKEN_OFF else self._status
        TRACES.answered(
            place, "_OTHER" if method == OTHER else method, "" if route in (NONE, UNKNOWN) else route, self._status,
            time_ns() - int(seconds * SECOND), self._state.id, self._state.customer, failed,
        )  # fmt: skip

    def _log(self, method: str, route: str, path: str, seconds: float) -> None:
        """Write the log line, without the query string, which may contain names."""
        state, client = self._state, self._scope["client"]
        log.info(
            "request", method=method, route=route, path=path[:LONGEST], status=int(self._status),
            seconds=round(seconds, 6), bytes=self._bytes, customer=state.customer or None, manager=state.caller or None,
            address=client[0] if client else None,
        )  # fmt: skip


def _traced(scope: dict[str, Any]) -> TraceContext:
    """The place of the request in a trace.

    If the trace begins here, its id is the request id, or a random one if that is no valid trace id.
    """
    above, id = caller(scope["headers"]), request_state(scope).id
    return TRACES.request(above, id if above is None and is_made(id) else secrets.token_hex(16))


def aborted_by_client(status: int, id: str, client: tuple[str, int] | None, length: int, *, logged: bool) -> None:
    """A request was rejected before parsing: without method and path."""
    REQUESTS.of(OTHER, NONE, str(status)).value += 1
    if logged:
        log.info(
            "request", method=OTHER, route=NONE, path="", status=status, seconds=None, bytes=length, customer=None,
            manager=None, address=client[0] if client else None, request_id=id,
        )  # fmt: skip


def always_logged() -> None:
    """Write access log lines at every log level, because a setting enables them."""
    logging.getLogger("keyrack.requests").setLevel(logging.INFO)
