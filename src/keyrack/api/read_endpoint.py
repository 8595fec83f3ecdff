"""A read as an endpoint: from query options to a statement, and from its row to a response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property

from keyrack.api import conditional_requests, list_responses, odata
from keyrack.api.exchange import Request, Response
from keyrack.api.grants import Grant
from keyrack.api.list_responses import Listing
from keyrack.api.odata import Limits, Query
from keyrack.api.permissions import Free, Permission
from keyrack.api.read_sql import PAGE, Parent, Select
from keyrack.api.schema.fields import RESOURCES, OwnRows
from keyrack.api.schema.group_scope import in_group_scope, scoped_list
from keyrack.api.services import ReadServices
from keyrack.core.error_codes import NOTHING_HERE, ErrorCode
from keyrack.core.errors import NotFound
from keyrack.core.settings import Settings
from keyrack.db.connection import Row


@dataclass(frozen=True)
class ReadEndpoint:
    """An endpoint that reads the rows of `select`, shaped by the query options."""

    select: Select
    missing_error: ErrorCode = NOTHING_HERE  # 404: the row, or the parent, does not exist
    empty_error: ErrorCode | None = None  # 404: the parent exists and has none
    unreported_error: ErrorCode | None = None  # 404: the reporter exists and has not reported yet
    own_rows: OwnRows | None = None  # rows that a caller may read without the permission
    tenant: Callable[[Request], Mapping[str, object]] = lambda request: {"customer": request.customer}
    # The values of the endpoint's own query parameters, by their names in the SQL. Raises `BadRequest`
    own_values: Callable[[Request], Mapping[str, object]] = lambda request: {}

    async def __call__(self, request: Request, _body: None, services: ReadServices) -> Response:
        select, query = self._scoped_select(request), self.query(request, services.query_limits)
        parameters = self._parameters(request, query)
        if select.is_single:
            statement = select.statement(query.sql)
            row = self._require_row(await request.db.fetchrow(statement.sql, *statement.select(parameters)))
            return self._with_etag(request, row, self._body(row, query, row["body"]), {})
        listing = Listing(select, query, parameters, request.db, services.settings)
        known_versions = self._known_versions(request, query)
        row = self._require_row(await listing.whole(known_versions))
        headers = self._headers(row, query, request, services.settings)
        if row["version"] in known_versions:
            return self._with_etag(request, row, None, headers)
        if row["body"] is not None:
            return self._with_etag(request, row, self._body(row, query, row["body"]), headers)
        answer = conditional_requests.apply_preconditions(
            request, Response(200, None, {**headers, **conditional_requests.FRESH}, parts=list_responses.empty_body())
        )
        if request.method == "HEAD" or answer.status != 200:
            return answer
        if not query.sql.walk or not request.chunks:
            spooled = await listing.spooled(services.spool, request.customer)
            return Response(200, None, {**answer.headers, "Content-Length": str(spooled.length)}, parts=spooled)
        chunk = await listing.first_chunk()
        if chunk is None:
            raise NotFound(self.missing_error)
        if chunk["place"] is None:
            return Response(200, self._body(row, query, chunk["body"]), answer.headers)
        return Response(200, None, answer.headers, parts=listing.chunks(chunk))

    def _known_versions(self, request: Request, query: Query) -> list[int]:
        """The versions of a list that the client has, if the database can use them.

        The database then skips the JSON. Not for a list that must not be empty, because that is checked on the list
        itself.
        """
        if request.if_none_match is None or self.empty_error or not query.sql.plain:
            return []
        return conditional_requests.versions(
            self.select.resource, conditional_requests.parse_if_none_match(request.if_none_match)
        )

    def _require_row(self, row: Row | None) -> Row:
        """The row of a statement, which has none if the parent does not exist. Raises `NotFound`."""
        if row is None:
            raise NotFound(self.missing_error)
        return row

    def _with_etag(self, request: Request, row: Row, body: bytes | None, headers: Mapping[str, str]) -> Response:
        """The response with its ETag, or 304. Raises `PreconditionFailed`."""
        response_headers = {
            **headers,
            **conditional_requests.FRESH,
            "ETag": conditional_requests.tag(self.select.resource, row["version"]),
        }
        return conditional_requests.apply_preconditions(request, Response(200, body, response_headers))

    def query(self, request: Request, limits: Limits) -> Query:
        """The parsed query options.

        Raises `BadRequest`, `NotImplemented`, and `NotPermitted` if they refer to data that the caller may not read.
        """
        if not self.reads_own(request.grant):
            for permission in self.permissions:  # first, because a resource without a group scope has no plan
                request.permit(permission)
        select = self._scoped_select(request)
        query = odata.query(
            select.resource,
            request.query,
            select.shape,
            alias="t",
            limits=limits,
            other_parameters=request.parameters,
            hides_extensions=request.hides_extensions,
        )
        for resource in query.related_resources:
            request.permit(resource.permission)
        return query

    def reads_own(self, grant: Grant) -> bool:
        """Whether a caller with this grant reads only its own rows."""
        return (
            self.own_rows is not None
            and bool(grant.permissions)
            and self.select.resource.permission not in grant.permissions
        )

    @cached_property
    def permissions(self) -> tuple[Permission | Free, ...]:
        """The permissions of the resource and of its parent."""
        parent = (self.select.parent.resource.permission,) if self.select.parent else ()
        return (self.select.resource.permission, *parent)

    @cached_property
    def relations(self) -> Mapping[str, Permission | Free]:
        """The relations of the resource, each with its permission."""
        relations = self.select.resource.relations.items()
        return {name: RESOURCES[relation.target].permission for name, relation in relations}

    @property
    def is_limited(self) -> bool:
        """Whether group-limited callers may read it."""
        read = (self.select.resource, self.select.parent and self.select.parent.resource, self.select.reporter)
        return all(resource is None or resource.group_scope is not None for resource in read)

    def _scoped_select(self, request: Request) -> Select:
        if self.own_rows is not None and self.reads_own(request.grant):
            return _own_rows(self.select, self.own_rows, is_limited=request.scope is not None)
        return self.select if request.scope is None else _group_scoped(self.select)

    def _parameters(self, request: Request, query: Query) -> dict[str, object]:
        """The values by parameter name. A statement uses some of them."""
        parameters = query.parameters
        parameters.update(self.tenant(request))
        parameters.update(self.own_values(request))
        parameters["scope"] = request.scope
        for number, id in enumerate(request.ids):
            parameters[f"id{number}"] = id
        if self.own_rows is not None and self.reads_own(request.grant):
            parameters["caller"] = request.caller_key.number
        return parameters

    def _body(self, row: Row, query: Query, body: bytes | None) -> bytes:
        """The JSON of a statement's row. Raises `NotFound`."""
        if body is None and self.unreported_error is not None and row["there"]:
            raise NotFound(self.unreported_error)
        if body is None:
            raise NotFound(self.empty_error or self.missing_error)
        if body == b"[]" and self.empty_error and not (self.select.may_be_narrowed(query.sql) and row["there"]):
            raise NotFound(self.empty_error)
        return body

    def _headers(self, row: Row, query: Query, request: Request, settings: Settings) -> Mapping[str, str]:
        headers: dict[str, str] = {}
        if query.sql.count:
            headers["X-Total-Count"] = str(row["total"])
        if self.select.pages(query.sql) and row["more"]:
            address = settings.public_url + "/v3" + request.path
            headers |= list_responses.next_page(address, request.query, query.skip + int(PAGE))
        return headers


@cache
def _group_scoped(select: Select) -> Select:
    """The select for group-limited callers. Raises `TypeError` if a resource has no group scope."""
    parent = select.parent and Parent(in_group_scope(select.parent.resource), select.parent.link)
    reporter = select.reporter and in_group_scope(select.reporter)
    is_list = parent is None and not select.is_single
    resource = scoped_list(select.resource) if is_list else in_group_scope(select.resource)
    return replace(select, resource=resource, parent=parent, reporter=reporter)


@cache
def _own_rows(select: Select, own_rows: OwnRows, *, is_limited: bool) -> Select:
    """The select of the caller's own rows."""
    resource = select.resource
    if is_limited:
        relations = {name: replace(relation, is_group_scoped=True) for name, relation in resource.relations.items()}
        resource = replace(resource, relations=relations, fields={**resource.fields, **own_rows.scoped_fields})
    return replace(select, resource=replace(resource, scope=resource.scope + " and " + own_rows.predicate))
