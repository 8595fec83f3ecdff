"""`Idempotency-Key`: a write that is repeated with the same key gets the first response again.

The key, the write and its response are one transaction, which holds an advisory lock on the key. So after a crash at
any point, either the effect with its response exists or neither. Two nodes that receive the same key at once agree
through the database alone. No key is "in flight" for longer than its request.

The draft is draft-ietf-httpapi-idempotency-key-header. Responses may contain a secret that is shown only once, so they
are encrypted with a key derived from the client's own key. The database has only a digest of that key.

A response belongs to its caller, with the permissions and groups of that time. A caller with fewer permissions now does
not get it. The pipeline checks the permissions for the content of a response before it looks for a stored one.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any, LiteralString

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from keyrack.api.exchange import Request, Response
from keyrack.core.error_codes import RENAMED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, IdempotentReplay, Refusal, TooManyRequests, Unprocessable
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.db.row_batches import run_in_batches
from keyrack.db.transaction_database import InTransaction

LONGEST = 255  # characters of a key

INVALID = ErrorCode(
    "invalid-idempotency-key",
    f"The header Idempotency-Key must have 1 to {LONGEST} printable ASCII characters.",
    "Send a unique key for each change, such as a UUID.",
)
IN_FLIGHT = ErrorCode(
    "idempotency-key-in-flight",
    "A request with this Idempotency-Key is still in progress.",
    "Send the same request again in a moment; it returns the response of the first one.",
)
OTHER_REQUEST = ErrorCode(
    "idempotency-key-reused",
    "This Idempotency-Key was used for another request.",
    "Use a new key for a new request; a repeat has the same method, address, body, `Prefer: return` and `If-Match`.",
)
OTHER_CALLER = ErrorCode(
    "idempotency-key-of-other-caller",
    "This Idempotency-Key belongs to another caller, or to permissions that you no longer have.",
    "Send a unique key for each change, such as a UUID.",
)

LOCK: LiteralString = "select pg_try_advisory_xact_lock($1)"
KNOWN: LiteralString = """
select request_hash, answer from idempotency_key
where customer_id = $1 and manager_id = $2 and key_hash = $3 and created_at > now() - make_interval(hours => $4)
"""
KEEP: LiteralString = """
insert into idempotency_key (customer_id, manager_id, key_hash, request_hash, answer) values ($1, $2, $3, $4, $5)
on conflict (customer_id, manager_id, key_hash) do update
  set request_hash = excluded.request_hash, answer = excluded.answer, created_at = now()
"""
FORGET: LiteralString = """
with gone as (delete from idempotency_key where ctid = any(array(
  select ctid from idempotency_key where created_at < now() - make_interval(hours => $1) limit $2)) returning true)
select count(*) from gone
"""


async def run_once(request: Request, key: str, hours: int, run: Callable[[Request], Awaitable[Response]]) -> Response:
    """The response of `run`, or the stored one of the same key.

    A response is stored for `hours`.

    Raises what `run` raises, the first time or again. Raises `BadRequest` for an invalid key, `Unprocessable` if the
    key belongs to another request or caller, and `Conflict` while the first request runs.
    """
    if not (1 <= len(key) <= LONGEST and key.isascii() and key.isprintable()):
        raise BadRequest(INVALID, errors=[FieldError("wrong-form", INVALID.text, header="Idempotency-Key")])
    # All callers of a customer share keys, except group-limited ones, for whom other rows exist
    own = not request.customer or request.scope is not None
    caller = request.caller.id if request.caller and own else 0
    scope = (request.customer, caller, _digest(b"key", key.encode()))
    request_parts = [request.method.encode(), request.path.encode(), request.query, request.body]
    if request.returns:
        request_parts.append(request.returns.encode())
    if request.if_match is not None:
        request_parts += [b"if-match", *[tag.encode() for tag in request.if_match]]
    request_hash = _digest(b"request", *request_parts)
    announced: list[LiteralString] = []
    async with request.db.transaction() as connection:
        if not await connection.fetchval(LOCK, _lock_number(scope)):
            raise Conflict(IN_FLIGHT, {"Retry-After": "1"})
        stored = await connection.fetchrow(KNOWN, *scope, hours)
        if stored is not None:
            head, body = _opened(stored["answer"], key)
            if "owner" in head and not _may_have(head["owner"], request):  # older releases stored no owner
                raise Unprocessable(OTHER_CALLER)  # whatever the request: another caller learns nothing of it
            if stored["request_hash"] != request_hash:
                raise Unprocessable(OTHER_REQUEST)
            return replayed(head, body)
        first = request.within(InTransaction(connection), announced.append)
        result = await _first(connection, first, run)
        await connection.execute(KEEP, *scope, request_hash, _sealed(result, key, request))
    for notice in announced:
        request.announce(notice)
    if isinstance(result, Refusal):
        raise result
    return result


async def _first(
    connection: Connection, request: Request, run: Callable[[Request], Awaitable[Response]]
) -> Response | Refusal:
    """Run a new request. Its error is stored too, unless it is retryable."""
    try:
        async with connection.transaction():
            return await run(request)
    except TooManyRequests:
        raise
    except Refusal as refusal:
        if refusal.status >= 500:
            raise
        return refusal


async def forget(db: Database, settings: Settings) -> None:
    """Delete expired keys. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, settings.idempotency_hours)


