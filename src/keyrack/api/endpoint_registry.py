"""The rows of one module: declarations and functions become endpoints."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Generic, LiteralString, TypeAlias, TypedDict, TypeVar, Unpack, overload

from keyrack.api.auth_schemes import Auth, CustomerAuth
from keyrack.api.endpoint import (
    AwaitedOutcomes,
    Concurrency,
    Doc,
    Endpoint,
    Errors,
    FormBody,
    Handler,
    JsonBody,
    Method,
    OptionalBody,
    RawBody,
    Responses,
    Tag,
    path_parameters,
)
from keyrack.api.exchange import Request, Response
from keyrack.api.path_ids import path_id
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import QueryParameter
from keyrack.api.read_endpoint import ReadEndpoint
from keyrack.api.read_sql import Parent, Select
from keyrack.api.schema.fields import OwnRows, Resource
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import NOTHING_HERE, ErrorCode
from keyrack.db.change_notifier import NOTHING, Topics

B = TypeVar("B")  # a validated body
V = TypeVar("V")  # the result of `prepare`
S = TypeVar("S")  # a protocol: the services that the handlers of the module need
ReadS = TypeVar("ReadS", bound=ReadServices)

Converters = Mapping[str, Callable[[str], Any]]
# A handler takes the request, the validated body if there is one, and the services if it needs any
PlainHandler: TypeAlias = Callable[[Request], Awaitable[Response]] | Callable[[Request, S], Awaitable[Response]]
BodyHandler: TypeAlias = Callable[[Request, B], Awaitable[Response]] | Callable[[Request, B, S], Awaitable[Response]]
Prepare: TypeAlias = Callable[[Request, B, S], Awaitable[V]]


class RowOptions(TypedDict, total=False):
    """The groups of a row that have a default: see `Endpoint`."""

    auth: Auth
    concurrency: Concurrency
    responses: Responses
    read: ReadEndpoint
    query_parameters: tuple[QueryParameter, ...]
    converters: Converters
    topics: Topics
    is_idempotent: bool
    is_primary_only: bool
    has_long_poll: bool
    has_own_query_check: bool
    awaited: AwaitedOutcomes[Any] | None


class RowDecorator(Generic[S]):
    """Decorator that turns a function into a row, such as `@endpoints.put(...)`.

    The type checker compares the function with the body's type.
    """

    def __init__(self, endpoints: Endpoints[S], method: Method) -> None:
        self._endpoints = endpoints
        self._method: Method = method

    @overload
    def __call__(
        self, path: str, doc: Doc, *, body: RawBody | None = None, **row: Unpack[RowOptions]
    ) -> Callable[[PlainHandler[S]], PlainHandler[S]]: ...
    @overload
    def __call__(
        self, path: str, doc: Doc, *, body: JsonBody[B], prepare: Prepare[B, S, V], **row: Unpack[RowOptions]
    ) -> Callable[[BodyHandler[V, S]], BodyHandler[V, S]]: ...
    @overload
    def __call__(
        self, path: str, doc: Doc, *, body: JsonBody[B] | FormBody[B], **row: Unpack[RowOptions]
    ) -> Callable[[BodyHandler[B, S]], BodyHandler[B, S]]: ...
    @overload
    def __call__(
        self, path: str, doc: Doc, *, body: OptionalBody[B], **row: Unpack[RowOptions]
    ) -> Callable[[BodyHandler[B | None, S]], BodyHandler[B | None, S]]: ...
    def __call__(
        self,
        path: str,
        doc: Doc,
        *,
        body: JsonBody[Any] | FormBody[Any] | OptionalBody[Any] | RawBody | None = None,
        prepare: Prepare[Any, S, Any] | None = None,
        **row: Unpack[RowOptions],
    ) -> Callable[[Callable[..., Awaitable[Response]]], Callable[..., Awaitable[Response]]]:
        def add(function: Callable[..., Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
            handler = _handler(function, has_value=isinstance(body, JsonBody | FormBody | OptionalBody))
            self._endpoints.add(self._method, path, doc, handler, body=body, prepare=prepare, **row)
            return function

        return add


class Endpoints(Generic[S]):
    """The rows of one module, in the order of the spec.

    Their auth is `access`. If `access` is a resource name, it is the permission to read or write that resource. Either
    all rows of the module are in preview, or none. Raises `ValueError` for an unknown permission.
    """

    def __init__(self, tag: Tag, access: Auth | str, *, is_extension: bool = False, is_preview: bool = False) -> None:
        self.tag = tag
        self._access = access
        self._is_extension = is_extension
        self._is_preview = is_preview
        self.rows: list[Endpoint[S]] = []
        self.get = RowDecorator(self, "GET")  # for functions; `read` is for rows of a resource
        self.put = RowDecorator(self, "PUT")
        self.patch = RowDecorator(self, "PATCH")
        self.delete = RowDecorator(self, "DELETE")
        self.post = RowDecorator(self, "POST")

    def read(
        self: Endpoints[ReadS],
        path: str,
        resource: Resource,
        doc: Doc,
        *,
        is_single: bool = False,
        parent: Parent | None = None,
        missing_error: ErrorCode | None = None,
        empty_error: ErrorCode | None = None,
        reporter: Resource | None = None,
        unreported_error: ErrorCode | None = None,
        order_by: LiteralString = "",
        is_paged: bool = False,
        tenant: Callable[[Request], Mapping[str, object]] = ReadEndpoint.tenant,
        query_parameters: tuple[QueryParameter, ...] = (),
        own_values: Callable[[Request], Mapping[str, object]] = ReadEndpoint.own_values,
        own_rows: OwnRows | None = None,
        auth: Auth | None = None,
        errors: Errors | None = None,
        converters: Converters | None = None,
        is_primary_only: bool = False,
        awaited: AwaitedOutcomes[Any] | None = None,
    ) -> Endpoint[ReadS]:
        """A read as one statement: one row by its key if `is_single`, else all rows, or those of `parent`.

        `own_values` converts `query_parameters` to the parameters of the resource's SQL.
        """
        if is_single and parent is None and not order_by:
            order_by = resource.order("{t}") + " = :id0"
        select = Select(
            resource, is_single, parent, order_by, is_paged, bool(empty_error) and not is_single, reporter=reporter
        )
        read = ReadEndpoint(
            select, missing_error or NOTHING_HERE, empty_error, unreported_error, own_rows, tenant, own_values
        )
        reasons = tuple(reason for reason in (missing_error, empty_error, unreported_error) if reason)
        responses = Responses(200, errors=({404: reasons} if reasons else {}) | dict(errors or {}))
        return self.add(
            "GET", path, doc, read, read=read, auth=auth or self._auth("GET"), responses=responses,
            converters=converters or {}, is_primary_only=is_primary_only, query_parameters=query_parameters,
            awaited=awaited,
        )  # fmt: skip

    def add(
        self,
        method: Method,
        path: str,
        doc: Doc,
        handler: Handler[S],
        *,
        body: JsonBody[Any] | FormBody[Any] | OptionalBody[Any] | RawBody | None = None,
        prepare: Prepare[Any, S, Any] | None = None,
        **row: Unpack[RowOptions],
    ) -> Endpoint[S]:
        """Add a row, with the defaults of the module. Raises `TypeError` for an invalid combination of groups."""
        parameters = path_parameters(path)
        converters = row.get("converters", {})
        if not converters.keys() <= set(parameters):
            raise TypeError(f"{method} {path}: a converter belongs to no parameter of the path")
        options = dict[str, Any](row)
        options["auth"] = row["auth"] if "auth" in row else self._auth(method)
        options["converters"] = tuple(converters.get(name, path_id) for name in parameters)
        options.setdefault("topics", NOTHING if method == "GET" else self.tag.topics)
        doc = replace(doc, is_extension=doc.is_extension or self._is_extension, is_preview=self._is_preview)
        endpoint: Endpoint[S] = Endpoint(
            method, path, self.tag, doc, handler=handler, body=body, prepare=prepare, **options
        )
        self.rows.append(endpoint)
        return endpoint

    def _auth(self, method: Method) -> Auth:
        if isinstance(self._access, str):
            return CustomerAuth(Permission(f"{self._access}:{'read' if method == 'GET' else 'write'}"))
        return self._access


def _handler(function: Callable[..., Awaitable[Response]], *, has_value: bool) -> Handler[Any]:
    """The function as a handler that takes all three arguments."""
    takes_services = len(inspect.signature(function).parameters) > 1 + has_value

    def handler(request: Request, value: Any, services: Any) -> Awaitable[Response]:
        arguments = (request, value) if has_value else (request,)
        return function(*arguments, services) if takes_services else function(*arguments)

    return handler
