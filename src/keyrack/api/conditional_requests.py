"""In charge of conditional requests: the tag of an answer, what `If-None-Match` and `If-Match` say, and comparing.

A tag is made of the form in which a resource is shown and of 64 bits of what is shown (`Resource.version_sql`). So it
comes from the content: it is the same in every process, after a restore and after a failover, and nothing counts it up.
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
    "Send the ETag of the read just as it came, with its quotes.",
)
CHANGED = ErrorCode(
    "precondition-failed",
    "It was changed since it was read. Read it again, and decide anew.",
    "Read it again, and send the ETag of that read if the change is still wanted.",
)
NOTHING_TO_COMPARE = ErrorCode(
    "precondition-unsupported",
    "There is nothing here that If-Match could be compared with.",
    "Send the request without If-Match.",
)
ONLY_FOR_READS = ErrorCode(
    "precondition-only-for-reads",
    "If-None-Match is for GET and HEAD.",
    "Send the request without If-None-Match.",
)

# Of every read of the API: whoever keeps an answer asks each time whether it is still right
FRESH = {"Cache-Control": "private, no-cache"}
FOR_A_WHILE = {"Cache-Control": "public, max-age=300"}  # of documents, which change with the version and the settings
PACKED = "-gzip"  # what a tag ends with that was sent with a packed body: the same content in another coding
_BITS = 2**64
_OURS = re.compile(r'"([0-9a-f]{6})-(0|[1-9a-f][0-9a-f]{0,15})"').fullmatch  # just as `tag` writes it
# Elements of a list may be empty; an opaque tag may have commas, but no double quote
_ELEMENT = re.compile(r'[ \t,]*(W/)?"([\x21\x23-\x7e\x80-\xff]*)"[ \t]*(?:,[ \t,]*|$)')


def _tags(header: str) -> list[tuple[bool, str]]:
    """The tags of a list, each with whether it is a strong one. Raises `ValueError`."""
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
    """The strong tags of `If-Match`, in quotes and without what a packed body added, or `ANY`. A weak one is none of
    them: it never matches here (section 13.1.1). Raises `BadRequest`."""
    if header.strip() == "*":
        return ANY
    try:
        return tuple(f'"{tag.removesuffix(PACKED)}"' for strong, tag in _tags(header) if strong)
    except ValueError:
        raise BadRequest(INVALID, errors=[FieldError("wrong-form", INVALID.text, header="If-Match")]) from None


def packed_tag(tag: str) -> str:
    """The tag of the same content in a packed body."""
    return f'{tag[:-1]}{PACKED}"'


def parse_if_none_match(header: str) -> dict[str, str]:
    """The tags of `If-None-Match`, weak or strong (section 13.1.2): as they are compared -> as they were sent. What is
    no list of tags is none: the whole answer is right for everybody."""
    if header.strip() == "*":
        return {"*": "*"}
    try:
        return {f'"{tag.removesuffix(PACKED)}"': f'"{tag}"' for _, tag in _tags(header)}
    except ValueError:
        return {}


@lru_cache(256)
def _form(resource: Resource) -> str:
    """How the resource is shown, in 24 bits: another version of Keyrack may show the same values otherwise."""
    return hashlib.sha256(f"{__version__} {resource.json_columns('t')}".encode()).hexdigest()[:6]


def tag(resource: Resource, version: int) -> str:
    """The tag of what shows this version of the resource."""
    return f'"{_form(resource)}-{version % _BITS:x}"'


def changed(resource: Resource, version: int) -> Response:
    """204 for a change, with the tag of what it made."""
    return Response(204, headers={"ETag": tag(resource, version)})


def document(request: Request, answer: Response) -> Response:
    """An answer that is what its bytes are, with their digest as its tag; or 304. Raises `PreconditionFailed`."""
    headers = {**FOR_A_WHILE, **answer.headers, "ETag": _digest(answer.body or b"")}
    return apply_preconditions(request, replace(answer, headers=headers))


def created_response(request: Request, body: bytes) -> Response:
    """What a read answers that is no resource's: the digest of its bytes is its tag. Raises `PreconditionFailed`."""
    return apply_preconditions(request, Response(200, body, {**FRESH, "ETag": _digest_of(body)}))


def _digest_of(body: bytes) -> str:
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


_digest = lru_cache(64)(_digest_of)  # of documents, which are few


def versions(resource: Resource, tags: Iterable[str]) -> list[int]:
    """The versions that are meant by tags of the resource; others are of something else, and left out."""
    form = _form(resource)
    matches = (_OURS(tag) for tag in tags)
    return [_signed(int(match[2], 16)) for match in matches if match is not None and match[1] == form]


def _signed(bits: int) -> int:
    return bits if bits < _BITS // 2 else bits - _BITS


def apply_preconditions(request: Request, answer: Response) -> Response:
    """What a read answers: itself, or 304 if the client has it (section 15.4.5). Raises `PreconditionFailed`."""
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
    """Lock the row of the path's id, in the caller's transaction, and compare it with `If-Match`.

    Raises `NotFound` where there is none, whatever was to be compared, and `PreconditionFailed`.
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
    """The look whether the path's row is there, without a lock; it raises `NotFound`."""
    statement = compile_statement("select true" + _row(resource))

    async def look(statements: Statements, request: Request, _body: object = None) -> None:
        (id,) = request.ids
        if not await statements.fetchval(statement.sql, *statement.arguments(customer=request.customer, id=id)):
            raise NotFound(missing)

    return look


@asynccontextmanager
async def with_if_match(request: Request, resource: Resource, missing: ErrorCode) -> AsyncGenerator[Statements]:
    """What a change of the path's row is done with: as long as the block runs, the row is what `If-Match` names.

    Without the header this is the database itself. Raises `NotFound`, `PreconditionFailed`.
    """
    if not request.compares:
        yield request.db
        return
    async with request.db.transaction() as connection:
        await compare(connection, request, resource, missing)
        yield connection