def _digest(*parts: bytes) -> bytes:
    """SHA-256 of the parts with their lengths: different lists have different digests."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _lock_number(scope: tuple[int, int, bytes]) -> int:
    customer, caller, key = scope
    return int.from_bytes(_digest(str(customer).encode(), str(caller).encode(), key)[:8], "big", signed=True)


def _cipher(key: str) -> AESGCM:
    return AESGCM(_digest(b"answer", key.encode()))


def _owner(request: Request) -> dict[str, object]:
    """The caller of a request with its permissions and groups, as JSON properties."""
    grant = request.grant
    return {
        "caller": None if request.caller is None else list(request.caller.key),
        "permissions": sorted(grant.permissions),
        "groups": None if grant.scope is None else sorted(grant.groups),
    }


def _may_have(owner: Mapping[str, Any], request: Request) -> bool:
    """Whether the caller may get the stored response: the same caller, with at least its permissions."""
    now = _owner(request)
    if owner["caller"] != now["caller"] or not set(owner["permissions"]) <= request.grant.permissions:
        return False
    if owner["groups"] is None:
        return now["groups"] is None
    return now["groups"] is None or set(owner["groups"]) <= request.grant.groups


def _sealed(result: Response | Refusal, key: str, request: Request) -> bytes:
    body = result.body(request.id) if isinstance(result, Refusal) else result.body
    head: dict[str, object] = {
        "owner": _owner(request),
        "status": result.status,
        "headers": dict(result.headers),
        "mediaType": result.media_type,
        "hasBody": body is not None,
    }
    if isinstance(result, Refusal):  # and its reason, because a repeat may accept another format
        reason, errors = result.reason, [asdict(fault) for fault in result.errors]
        head["refusal"] = {
            "code": reason.code,
            "text": reason.text,
            "errors": errors,
            "extensions": result.extensions(),
        }
    nonce = secrets.token_bytes(12)
    return nonce + _cipher(key).encrypt(nonce, json.dumps(head).encode() + b"\n" + (body or b""), None)


def _opened(sealed: bytes, key: str) -> tuple[dict[str, Any], bytes]:
    """The head and the body of a stored answer. Raises `Unprocessable` if it belongs to another key."""
    try:
        head, _, body = _cipher(key).decrypt(sealed[:12], sealed[12:], None).partition(b"\n")
    except InvalidTag:
        raise Unprocessable(OTHER_REQUEST) from None
    return json.loads(head), body


def replayed(head: Mapping[str, Any], body: bytes) -> Response:
    """A stored response. Raises a stored error."""
    headers = head["headers"] | {"Idempotency-Replayed": "true"}
    if (refused := head.get("refusal")) is not None:
        code: str = refused["code"]
        reason = ErrorCode(RENAMED.get(code, code), refused["text"])  # the previous release stored the old code
        errors = [FieldError(**fault) for fault in refused["errors"]]
        raise IdempotentReplay(head["status"], head["mediaType"], body, reason, headers, errors, refused["extensions"])
    return Response(head["status"], body if head["hasBody"] else None, headers, head["mediaType"])
