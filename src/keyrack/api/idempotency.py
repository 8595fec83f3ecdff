"""In charge of `Idempotency-Key`: a write that is sent again with the same key gets the first answer again.

The key, the write and its answer are one transaction, and an advisory lock on the key is held as long as that
transaction runs. So whoever crashes, at whatever point, leaves either the effect with its answer or neither; two nodes
that get the same key at once agree through the database alone; and no key is "in flight" for longer than its request.

The draft is draft-ietf-httpapi-idempotency-key-header. Answers may hold a secret that is shown only once, so they are
encrypted with a key derived from the client's own key, of which the database has only a digest.

An answer belongs to the caller who got it, with the permissions and groups of that time: a caller who may do less now
does not get it. The edge checks the permissions of what an answer shows before it looks for a stored one.
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
from keyrack.core.error_codes import ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, IdempotentReplay, Refusal, TooManyRequests, Unprocessable
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.db.row_batches import run_in_batches
from keyrack.db.transaction_database import InTransaction

LONGEST = 255  # characters of a key

INVALID = ErrorCode(
    "invalid-idempotency-key",
    f"The header Idempotency-Key must have 1 to {LONGEST} printable ASCII characters.",
    "Send a key of your own for each change, as a UUID.",
)
IN_FLIGHT = ErrorCode(
    "idempotency-key-in-flight",
    "A request with this Idempotency-Key is still being worked on.",
    "Wait a moment and send the same request again: it gets the answer of the first one.",
)
OTHER_REQUEST = ErrorCode(
    "idempotency-key-reused",
    "This Idempotency-Key was used for another request.",
    "Use a new key for a new request; a repeat has the same method, address, body, `Prefer: return` and If-Match.",
)
OTHER_CALLER = ErrorCode(
    "idempotency-key-of-other-caller",
    "This Idempotency-Key belongs to another caller, or to permissions that you do not have now.",
    "Use a key of your own for each change, as a UUID.",
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
    """The answer of `run`, or the one that the same key got less than so many hours before. Raises what `run` raises,
    the first time or again.

    Raises `BadRequest` for what is no key, `Unprocessable` if the key belongs to another request or caller, `Conflict`
    while the first one runs.
    """
    if not (1 <= len(key) <= LONGEST and key.isascii() and key.isprintable()):
        raise BadRequest(INVALID, errors=[FieldError("wrong-form", INVALID.text, header="Idempotency-Key")])
    # One key for all who act for a customer, but for whom not everything exists there that does for the others
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
                raise Unprocessable(OTHER_CALLER)  # whatever the request is: another caller learns nothing of it
            if stored["request_hash"] != request_hash:
                raise Unprocessable(OTHER_REQUEST)
            return _replayed(head, body)
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
    """What becomes of a request that is new; a refusal is kept too, unless it is one to try again after."""
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
    """Forget the keys that are old enough. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, settings.idempotency_hours)


def _digest(*parts: bytes) -> bytes:
    """SHA-256 of the parts, each with its length, so that no two lists of parts are alike."""
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).digest()


def _lock_number(scope: tuple[int, int, bytes]) -> int:
    customer, caller, key = scope
    return int.from_bytes(_digest(str(customer).encode(), str(caller).encode(), key)[:8], "big", signed=True)


def _cipher(key: str) -> AESGCM:
    return AESGCM(_digest(b"answer", key.encode()))


def _owner(request: Request) -> dict[str, object]:
    """The caller of a request with its permissions and groups, as JSON members."""
    grant = request.grant
    return {
        "caller": None if request.caller is None else list(request.caller.key),
        "permissions": sorted(grant.permissions),
        "groups": None if grant.scope is None else sorted(grant.groups),
    }


def _may_have(owner: Mapping[str, Any], request: Request) -> bool:
    """Whether the stored answer of `owner` is for the caller of this request: the same one, who may do as much."""
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
    if isinstance(result, Refusal):  # its reason, too: who repeats the request may ask for another form
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


def _replayed(head: Mapping[str, Any], body: bytes) -> Response:
    """A stored answer. Raises a stored refusal."""
    headers = head["headers"] | {"Idempotency-Replayed": "true"}
    if (refused := head.get("refusal")) is not None:
        reason = ErrorCode(refused["code"], refused["text"])
        errors = [FieldError(**fault) for fault in refused["errors"]]
        raise IdempotentReplay(head["status"], head["mediaType"], body, reason, headers, errors, refused["extensions"])
    return Response(head["status"], body if head["hasBody"] else None, headers, head["mediaType"])
