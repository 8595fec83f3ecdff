"""An endpoint: one row of the table, in a few typed groups.

The row has everything that the pipeline, the documents and the contract tests need. An invalid combination of groups
raises a `TypeError` at import, which names the row.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import TypeAdapter

from keyrack.api.auth_schemes import Auth, ClientSecretAuth, CustomerAuth, DeviceAuth, PublicAuth
from keyrack.api.caller import Principals, permit, principals
from keyrack.api.exchange import Request, Response
from keyrack.api.grants import LimitedToGroups
from keyrack.api.odata import check_names
from keyrack.api.permissions import Free, Permission, closed
from keyrack.api.principals import FOR_PEOPLE, Caller, ClientCaller, ManagerCaller
from keyrack.api.query_parameters import QueryParameter, parse_parameters
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.request_mode import RequestMode
from keyrack.api.schema.fields import Resource
from keyrack.api.schema.json_schema import NamedSchema
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import JSON, Forbidden
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import NOTHING, Topics
from keyrack.db.connection import Statements

B = TypeVar("B")
S_contra = TypeVar("S_contra", contravariant=True)  # a protocol: the services that the handler needs

Method = Literal["GET", "PUT", "PATCH", "DELETE", "POST"]
# The request, the checked body or None, and the services of the process
Handler = Callable[[Request, Any, S_contra], Awaitable[Response]]
# Rejects a request before it waits for pending operations: statements, the request, the checked body or None
Precheck = Callable[[Statements, Request, Any], Awaitable[object]]
Errors = Mapping[int, tuple[ErrorCode, ...]]  # by status

TAGGED = {
    "ETag": (
        "The entity tag of the response. A request with it in `If-None-Match` gets 304 until the response changes."
    )
}
_OPERATION_ID = re.compile(r"[a-z][A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Tag:
    """A section of the documents. Its writes notify subscribers of the live stream about `topics`."""

    name: str
    description: str
    topics: Topics = NOTHING


@dataclass(frozen=True, slots=True)
class Doc:
    """The texts of the documents. The operation id never changes: generated clients call it."""

    operation_id: str
    summary: str
    description: str
    is_extension: bool = False  # not in the spec
    is_preview: bool = False  # may change in a minor release (docs/releases.md)


def default_max_bytes(settings: Settings) -> int:
    """The default limit of a body, in bytes."""
    return settings.max_body_bytes


def ingest_max_bytes(settings: Settings) -> int:
    """The size in bytes from which a delivery is rejected."""
    return settings.max_ingest


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[B]):
    """A JSON body.

    `scoped_members` are properties with ids. For a group-limited caller, ids outside the groups are replaced by an id
    that does not exist.
    """

    adapter: TypeAdapter[B]
    action: str  # "create car": the action in errors about the body
    scoped_members: tuple[str, ...] = ()
    max_bytes: Callable[[Settings], int] = default_max_bytes
    has_item_checks: bool = False  # `prepare` validates the bodies of its items, strictly if the client prefers that


@dataclass(frozen=True, slots=True)
class FormBody(Generic[B]):
    """A form of OAuth 2. The adapter describes it; `parse` reads and checks it."""

    adapter: TypeAdapter[B]
    parse: Callable[[bytes], B]
    max_bytes: Callable[[Settings], int] = default_max_bytes


@dataclass(frozen=True, slots=True)
class OptionalBody(Generic[B]):
    """A JSON body of a row that had none before.

    Older clients may send anything, so `parse` returns None for what it ignores. A body that is too long or too slow is
    ignored as well, and no media type is required.
    """

    adapter: TypeAdapter[B]  # for the documents
    parse: Callable[[bytes], B | None]
    max_bytes: int = 65_536
    max_seconds: float = 5.0


@dataclass(frozen=True, slots=True)
class RawBody:
    """JSON lines or a JSON array, optionally compressed, that the handler parses itself."""

    item: TypeAdapter[Any]  # of one line
    max_bytes: Callable[[Settings], int] = ingest_max_bytes


@dataclass(frozen=True, slots=True)
class Concurrency:
    """The concurrency of a write with other writes.

    A serialized write runs alone in its customer, after all pending operations. So it may change the state that they
    depend on. The precheck rejects it before that wait.
    """

    if_match: Resource | None = None  # `If-Match` is compared with this row of the path, which a read returns
    serialized: Literal["never", "with-if-match", "always"] = "never"
    precheck: Precheck | None = None
    is_serialized_for: Callable[[Any], bool] = lambda value: True  # whether this value of the body needs it


@dataclass(frozen=True, slots=True)
class Responses:
    """The responses of an endpoint, without common errors (`http/openapi/error_catalog`)."""

    status: int = 204
    model: Any = None  # the body of a success, if it is not a resource
    _: KW_ONLY
    schema: NamedSchema | None = None  # the same, for a document without a model
    headers: Mapping[str, str] = field(default_factory=dict[str, str])  # of a success: name -> description
    # Successes that need a description of their own. Another status than `status` has the same model
    descriptions: Mapping[int, str] = field(default_factory=dict[int, str])
    errors: Errors = field(default_factory=dict[int, tuple[ErrorCode, ...]])
    item_errors: Errors = field(default_factory=dict[int, tuple[ErrorCode, ...]])  # reported within a response
    error_models: Mapping[int, Any] = field(default_factory=dict[int, Any])  # of errors with their own body
    media_type: str = JSON  # of a success; "" if it has no body
    alternative: str = ""  # another media type of a success, for clients that prefer it
    representation: Endpoint[Any] | None = None  # the read for `Prefer: return=representation`
    has_secret: bool = False  # a success contains a secret, so it is never compressed (docs/decisions, "compression")


@dataclass(frozen=True, slots=True)
class AwaitedOutcomes(Generic[S_contra]):
    """The outcomes that a response may wait for (`Prefer: wait`).

    `operations` returns the operations of a first response. `show` returns the response with their outcomes. It gets
    the request, the first response, and the operations that are still pending.
    """

    operations: Callable[[Request, Response], Sequence[UUID]]
    show: Callable[[Request, Response, Collection[UUID], S_contra], Awaitable[Response]]
    body: str  # the body of the response, for the documents


@dataclass(frozen=True)
class Endpoint(Generic[S_contra]):
    """One row of the table. Raises `TypeError` for an invalid combination of groups."""

    method: Method
    path: str
    tag: Tag
    doc: Doc
    auth: Auth
    handler: Handler[S_contra]
    _: KW_ONLY
    body: JsonBody[Any] | FormBody[Any] | OptionalBody[Any] | RawBody | None = None
    # Slow work that needs no connection: converts the validated body to the value for the handler
    prepare: Callable[[Request, Any, S_contra], Awaitable[Any]] | None = None
    concurrency: Concurrency = Concurrency()
    responses: Responses = Responses()
    read: ReadEndpoint | None = None
    query_parameters: tuple[QueryParameter, ...] = ()  # its own parameters, beside OData options
    converters: tuple[Callable[[str], Any], ...] = ()  # of the path's parameters, in their order
    topics: Topics = NOTHING  # topics of the live stream about which a success notifies subscribers
    is_idempotent: bool = True  # a write supports `Idempotency-Key`
    is_primary_only: bool = False  # a read on which decisions or waits are based, so no replica serves it
    awaited: AwaitedOutcomes[S_contra] | None = None  # outcomes that the response may wait for
    has_long_poll: bool = False  # the response may wait for data: by `wait`, or for a resource as server-sent events
    has_own_query_check: bool = False  # `prepare` or the handler rejects every query string with its own error

    def __post_init__(self) -> None:
        if faults := list(_faults(self)):
            raise TypeError(f"{self.method} {self.path}: {'; '.join(faults)}")

    def permit(self, caller: Caller | None, customer: int) -> None:
        """Raises `NotPermitted` unless the caller has every permission of the row.

        Raises `Forbidden` for a machine client if the row is for managers only.
        """
        reads_own = self.read is not None and caller is not None and self.read.reads_own(caller.grant(customer))
        for permission in self._checked:
            if not reads_own:
                permit(caller, permission, customer)
        if self.is_for_people and not isinstance(caller, ManagerCaller):
            raise Forbidden(FOR_PEOPLE)
        if reads_own or not customer or self.is_group_scoped or caller is None:
            return
        if caller.grant(customer).scope is not None:
            raise LimitedToGroups(self.auth.permission, customer)

    @cached_property
    def _checked(self) -> tuple[Permission | Free, ...]:
        return tuple(dict.fromkeys((self.auth.permission, *self.permissions)))

    @cached_property
    def permissions(self) -> tuple[Permission, ...]:
        """The permissions that every request needs.

        The row's own permission comes first, then those of its resource and parent.
        """
        wanted = (self.auth.permission, *(self.read.permissions if self.read else ()))
        return tuple(dict.fromkeys(permission for permission in wanted if isinstance(permission, Permission)))

    @cached_property
    def conditional_permissions(self) -> Mapping[str, Permission]:
        """Further permissions, by the part of a request or response that needs each.

        A nested relation needs the permission of its own resource as well.
        """
        shown = self.representation_read
        needs = dict[str, Permission | Free]()
        if isinstance(self.auth, CustomerAuth):
            needs |= self.auth.conditional
        if shown is not None and shown.own_rows is None:
            needs["`return=representation`"] = shown.select.resource.permission
        for read in (self.read, shown):
            if read is not None:
                needs |= {f"the relation `{name}`": wanted for name, wanted in read.relations.items()}
        has = closed(self.permissions)
        return {part: wanted for part, wanted in needs.items() if isinstance(wanted, Permission) and wanted not in has}

    @property
    def is_for_people(self) -> bool:
        """Whether machine clients get 403, whatever their permissions."""
        return isinstance(self.auth, CustomerAuth) and self.auth.is_for_people

    @property
    def principals(self) -> Principals:
        """The types of the principals that may call the row."""
        return (ManagerCaller,) if self.is_for_people else principals(self.auth.permission)

    @cached_property
    def parameters(self) -> list[str]:
        """The names of the path's parameters, in their order."""
        return path_parameters(self.path)

    def known_parameters(self, caller: Caller | None, *, is_strict: bool = False) -> tuple[str, ...] | None:
        """The names of its query parameters; None if unknown names are ignored.

        The spec's endpoints ignore unknown names, unless the request is strict. Those of machine clients, which the
        spec does not have, always are: a misspelt `$filter` must not return all rows. Public endpoints ignore them as
        well, because probes and caches add parameters.
        """
        if self.auth.permission is Free.PUBLIC or (self.is_call_by_spec(caller) and not is_strict):
            return None
        return tuple([parameter.name for parameter in self.query_parameters])

    def is_call_by_spec(self, caller: Caller | None, mode: RequestMode = RequestMode.SPEC) -> bool:
        """Whether the call is one of the spec, in its mode."""
        return not (self.doc.is_extension or isinstance(caller, ClientCaller) or mode is RequestMode.STRICT)

    @cached_property
    def readable_members(self) -> frozenset[str]:
        """The properties that the read of the written resource returns.

        A strict body may have them, so that a client can read a resource, change it and send it back.
        """
        shown = self.representation_read
        if shown is None:
            return frozenset()
        return frozenset((*shown.select.resource.fields, *shown.select.resource.relations))

    def check_query(self, request: Request) -> None:
        """Check names in the query string, unless a read or the function does. Raises `BadRequest`."""
        has_other_check = self.read is not None or self.query_parameters or self.has_own_query_check
        if request.parameters is None or has_other_check:
            return
        shown = self.representation_read
        if shown is None:
            parse_parameters(request.query, ())
        elif not request.shows_result:
            check_names(request.query, shown.select.shape, ())

    @property
    def body_adapter(self) -> TypeAdapter[Any] | None:
        """The adapter of a required JSON body or a form."""
        return self.body.adapter if isinstance(self.body, JsonBody | FormBody) else None

    @cached_property
    def is_group_scoped(self) -> bool:
        """Whether a group-limited manager may call it."""
        return self.has_scoped_request or (self.read is not None and self.read.is_limited)

    @property
    def has_scoped_request(self) -> bool:
        """Whether ids in path and body must be in a group-limited caller's groups."""
        return isinstance(self.auth, CustomerAuth) and self.auth.is_group_scoped

    @property
    def scoped_members(self) -> tuple[str, ...]:
        """The properties of the body that contain ids: see `JsonBody`."""
        return self.body.scoped_members if isinstance(self.body, JsonBody) else ()

    @property
    def representation_read(self) -> ReadEndpoint | None:
        """The read of the representation."""
        return self.responses.representation.read if self.responses.representation else None

    @property
    def representation_status(self) -> int:
        """The status of a response with the representation."""
        representation = self.responses.representation
        if representation is None or self.responses.status != 204:
            return self.responses.status
        return 200 if representation.path == self.path else 202

    @property
    def has_etag(self) -> bool:
        """Whether its responses have an ETag."""
        return self.read is not None or "ETag" in self.responses.headers

    @property
    def can_stream_events(self) -> bool:
        """Whether its response can be server-sent events instead of a list."""
        return self.has_long_poll and self.read is not None

    @property
    def can_use_replica(self) -> bool:
        """Whether a replica may serve it."""
        return self.method == "GET" and isinstance(self.auth, CustomerAuth) and not self.is_primary_only

    @property
    def has_idempotency_key(self) -> bool:
        """Whether an `Idempotency-Key` makes it safe to repeat a request."""
        return self.is_idempotent and self.auth.has_token and self.method != "GET"


