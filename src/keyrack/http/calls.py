"""Calls of endpoints: the state that the steps of the pipeline read and fill in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import falcon.asgi

from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import DriverBrowser, Request, Returns
from keyrack.api.principals import AppUser, Caller, Device, Driver
from keyrack.api.request_mode import RequestMode
from keyrack.api.subscriptions import FollowContext
from keyrack.db.replication.wal_positions import Position
from keyrack.http.ingest_memory import MemoryReservation
from keyrack.http.request_parsing import BodyFormat, body_format
from keyrack.http.request_state import RequestState
from keyrack.http.services import ServeServices
from keyrack.http.steps import CheckFunction, Next


@dataclass(slots=True)
class BoundEndpoint:
    """An endpoint with its steps, which are chosen when the routes are added."""

    endpoint: Endpoint[ServeServices]
    receive: Next[HttpCall]  # for a client's request
    perform: Next[Call]  # for a call whose `Request` exists
    authenticate: tuple[CheckFunction[HttpCall], ...]
    body_format: BodyFormat = field(init=False)

    def __post_init__(self) -> None:
        self.body_format = body_format(self.endpoint)


@dataclass(slots=True, kw_only=True)
class Call:
    """One call of an endpoint, from a client or from within the process.

    A check may change it. A wrapper may run the later steps several times, so it never changes the call. It passes on
    another one (`with_request`).
    """

    route: BoundEndpoint
    services: ServeServices
    request: Request
    value: Any = None  # the validated body, then the result of `prepare`
    idempotency_key: str | None = None
    proven: int | None = None  # the heartbeat that confirms the primary for this response (`Authenticator.check`)

    def with_request(self, request: Request) -> Call:
        """The same call with another request, such as one within a transaction."""
        return Call(
            route=self.route, services=self.services, request=request, value=self.value,
            idempotency_key=self.idempotency_key,
        )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class HttpCall(Call):
    """A client's call, with the results of the steps until `build_request` creates the `Request`."""

    http: falcon.asgi.Request
    state: RequestState
    params: Mapping[str, str]  # of the path
    request: Request = field(init=False)
    caller: Caller | None = None
    device: Device | None = None
    app: AppUser | None = None
    driver: Driver | None = None
    browser: DriverBrowser | None = None
    customer: int = 0
    reservation: MemoryReservation | None = None  # of a delivery of lines
    body: bytes = b""
    is_strict: bool = False  # the client prefers the rejection of whatever is unknown
    preferred_return: Returns = ""
    returns: Returns = ""  # the same, only on rows that can return the result of the write
    wait: int = 0  # seconds that the response may wait for outcomes
    if_match: tuple[str, ...] | None = None
    if_none_match: str | None = None
    prefers_other_type: bool = False
    follow: FollowContext | None = None
    authorization: str | None = None
    is_without_key: bool = False
    read_position: Position | str | None = None  # the position that the client has seen, or `LATEST`

    @property
    def mode(self) -> RequestMode:
        """The mode of the request."""
        return self.state.mode or RequestMode.SPEC

    @property
    def rejects_unknown(self) -> bool:
        """Whether unknown properties and query options are errors."""
        return self.is_strict or self.mode is RequestMode.STRICT
