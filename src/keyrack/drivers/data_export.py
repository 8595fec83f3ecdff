"""Export of a driver's stored data.

It has the account, and its use in each customer of the session.

It is written piece by piece: no statement reads more than `CHUNK` rows, and no connection waits for the client.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from datetime import datetime
from typing import Any, LiteralString

import structlog

from keyrack.api.principals import Driver
from keyrack.api.schema.request_body import format_timestamp
from keyrack.core.base64url import base64url
from keyrack.core.errors import ConnectionAborted
from keyrack.db.connection import Database, Row
from keyrack.drivers import sessions

log = structlog.get_logger("keyrack.drivers")

CHUNK = 500  # rows of one statement

ACCOUNT: LiteralString = """
select p.user_id as id, p.email_address as "emailAddress", p.first_name as "firstName", p.last_name as "lastName",
  a.language, a.is_proven as "hasProvenMailbox", a.password_hash is not null as "hasPassword", a.created_at as created
from person p join driver_account a using (user_id) where p.user_id = $1
"""
# A session of a provider gets the data of its customer alone
PASSKEYS: LiteralString = """
select passkey_id as id, name, is_backed_up as "isBackedUp", is_refused as "isRefused", created_at as created,
  used_at as "lastUsed"
from driver_passkey where user_id = $1 and $2::integer is null order by passkey_id
"""
CUSTOMER: LiteralString = """
select c.customer_id as id, c.name, d.granted_at as granted
from customer c left join driver_access d on d.customer_id = c.customer_id and d.user_id = $2
where c.customer_id = $1
"""
# Lists of a customer $1: the rows of the user $2 after the id $3, by id
OF_CUSTOMER: Mapping[str, LiteralString] = {
    "phones": """
select device_id as id, name, protection as "claimedProtection", registered_at as registered,
  is_approved as "isApproved"
from app_device where customer_id = $1 and user_id = $2 and ($3::bytea is null or device_id > $3)
order by device_id limit $4
""",
    "assignments": """
select assignment_id as id, car_id as "carId", starts_at as start, ends_at as end
from assignment where customer_id = $1 and user_id = $2 and ($3::integer is null or assignment_id > $3)
order by assignment_id limit $4
""",
    "requests": """
select request_id as id, assignment_id as "assignmentId", car_id as "carId", kind, wanted_end as end, comment, state,
  decision_comment as reason, created_at as created, decided_at as decided
from assignment_request where customer_id = $1 and user_id = $2 and ($3::integer is null or request_id > $3)
order by request_id limit $4
""",
    "events": """
select event_id as id, car_id as "carId", type, local_text as "dateTime", utc_at as "utcDateTime",
  user_agent as "userAgent", latitude, longitude
from event where customer_id = $1 and user_id = $2 and ($3::integer is null or event_id > $3)
order by event_id limit $4
""",
}


async def written(db: Database, driver: Driver) -> AsyncIterator[bytes]:
    """The document in pieces. After an error, its end is missing."""
    try:
        row = await db.fetchrow(ACCOUNT, driver.user)
        yield b'{"account": ' + _json(row)
        rows = [_session(row, driver) for row in await sessions.shown(db, driver)]
        yield b', "sessions": [' + b", ".join(map(_json, rows)) + b"]"
        passkeys = await db.fetch(PASSKEYS, driver.user, driver.provider_customer)
        yield b', "passkeys": [' + b", ".join(map(_json, passkeys)) + b"]"
        yield b', "customers": ['
        separator = b""
        for customer in sorted(driver.customers):
            row = await db.fetchrow(CUSTOMER, customer, driver.user)
            yield separator + _json(row)[:-1]
            for name, sql in OF_CUSTOMER.items():
                yield f', "{name}": ['.encode()
                async for piece in _list(db, sql, customer, driver.user):
                    yield piece
                yield b"]"
            yield b"}"
            separator = b", "
        yield b"]}"
    except Exception:
        log.exception("export of a driver aborted", user_id=driver.user)
        raise ConnectionAborted from None


async def _list(db: Database, sql: LiteralString, customer: int, user: int) -> AsyncIterator[bytes]:
    """The members of an array, by id."""
    rows = await db.fetch(sql, customer, user, None, CHUNK)
    separator = b""
    while rows:
        yield separator + b", ".join(map(_json, rows))
        separator = b", "
        rows = await db.fetch(sql, customer, user, rows[-1]["id"], CHUNK) if len(rows) == CHUNK else []


def _session(row: Row, driver: Driver) -> dict[str, Any]:
    return {
        "id": row["session_id"], "device": row["device"], "methods": row["amr"], "created": row["created_at"],
        "seen": row["seen_at"], "isCurrent": row["session_id"] == driver.session,
    }  # fmt: skip


def _json(row: Row | dict[str, Any] | None) -> bytes:
    return json.dumps({} if row is None else dict(row), default=_value).encode()


def _value(value: datetime | bytes) -> str:
    return format_timestamp(value) if isinstance(value, datetime) else base64url(value)