def path_parameters(path: str) -> list[str]:
    """The names of the parameters of a path, in their order."""
    return [part.split("}")[0] for part in path.split("{")[1:]]


def _faults(row: Endpoint[Any]) -> Iterator[str]:
    """The errors of a row, as sentences without a full stop."""
    yield from _text_faults(row)
    yield from _body_faults(row)
    yield from _concurrency_faults(row.method, row.concurrency, row.auth)
    if len(row.converters) != len(path_parameters(row.path)):
        yield "each parameter of the path needs a converter"
    if row.method == "GET":
        yield from _read_faults(row)
    elif row.read is not None or row.is_primary_only or row.has_long_poll or row.responses.alternative:
        yield "a read, a long poll and another media type are for GET"
    yield from _response_faults(row)


def _response_faults(row: Endpoint[Any]) -> Iterator[str]:
    responses, representation = row.responses, row.responses.representation
    has_shape = row.read is not None or responses.model is not None or responses.schema is not None
    if responses.status == 200 and responses.media_type == JSON and not has_shape:
        yield "a JSON response needs a model or a schema"
    if representation is not None and (row.method == "GET" or not isinstance(row.auth, CustomerAuth)):
        yield "a representation is for writes of a customer"
    if representation is not None and (representation.read is None or not representation.read.select.is_single):
        yield "the representation must be the read of one row"


