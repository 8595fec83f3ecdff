"""One exchange with a client: the request after the checks of the pipeline, and the response."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, LiteralString, NamedTuple
from uuid import UUID

from keyrack.api.caller import permit
from keyrack.api.grants import NOTHING, Grant
from keyrack.api.permissions import Free, Permission
from keyrack.api.principals import FOR_PEOPLE, AppUser, Caller, CallerKey, Device, Driver, ManagerCaller, ManagerId
from keyrack.api.request_mode import RequestMode
from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.api.subscriptions import FollowContext
from keyrack.core.errors import JSON, Forbidden, Refusal
from keyrack.core.tracing.context import here
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.transaction_database import InTransaction

Returns = Literal["", "minimal", "representation"]  # "" for the spec's response
ANY = ("*",)  # instead of ETags: any existing resource


class DriverBrowser(NamedTuple):
    """Headers of a driver's browser, its session and its pending challenges."""

    agent: str  # `User-Agent`
    languages: str | None  # `Accept-Language`
    challenges: str | None  # sealed challenges for a passkey
    session: str | None  # the secret, which may be invalid


@dataclass(slots=True, kw_only=True)
class Request:
    """One request, after the checks of the pipeline. `customer` is 0 if the endpoint has none."""

    db: Database
    batches: GroupCommitter
    announce: Callable[[LiteralString], None]  # one of `worker_wakeup`, sent when the request is done
    id: str
    method: str
    path: str  # below the base, as sent
    address: str  # of the client
    caller: Caller | None
    customer: int
    ids: tuple[Any, ...]  # the path's parameters in their order, converted
    query: bytes
    body: bytes
    chunks: bool  # the client supports responses of unknown length
    device: Device | None = None  # the device, if the request has a device key
    returns: Returns = ""  # the preferred response of a write
    # One of these ETags, in quotes, must be the current one; or `ANY`
    if_match: tuple[str, ...] | None = None
    if_none_match: str | None = None  # of a read, as sent
    authorization: str | None = None  # as sent, for rows with client credentials
    without_key: bool = False  # no API key was sent; the endpoint decides whether it is needed
    follow: FollowContext | None = None  # for streams and long polls; None in a call from within the process
    also: bool = False  # the client prefers the endpoint's other media type
    app: AppUser | None = None  # the user of an app's id token
    driver: Driver | None = None  # the driver of a session at `/drive`
    browser: DriverBrowser | None = None  # on rows of the app at `/drive`
    # The endpoint's own query parameters if unknown names are rejected; None if they are ignored
    parameters: tuple[str, ...] | None = None
    hides_extensions: bool = False  # a caller of the spec: extensions are returned only if `$select` names them
    strict: bool = False  # the client prefers the rejection of unknown properties
    mode: RequestMode = RequestMode.SPEC
    wait: int = 0  # seconds that the response may wait for the outcomes of its operations

    @property
    def shows_result(self) -> bool:
        """Whether the response to a write shows its result."""
        return self.returns == "representation" or self.wait > 0

    @property
    def manager(self) -> ManagerCaller:
        """The calling manager. Raises `Forbidden` for every other principal."""
        if self.caller is None:
            raise Forbidden(FOR_PEOPLE)
        return self.caller.manager

    @property
    def caller_key(self) -> CallerKey:
        """The identity of the caller, on rows that need a token."""
        assert self.caller is not None  # noqa: S101 - the row needs a token
        return self.caller.key

    @property
    def grant(self) -> Grant:
        """The caller's grant in the customer."""
        return self.caller.grant(self.customer) if self.caller and self.customer else NOTHING

    @property
    def scope(self) -> int | None:
        """The group scope of a group-limited caller; None for all others."""
        return self.grant.scope

    @property
    def compares(self) -> bool:
        """Whether the client names the state that it has seen."""
        return self.if_match is not None and self.if_match != ANY

    def permit(self, permission: Permission | Free) -> None:
        """Raises `NotPermitted` unless the caller has the permission.

        It is needed in the customer, or in any customer if the row has none.
        """
        permit(self.caller, permission, self.customer)

    def customers_with(self, permission: Permission) -> list[int]:
        """The customers in which the caller has the permission."""
        return self.caller.customers_with(permission) if self.caller else []

    def within(self, db: InTransaction, announce: Callable[[LiteralString], None]) -> Request:
        """The same request within an open transaction. `announce` keeps its notifications until the commit."""
        return replace(self, db=db, batches=GroupCommitter(db), announce=announce)

    @property
    def asker(self) -> RequestOrigin:
        """The origin of asynchronous work."""
        place = here.get()
        return RequestOrigin(
            self.caller and self.caller.id, self.address, self.id, place.traceparent if place else None
        )

    @property
    def checksum(self) -> str:
        """The fingerprint with which an outcome identifies its request."""
        return checksum(self.body, self.method, self.path)


def manager_id(request: Request) -> ManagerId:
    """The id of the calling manager. Raises `Forbidden` for every other principal."""
    return request.manager.id


def driver_of(request: Request) -> Driver:
    """The signed-in driver, on rows of drivers."""
    assert request.driver is not None  # noqa: S101 - a row of drivers has one
    return request.driver


def browser_of(request: Request) -> DriverBrowser:
    """The browser, on rows of the app at `/drive`."""
    assert request.browser is not None  # noqa: S101 - a row of the app has one
    return request.browser


def manager_parameter(request: Request) -> dict[str, object]:
    """The calling manager as the parameter of resources that belong to managers. Raises `Forbidden`."""
    return {"manager": manager_id(request)}


@dataclass(frozen=True, slots=True)
class Response:
    """A response. `body` is None for an empty one; a long one has `parts`."""

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = JSON
    parts: AsyncIterator[bytes] | None = None
    is_constant: bool = False  # constant bytes, so derived data can be cached
    created_id: int | UUID | None = None  # the id of the created resource or operation


class DryRunRollback(Exception):
    """A response or error that leaves no changes.

    It is raised to roll back its transaction, including what was stored for an Idempotency-Key.
    """

    def __init__(self, outcome: Response | Refusal) -> None:
        super().__init__()
        self.outcome = outcome


NO_CONTENT = Response(204)


def answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None, made: int | None = None
) -> Response:
    """A response with `value` as JSON."""
    return Response(status, json.dumps(value).encode(), headers or {}, created_id=made)


def with_vary(headers: Mapping[str, str], name: str) -> dict[str, str]:
    """Headers of a response that also depends on this request header.

    Source: RFC 9110, section 12.5.5.
    """
    vary = headers.get("Vary")
    return {**headers, "Vary": name if vary is None else f"{vary}, {name}"}


def with_applied_preference(headers: Mapping[str, str], preference: str) -> dict[str, str]:
    """Headers of a response to which one more preference applies.

    Source: RFC 7240, section 3.
    """
    applied = headers.get("Preference-Applied")
    if applied is not None:
        return {**headers, "Preference-Applied": f"{applied}, {preference}"}
    return with_vary({**headers, "Preference-Applied": preference}, "Prefer")


def created(id: int) -> Response:
    """201 with the id of the created resource (spec: `{id}`)."""
    return Response(201, b'{"id": %d}' % id, created_id=id)
