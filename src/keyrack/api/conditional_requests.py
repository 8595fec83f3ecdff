"""Conditional requests: ETags, `If-None-Match` and `If-Match`.

An ETag consists of the form of a resource's representation and of 64 bits of its content (`Resource.version_sql`). So
it depends only on the content: it is the same in every process, after a restore and after a failover, without a
counter.

Source: RFC 9110, sections 8.8.3 and 13.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import LiteralString

from keyrack import __version__
from keyrack.api.exchange import ANY, Request, Response
from keyrack.api.schema.fields import Resource
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, NotFound, PreconditionFailed
from keyrack.db.connection import Statements
from keyrack.db.named_parameters import NamedStatement, compile_statement

INVALID = ErrorCode(
    "invalid-if-match",
    'The header If-Match must be * or a list of entity tags in double quotes, such as "5c1e-09ab".',
    "Send the `ETag` of the read unchanged, with its quotes.",
)
CHANGED = ErrorCode(
    "precondition-failed",
    "The resource has changed since it was read. Read it again before you change it.",
    "Read the resource again, and send its new `ETag` if the change is still wanted.",
)
NOTHING_TO_COMPARE = ErrorCode(
    "precondition-unsupported",
    "This endpoint does not support the header If-Match.",
    "Send the request without `If-Match`.",
)
ONLY_FOR_READS = ErrorCode(
    "precondition-only-for-reads",
    "The header If-None-Match is supported for GET and HEAD only.",
    "Send the request without `If-None-Match`.",
)

# For every read of the API: clients revalidate a cached response at each use
FRESH = {"Cache-Control": "private, no-cache"}
FOR_A_WHILE = {"Cache-Control": "public, max-age=300"}  # for documents, which change with the version and the settings
PACKED = "-gzip"  # suffix of the ETag of a compressed body: the same content in another coding
_BITS = 2**64
_OURS = re.compile(r'"([0-9a-f]{6})-(0|[1-9a-f][0-9a-f]{0,15})"').fullmatch  # exactly as `tag` writes it
# Elements of a list may be empty; an opaque tag may have commas, but no double quote
_ELEMENT = re.compile(r'[ \t,]*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?:,[ \t,]*|$)')


def _tags(header: str) -> list[tuple[bool, str]]:
    """The ETags of a list, each with whether it is strong. Raises `ValueError`."""
    tags: list[tuple[bool, str]] = []
    place = 0
    while place < len(header):
        element = _ELEMENT.match(header, place)
        if element is None:
            raise ValueError("no entity tag")
        tags.append((element[1] is None, element[2]))
        place = element.end()
    if not tags:
        raise ValueError("no entity tag")
    return tags


def expected(header: str) -> tuple[str, ...]:
    """The strong ETags of `If-Match`, or `ANY`.

    They are in quotes, without the suffix of compressed bodies. A weak ETag is omitted, because it never matches here
    (section 13.1.1). Raises `BadRequest`.
    """
    if header.strip() == "*":
        return ANY
    try:
        return tuple(f'"{tag.removesuffix(PACKED)}"' for strong, tag in _tags(header) if strong)
    except ValueError:
        raise BadRequest(INVALID, errors=[FieldError("wrong-form", INVALID.text, header="If-Match")]) from None


def packed_tag(tag: str) -> str:
    """The ETag of the same content in a compressed body."""
    return f'{tag[:-1]}{PACKED}"'


def parse_if_none_match(header: str) -> dict[str, str]:
    """The ETags of `If-None-Match`, weak or strong (section 13.1.2): normal form -> as sent.

    A malformed list counts as empty, because a full response is always correct.
    """
    if header.strip() == "*":
        return {"*": "*"}
    try:
        return {f'"{tag.removesuffix(PACKED)}"': f'"{tag}"' for _, tag in _tags(header)}
    except ValueError:
        return {}


@lru_cache(256)
def _form(resource: Resource) -> str:
    """A hash of 24 bits of the form of the representation.

    Another Keyrack version may represent the same values differently.
    """
    return hashlib.sha256(f"{__version__} {resource.json_columns('t')}".encode()).hexdigest()[:6]


def tag(resource: Resource, version: int) -> str:
    """The ETag of this version of the resource."""
    return f'"{_form(resource)}-{version % _BITS:x}"'


def changed(resource: Resource, version: int) -> Response:
    """204 for a change, with the new ETag."""
    return Response(204, headers={"ETag": tag(resource, version)})


def document(request: Request, answer: Response) -> Response:
    """A constant document, with the digest of its bytes as ETag; or 304. Raises `PreconditionFailed`."""
    headers = {**FOR_A_WHILE, **answer.headers, "ETag": _digest(answer.body or b"")}
    return apply_preconditions(request, replace(answer, headers=headers))


def created_response(request: Request, body: bytes) -> Response:
    """A response without a resource, with the digest of its bytes as ETag. Raises `PreconditionFailed`."""
    return apply_preconditions(request, Response(200, body, {**FRESH, "ETag": _digest_of(body)}))


def _digest_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


_digest = lru_cache(64)(_digest_of)  # for documents, which are few


def versions(resource: Resource, tags: Iterable[str]) -> list[int]:
    """The versions in ETags of the resource. ETags of other resources are omitted."""
    form = _form(resource)
    matches = (_OURS(tag) for tag in tags)
    return [_signed(int(match[2], 16)) for match in matches if match is not None and match[1] == form]


def _signed(bits: int) -> int:
    return bits if bits < _BITS // 2 else bits - _BITS


def apply_preconditions(request: Request, answer: Response) -> Response:
    """The response of a read, or 304 if the client has it (section 15.4.5). Raises `PreconditionFailed`."""
    if request.if_none_match is None and request.if_match is None:
        return answer
    own = answer.headers.get("ETag")
    if request.if_match is not None and request.compares and own not in request.if_match:
        raise PreconditionFailed(CHANGED)
    if request.if_none_match is None:
        return answer
    tags = parse_if_none_match(request.if_none_match)
    if own is not None and own in tags:
        return Response(304, headers={**answer.headers, "ETag": tags[own]})
    return Response(304, headers=answer.headers) if "*" in tags else answer


async def compare(connection: Statements, request: Request, resource: Resource, missing: ErrorCode) -> None:
    """Lock the row of the path's id, and compare it with `If-Match`.

    It is locked in the caller's transaction. Raises `NotFound` if the row does not exist, regardless of the header, and
    `PreconditionFailed`.
    """
    if request.if_match is None or not request.compares:
        return
    (id,) = request.ids
    statement, known_versions = _locked(resource), versions(resource, request.if_match)
    same = await connection.fetchval(
        statement.sql, *statement.arguments(customer=request.customer, id=id, versions=known_versions)
    )
    if same is None:
        raise NotFound(missing)
    if not same:
        raise PreconditionFailed(CHANGED)


@lru_cache(256)
def _locked(resource: Resource) -> NamedStatement:
    return compile_statement(
        "select " + resource.version_sql("t") + " = any(:versions::int8[])" + _row(resource) + " for update of t"
    )


def _row(resource: Resource) -> LiteralString:
    """FROM and WHERE of the row `:id` of the customer."""
    return (
        " from " + resource.table.format(t="t") + " where " + resource.scope.format(t="t") + " and "
        + resource.order("t") + " = :id"
    )  # fmt: skip


def require_row(resource: Resource, missing: ErrorCode) -> Callable[[Statements, Request, object], Awaitable[None]]:
    """A check, without a lock, that the path's row exists. It raises `NotFound`."""
    statement = compile_statement("select true" + _row(resource))

    async def look(statements: Statements, request: Request, _body: object = None) -> None:
        (id,) = request.ids
        if not await statements.fetchval(statement.sql, *statement.arguments(customer=request.customer, id=id)):
            raise NotFound(missing)

    return look


@asynccontextmanager
async def with_if_match(request: Request, resource: Resource, missing: ErrorCode) -> AsyncGenerator[Statements]:
    """The connection for a change of the path's row.

    During the block, the row matches `If-Match`. Without the header it is the database itself. Raises `NotFound`,
    `PreconditionFailed`.
    """
    if not request.compares:
        yield request.db
        return
    async with request.db.transaction() as connection:
        await compare(connection, request, resource, missing)
        yield connection