def _text_faults(row: Endpoint[Any]) -> Iterator[str]:
    doc = row.doc
    if not _OPERATION_ID.fullmatch(doc.operation_id):
        yield f"the operation id {doc.operation_id!r} is no name of a function"
    if not (doc.summary.strip() and doc.description.strip() and row.tag.description.strip()):
        yield "the summary, the description and the description of the tag must not be empty"


def _body_faults(row: Endpoint[Any]) -> Iterator[str]:
    match row.body:
        case JsonBody():
            if row.body.scoped_members and not row.has_scoped_request:
                yield "scoped members need an auth that is group-scoped"
        case FormBody():
            if not isinstance(row.auth, ClientSecretAuth):
                yield "a form is for client secrets"
        case RawBody():
            if not isinstance(row.auth, DeviceAuth):
                yield "a raw body is for devices"
        case None:
            if row.prepare is not None or row.method == "PATCH":
                yield "it needs a body"
        case OptionalBody():
            if row.prepare is not None or row.method != "POST":
                yield "an optional body is for POST without `prepare`"
    if row.method == "GET" and row.body is not None:
        yield "GET has no body"


def _concurrency_faults(method: Method, concurrency: Concurrency, auth: Auth) -> Iterator[str]:
    if concurrency == Concurrency():
        return
    if method == "GET" or not isinstance(auth, CustomerAuth):
        yield "concurrency is for writes of a customer"
    if (concurrency.serialized == "never") != (concurrency.precheck is None):
        yield "a serialized write needs a precheck, and no other write has one"
    if concurrency.serialized == "with-if-match" and concurrency.if_match is None:
        yield "`with-if-match` needs the resource that is compared"


def _read_faults(row: Endpoint[Any]) -> Iterator[str]:
    if row.responses.status != 200:
        yield "the status of a GET is 200"
    if isinstance(row.auth, PublicAuth) and row.read is not None:
        yield "a read over a resource is not public"
    if row.topics:
        yield "a GET has no topics of the live stream"
