"""In charge of what an endpoint is: how a row of the table becomes a path, a check of the body and an answer.

A read is a row: a `Select` and its refusals. A write is a function: it gets the request, the checked body where there
is one, and whatever else of the process it names as a parameter, by its type. Who calls, for which customer, and the
body's form are checked by the edge (`http`) before either is asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, LiteralString

from pydantic import TypeAdapter

from keyrack.api.caller import Principals, permit, principals
from keyrack.api.exchange import Request, Response
from keyrack.api.grants import LimitedToGroups
from keyrack.api.odata import check_names
from keyrack.api.path_ids import path_id
from keyrack.api.permissions import Free, Permission, closed
from keyrack.api.principals import FOR_PEOPLE, Caller, ClientCaller, ManagerCaller, Scope
from keyrack.api.query_parameters import QueryParameter, given
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.read_sql import Parent, Select
from keyrack.api.schema.fields import OwnRows, Resource
from keyrack.core.error_codes import NOTHING_HERE, ErrorCode
from keyrack.core.errors import JSON, Forbidden
from keyrack.core.settings import Settings
from keyrack.db.connection import Statements

Run = Callable[..., Awaitable[Response]]  # the request, the checked body or None, and the parts that it names
# Looks whether a request that changes the ground would be refused: statements, the request, the checked body or None
Check = Callable[[Statements, Request, Any], Awaitable[object]]


@dataclass(frozen=True)
class Endpoint:
    """One row of the table: everything that the edge, the documents and the contract tests need to know."""

    method: str
    path: str
    tag: str
    summary: str
    run: Run
    permission: Permission | Free = field(kw_only=True)  # what it wants of its caller
    status: int = 200
    read: ReadEndpoint | None = None
    body: TypeAdapter[Any] | None = None
    what: str = ""  # "create car": names the action in the refusal of a body
    form: Callable[[bytes], Any] | None = None  # the body is a form, not JSON, and this is how it is read
    parts: tuple[type, ...] = ()  # what of the process `run` takes behind the body
    # What takes long and needs no connection: makes of the checked body what `run` gets; it may name parts as well
    before: Callable[..., Awaitable[Any]] | None = None
    before_parts: tuple[type, ...] = ()
    # For who is limited to groups: the members of the body that name things; what is not in the groups is looked for
    # under a number that nothing has, in the path as well. A write without it, even `()`, is not for them
    limited: tuple[str, ...] | None = None
    # It changes what pending operations stand on: these are applied first, unless it is refused by this look already
    ground: Check | None = None
    settles: Callable[[Any], bool] = lambda value: True  # whether this value for the body does so
    # `If-Match` is compared with the row of the path, which is shown by the read of the same path
    compares: Resource | None = None
    # With `If-Match` it is done like what changes the ground: this is the look that refuses it at once
    settled: Check | None = None
    key: bool = True  # the exceptions of the edge's checks, each visible in its row
    token: bool = True
    customer: bool = True
    # Machine clients show a secret here: where they go without an API key, the endpoint looks itself who needs one
    by_secret: bool = False
    device: Scope | None = None  # a device key with this scope says who calls, and for which customer
    for_people: bool = False  # machine clients are refused here, whatever their permissions
    app: bool = False  # an app calls for a user: its id token says for whom, and for which customer
    finds_user: bool = False  # its own statement finds out whether an app's user is still there
    item: TypeAdapter[Any] | None = None  # of one line of a raw body
    raw: bool = False  # the body is JSON lines or a JSON array, perhaps packed, which the endpoint reads itself
    converters: tuple[Callable[[str], Any], ...] = ()
    refuses: Mapping[int, tuple[ErrorCode, ...]] = field(default_factory=dict[int, tuple[ErrorCode, ...]])
    answers: Any = None  # the model of a successful answer's body, where it is no resource
    in_part: Mapping[int, tuple[ErrorCode, ...]] = field(
        default_factory=dict[int, tuple[ErrorCode, ...]]
    )  # in an answer
    reports: Mapping[int, Any] = field(default_factory=dict[int, Any])  # the models of refusals of its own, by status
    media_type: str = JSON  # of a successful answer; "" where it has no body
    ours: bool = False  # an extension of the spec
    preview: bool = False  # may still change in a minor release (docs/releases.md)
    once: bool = True  # a write that honours Idempotency-Key
    leads: bool = False  # a read that is the leader's: something is decided by it, or waited for
    also: str = ""  # another media type of a successful answer, for who prefers it
    follows: bool = False  # its answer may wait for what comes: by `wait`, or as server-sent events
    # The read of one row whose answer comes back where `return=representation` is preferred
    shows: Endpoint | None = None
    secret: bool = False  # a successful answer shows a secret, so it is never compressed (docs/decisions.md, "BREACH")
    most: Callable[[Settings], int] = lambda settings: settings.max_body_bytes  # bytes from which on a body is refused
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # of a successful answer: name -> meaning
    # A part of the request or of the answer -> the permission that it needs, which `run` checks
    parts_need: Mapping[str, Permission] = field(default_factory=dict[str, Permission])
    options: tuple[QueryParameter, ...] = ()  # of the query string, where it is no OData
    checks_items: bool = False  # `before` checks the bodies of its items, strictly if the client prefers that
    refuses_queries: bool = False  # `before` or `run` rejects every query string with a reason of its own

    def __post_init__(self) -> None:
        """Raises `TypeError` for a row that anybody might call by mistake."""
        free = Free.USER if self.app else None if self.token else Free.ANYBODY
        free = Free.DEVICE if self.device is not None else free
        wanted = self.permission
        if (free and wanted is not free) or (not free and wanted in (Free.ANYBODY, Free.DEVICE, Free.USER)):
            raise TypeError(f"{self.method} {self.path}: its permission does not fit who calls it")
        if self.customer and not isinstance(wanted, Permission):
            raise TypeError(f"{self.method} {self.path}: what is a customer's needs a permission there")

    def permit(self, caller: Caller | None, customer: int) -> None:
        """Raises `NotPermitted` unless the caller has every permission of the row.

        Raises `Forbidden` for a machine client if the row is for people.
        """
        reads_own = self.read is not None and caller is not None and self.read.reads_own(caller.grant(customer))
        for wanted in self._checked:
            if not reads_own:
                permit(caller, wanted, customer)
        if self.for_people and not isinstance(caller, ManagerCaller):
            raise Forbidden(FOR_PEOPLE)
        if reads_own or not customer or self.honours_limits or caller is None:
            return
        if caller.grant(customer).scope is not None:
            raise LimitedToGroups(self.permission, customer)

    @cached_property
    def _checked(self) -> tuple[Permission | Free, ...]:
        return tuple(dict.fromkeys((self.permission, *self.permissions)))

    @cached_property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that every request needs: the row's own first, then those of its resource and its parent."""
        wanted = (self.permission, *(self.read.permissions if self.read else ()))
        return tuple(dict.fromkeys(permission for permission in wanted if isinstance(permission, Permission)))

    @cached_property
    def conditional_permissions(self) -> Mapping[str, Permission]:
        """Further permissions, by the part of a request or an answer that needs each.

        A relation of a relation needs the permission of its own resource as well.
        """
        shows = self.shows.read if self.shows else None
        needs: dict[str, Permission | Free] = {**self.parts_need}
        if shows is not None and shows.own is None:
            needs["`return=representation`"] = shows.select.resource.permission
        for read in (self.read, shows):
            if read is not None:
                needs |= {f"the relation `{name}`": wanted for name, wanted in read.relations.items()}
        has = closed(self.permissions)
        return {part: wanted for part, wanted in needs.items() if isinstance(wanted, Permission) and wanted not in has}

    @property
    def principals(self) -> Principals:
        """The types of the principals that the row is for."""
        return (ManagerCaller,) if self.for_people else principals(self.permission)

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in their order."""
        return [part.split("}")[0] for part in self.path.split("{")[1:]]

    def query_parameters(self, caller: Caller | None) -> tuple[str, ...] | None:
        """The names of its own query parameters, if every other unknown name is rejected; None if they are ignored.

        The spec's endpoints ignore them, but for machine clients, which the spec does not have. A misspelt `$filter`
        must not return all rows. Public endpoints ignore them as well, because probes and caches add some.
        """
        if self.permission is Free.ANYBODY or not (self.ours or isinstance(caller, ClientCaller)):
            return None
        return tuple([option.name for option in self.options])

    def check_query(self, request: Request) -> None:
        """Check names in the query string, unless a read or the function does. Raises `BadRequest`."""
        if request.parameters is None or self.read is not None or self.options or self.refuses_queries:
            return
        if self.shows is None or self.shows.read is None:
            given(request.query, ())
        elif request.returns != "representation":
            check_names(request.query, self.shows.read.select.shape, ())

    @cached_property
    def honours_limits(self) -> bool:
        """Whether it may be called by who is limited to groups."""
        return self.limited is not None or (self.read is not None and self.read.is_limited)

    @property
    def shown_status(self) -> int:
        """The status where `shows` is answered: what was made, what was changed, or the work that was asked for."""
        if self.shows is None or self.status != 204:
            return self.status
        return 200 if self.shows.path == self.path else 202

    @property
    def tagged(self) -> bool:
        """Whether its answers have an ETag."""
        return self.read is not None or "ETag" in self.headers

    @property
    def replicated(self) -> bool:
        """Whether a replica may answer."""
        return self.method == "GET" and self.customer and not self.leads

    @property
    def repeatable(self) -> bool:
        """Whether an Idempotency-Key makes it safe to send again."""
        return self.once and self.token and self.method != "GET"


# A row of ours for what units send; it says the scope that is needed by `device`
FROM_DEVICES: dict[str, Any] = {
    "status": 200, "permission": Free.DEVICE, "key": False, "token": False, "customer": False, "raw": True,
    "ours": True,
}  # fmt: skip
# A row of ours for the app of a user
FROM_APPS: dict[str, Any] = {
    "permission": Free.USER, "key": False, "token": False, "app": True, "customer": False, "ours": True,
}  # fmt: skip
# A row of ours that anybody may read
PUBLIC: dict[str, Any] = {
    "status": 200, "permission": Free.ANYBODY, "key": False, "token": False, "customer": False, "ours": True,
}  # fmt: skip
TAGGED = {"ETag": "What the answer is: `If-None-Match` with it is answered 304 as long as nothing has changed."}


class Endpoints:
    """The rows of one module, in the order of the spec. A row that names no permission wants the one to read or to
    write of `about`. All rows of the module are in preview, or none."""

    def __init__(self, tag: str, about: str | Free = "", *, preview: bool = False) -> None:
        self.tag = tag
        self._about = about
        self._preview = preview
        self.rows: list[Endpoint] = []

    def get(
        self,
        path: str,
        resource: Resource,
        summary: str,
        *,
        one: bool = False,
        of: Parent | None = None,
        missing: ErrorCode | None = None,
        empty: ErrorCode | None = None,
        teller: Resource | None = None,
        silent: ErrorCode | None = None,
        by: LiteralString = "",
        paged: bool = False,
        tenant: Callable[[Request], Mapping[str, object]] | None = None,
        own: OwnRows | None = None,
        customer: bool = True,
        convert: Mapping[str, Callable[[str], Any]] | None = None,
        **row: Any,
    ) -> Endpoint:
        """A read: one statement over a resource; `one` row by its key, or all; `of` the parent of the path's id."""
        if one and of is None and not by:
            by = resource.order("{t}") + " = :id0"
        select = Select(resource, one, of, by, paged, bool(empty) and not one, teller=teller)
        read = ReadEndpoint(select, missing or NOTHING_HERE, empty, silent, own, tenant or ReadEndpoint.tenant)
        reasons = tuple(reason for reason in (missing, empty, silent) if reason)
        refuses = ({404: reasons} if reasons else {}) | row.pop("refuses", {})
        endpoint = Endpoint(
            "GET", path, self.tag, summary, read, permission=self._permission("GET", row), read=read,
            parts=_parts(ReadEndpoint.__call__, 3), customer=customer, refuses=refuses, **row,
        )  # fmt: skip
        return self._add(endpoint, convert)

    def put(self, path: str, summary: str, **row: Any) -> Callable[[Any], Any]:
        """A write by PUT; see `Endpoint` for what a row may say."""
        return self.write("PUT", path, summary, **row)

    def patch(self, path: str, summary: str, **row: Any) -> Callable[[Any], Any]:
        return self.write("PATCH", path, summary, **row)

    def delete(self, path: str, summary: str, **row: Any) -> Callable[[Any], Any]:
        return self.write("DELETE", path, summary, **row)

    def post(self, path: str, summary: str, **row: Any) -> Callable[[Any], Any]:
        return self.write("POST", path, summary, **row)

    def write(
        self,
        method: str,
        path: str,
        summary: str,
        *,
        body: Any = None,
        convert: Mapping[str, Callable[[str], Any]] | None = None,
        status: int = 204,
        **row: Any,
    ) -> Callable[[Any], Any]:
        """A function; what it may take stands at the top of this module."""

        permission = self._permission(method, row)

        def add(function: Any) -> Any:
            adapter: TypeAdapter[Any] | None = TypeAdapter(body) if body is not None else None
            run = function if body is not None else _without_body(function)
            parts = _parts(function, 1 if body is None else 2)
            before = _parts(row["before"], 2) if "before" in row else ()
            endpoint = Endpoint(
                method, path, self.tag, summary, run, status, permission=permission, body=adapter, parts=parts,
                before_parts=before, **row,
            )  # fmt: skip
            self._add(endpoint, convert)
            return function

        return add

    def _permission(self, method: str, row: dict[str, Any]) -> Permission | Free:
        """What the row wants, taken out of it. Raises `ValueError` where there is no such permission."""
        named: Permission | Free | None = row.pop("permission", None)
        if named is not None or isinstance(self._about, Free):
            return named or Free(self._about)
        return Permission(f"{self._about}:{'read' if method == 'GET' else 'write'}")

    def _add(self, endpoint: Endpoint, convert: Mapping[str, Callable[[str], Any]] | None) -> Endpoint:
        converters = tuple((convert or {}).get(name, path_id) for name in endpoint.parameters)
        self.rows.append(replace(endpoint, converters=converters, preview=self._preview))
        return self.rows[-1]


def _parts(function: Callable[..., object], before: int) -> tuple[type, ...]:
    """The types of a function's parameters behind the first ones."""
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    return tuple(parameter.annotation for parameter in parameters[before:])


def _without_body(function: Callable[..., Awaitable[Response]]) -> Run:
    async def run(request: Request, _body: None, *parts: object) -> Response:
        return await function(request, *parts)

    return run
