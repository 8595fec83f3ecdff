"""In charge of one exchange with a client: the request after the edge has checked it, and the answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, LiteralString
from uuid import UUID

from keyrack.api.caller import permit
from keyrack.api.grants import NOTHING, Grant
from keyrack.api.permissions import Free, Permission
from keyrack.api.principals import FOR_PEOPLE, AppUser, Caller, CallerKey, Device, ManagerCaller, ManagerId
from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.api.subscriptions import FollowContext
from keyrack.core.errors import JSON, Forbidden, Refusal
from keyrack.core.tracing.context import here
from keyrack.db.connection import Database
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.transaction_database import InTransaction

Returns = Literal["", "minimal", "representation"]  # "" for what the spec says
ANY = ("*",)  # in place of tags: whatever there is


@dataclass(slots=True, kw_only=True)
class Request:
    """One request, after the edge has checked it. `customer` is the tenant: 0 where the endpoint has none."""

    db: Database
    batches: GroupCommitter
    announce: Callable[[LiteralString], None]  # one of `worker_wakeup`, given when the request is done
    id: str
    method: str
    path: str  # below the base, as it was sent
    address: str  # of the client
    caller: Caller | None
    customer: int
    ids: tuple[Any, ...]  # the path's parameters in their order, converted
    query: bytes
    body: bytes
    chunks: bool  # the client understands an answer whose length is not known beforehand
    device: Device | None = None  # who delivers, where a device key says so
    returns: Returns = ""  # what the client prefers to get of a write
    # One of these tags, in quotes, must be that of what there is; or `ANY`
    if_match: tuple[str, ...] | None = None
    if_none_match: str | None = None  # of a read, as it was sent
    authorization: str | None = None  # as it was sent, where clients show a secret
    without_key: bool = False  # no API key was sent, where the row lets the endpoint look who needs one
    follow: FollowContext | None = None  # on rows that can be followed; a call from within the process follows nothing
    also: bool = False  # the client prefers the other media type that the endpoint has
    app: AppUser | None = None  # the user of the id token with which an app calls
    # The endpoint's own query parameters, if every other unknown name is refused; None if they are ignored
    parameters: tuple[str, ...] | None = None
    hides_extensions: bool = False  # the caller knows the spec alone: members beyond it are shown only if it names them
    strict: bool = False  # the client prefers that unknown members are refused

    @property
    def manager(self) -> ManagerCaller:
        """The manager who calls. Raises `Forbidden` for every other principal."""
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
        """What whoever asks may in the customer."""
        return self.caller.grant(self.customer) if self.caller and self.customer else NOTHING

    @property
    def scope(self) -> int | None:
        """What exists for who is limited to groups; None for who is not."""
        return self.grant.scope

    @property
    def compares(self) -> bool:
        """Whether what is changed has to be something that the client has seen."""
        return self.if_match is not None and self.if_match != ANY

    def permit(self, permission: Permission | Free) -> None:
        """Raises `NotPermitted` unless whoever asks has it: in the customer, or, of what belongs to none, in one."""
        permit(self.caller, permission, self.customer)

    def customers_with(self, permission: Permission) -> list[int]:
        """The customers in which whoever asks has it."""
        return self.caller.customers_with(permission) if self.caller else []

    def within(self, db: InTransaction, announce: Callable[[LiteralString], None]) -> Request:
        """The same request in a transaction that is under way; `announce` keeps its notices until that is committed."""
        return replace(self, db=db, batches=GroupCommitter(db), announce=announce)

    @property
    def asker(self) -> RequestOrigin:
        """Who asks for asynchronous work."""
        place = here.get()
        return RequestOrigin(
            self.caller and self.caller.id, self.address, self.id, place.traceparent if place else None
        )

    @property
    def checksum(self) -> str:
        """The fingerprint by which an outcome names its request."""
        return checksum(self.body, self.method, self.path)


def manager_id(request: Request) -> ManagerId:
    """The id of the manager who calls. Raises `Forbidden` for every other principal."""
    return request.manager.id


def manager_parameter(request: Request) -> dict[str, object]:
    """The manager who calls, as the parameter of resources that belong to managers. Raises `Forbidden`."""
    return {"manager": manager_id(request)}


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back: `body` is finished bytes, or None for an empty answer; a long one comes in `parts`."""

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    media_type: str = JSON
    parts: AsyncIterator[bytes] | None = None
    is_constant: bool = False  # the same bytes each time, so that what is made of them can be kept
    created_id: int | UUID | None = None  # the id of what was made, or of the work that was asked for


class DryRunRollback(Exception):
    """An answer, or a refusal, that leaves nothing behind: it is raised, so that the transaction that it stands in is
    undone, and what is kept for an Idempotency-Key with it."""

    def __init__(self, outcome: Response | Refusal) -> None:
        super().__init__()
        self.outcome = outcome


NO_CONTENT = Response(204)


def answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None, made: int | None = None
) -> Response:
    """An answer with `value` as JSON."""
    return Response(status, json.dumps(value).encode(), headers or {}, created_id=made)


def with_vary(headers: Mapping[str, str], name: str) -> dict[str, str]:
    """The headers of an answer that depends on this header of the request as well (RFC 9110, section 12.5.5)."""
    vary = headers.get("Vary")
    return {**headers, "Vary": name if vary is None else f"{vary}, {name}"}


def created(id: int) -> Response:
    """201 with the id of what was made (spec: `{id}`)."""
    return Response(201, b'{"id": %d}' % id, created_id=id)
