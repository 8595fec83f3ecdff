"""The state of one HTTP request, in its ASGI scope as `scope["keyrack"]`.

The connection, the middleware and the routes have no common parameters, so they share this object. The generated page
docs/implicit-context.md (`make docs`) has a row for each field, with the modules that set and read it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keyrack.api.request_mode import RequestMode
from keyrack.api.subscriptions import Subscription
from keyrack.db.replication.wal_positions import Position

KEY = "keyrack"  # Keyrack's only key in a scope


@dataclass(slots=True)
class RequestState:
    """Facts about a request beside its parameters. The comment of each field is its text on the page."""

    id: str = ""  # The request id: in the answer, in each line of the log and in the change log.
    route: str | None = None  # The template of the path, for metrics and the access log.
    customer: int = 0  # The number of the customer, 0 for none, for metrics and the access log.
    caller: int = 0  # The number of the calling manager or client, 0 for none, for the access log.
    mode: RequestMode | None = None  # The mode of the request, None before the caller is authenticated.
    is_console_call: bool = False  # A page of the console calls the API: its session stands for key and token.
    has_allowed_origin: bool = False  # The page that calls is of an origin that CORS allows.
    is_client_gone: bool = False  # The connection was lost, so the request was cancelled.
    is_retried_later: bool = False  # The answer is 429 or 503: the connection waits before its next request.
    end_load: Callable[[], None] | None = None  # Ends its count as an active request, before it waits for outcomes.
    subscription: Subscription | None = None  # A stream or long poll, which has to end at shutdown.
    read_position: Position | None = None  # The position in the history, for the header Keyrack-Position.
    ignored_members: str | None = None  # The value of the header Keyrack-Ignored.


def request_state(scope: dict[str, Any]) -> RequestState:
    """The state of the request. The first caller creates it, possibly the connection before the application runs."""
    state: RequestState | None = scope.get(KEY)
    if state is None:
        state = scope[KEY] = RequestState()
    return state
