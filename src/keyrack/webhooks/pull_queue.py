"""The messages of pull webhooks, which wait until clients acknowledge them.

A message gets its number when it is first fetched, and not when it is written. Transactions commit in another order
than they begin. So a client that acknowledges "up to 7" could remove a message that it has never seen. Numbers respect
the order of each lane.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, LiteralString

import structlog

from keyrack.api.schema.fields import utc
from keyrack.core.error_codes import NOT_NOW
from keyrack.core.errors import Unavailable
from keyrack.db.connection import Database, Row, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.webhooks import subscriptions
from keyrack.webhooks.dialects import DIALECTS, Dialect, WebhookMessage

log = structlog.get_logger("keyrack.delivery")

NUMBERED_AT_ONCE = 1_000  # messages that one request numbers, which needs a look at all waiting ones
ACKNOWLEDGED_AT_ONCE = 1_000  # messages that one transaction acknowledges

WEBHOOK: LiteralString = """
select is_pull, is_enabled, dialect, secret, signing_secret,
  case when old_signing_secret_until > now() then old_signing_secret end as old_signing_secret,
  pulled_at is null or pulled_at < now() - interval '1 minute' as is_use_unrecorded
from webhook where customer_id = $1 and webhook_id = $2
"""
# The time of the last use, at most once a minute: a waiting client asks often
USED: LiteralString = """
update webhook set pulled_at = now() where customer_id = $1 and webhook_id = $2
and (pulled_at is null or pulled_at < now() - interval '1 minute')
"""
MESSAGES: LiteralString = f"""
select m.number, d.message_id::text, d.payload, {utc("d.created_at")} as created_at
from pulled_message m
join delivery d on d.customer_id = m.customer_id and d.webhook_id = m.webhook_id and d.delivery_id = m.delivery_id
where m.customer_id = $1 and m.webhook_id = $2 and m.number > $3 and d.state = 'Waiting'
order by m.number limit $4
"""
_UNNUMBERED: LiteralString = """
delivery d where d.customer_id = $1 and d.webhook_id = $2 and d.state = 'Waiting' and not exists (
  select from pulled_message m
  where m.customer_id = d.customer_id and m.webhook_id = d.webhook_id and m.delivery_id = d.delivery_id)
"""
HAS_UNNUMBERED: LiteralString = "select exists (select from " + _UNNUMBERED + ")"
# One request numbers at a time, so numbers are committed in their order. The lock also keeps the webhook
LOCK: LiteralString = "select true from webhook where customer_id = $1 and webhook_id = $2 for no key update"
# Within a lane the order is that of `applied`. Lanes are ordered by the ids of their deliveries
NUMBER: LiteralString = f"""
with fresh as (
  select d.delivery_id, d.applied,
    max(d.delivery_id) over (partition by d.lane order by d.applied, d.delivery_id) as place
  from {_UNNUMBERED}
),
first as (select * from fresh order by place, applied, delivery_id limit $3)
insert into pulled_message (customer_id, webhook_id, delivery_id)
select $1, $2, delivery_id from first order by place, applied, delivery_id
on conflict (customer_id, webhook_id, delivery_id) do nothing
"""
# A message that was replayed meanwhile waits again without a number, so a client gets it again
ACKNOWLEDGE: LiteralString = """
with gone as (
  delete from pulled_message where customer_id = $1 and webhook_id = $2 and number = any(array(
    select number from pulled_message where customer_id = $1 and webhook_id = $2 and number <= $3
    order by number limit $4))
  returning delivery_id
),
done as (
  update delivery d set state = 'Delivered', attempts = d.attempts + 1, attempted_at = now(), next_attempt_at = null
  from gone where d.customer_id = $1 and d.webhook_id = $2 and d.delivery_id = gone.delivery_id and d.state = 'Waiting'
  returning true
)
select (select count(*) from gone)::integer as found, (select count(*) from done)::integer as acknowledged
"""
STATE: LiteralString = "select is_pull from webhook where customer_id = $1 and webhook_id = $2"


@dataclass(frozen=True, slots=True)
class PulledMessage:
    """A message as a client gets it, with headers and body."""

    number: int
    type: str
    headers: dict[str, str]
    body: str

    def json(self) -> dict[str, Any]:
        return {"number": self.number, "type": self.type, "headers": self.headers, "body": self.body}


async def record_use(db: Database, customer: int, webhook: int) -> None:
    """Record that a client has asked for messages now."""
    async with db.transaction() as connection:
        await connection.execute(USED, customer, webhook)


async def fetch(db: Database, customer: int, webhook: int, after: int, most: int) -> Sequence[Row]:
    """Rows of waiting messages with numbers above `after`, at most `most`.

    Waiting messages without a number get one first.
    """
    rows = await db.fetch(MESSAGES, customer, webhook, after, most)
    if len(rows) == most or not await db.fetchval(HAS_UNNUMBERED, customer, webhook):
        return rows
    async with db.transaction() as connection:
        if await connection.fetchval(LOCK, customer, webhook):
            await connection.execute(NUMBER, customer, webhook, NUMBERED_AT_ONCE)
    return await db.fetch(MESSAGES, customer, webhook, after, most)


async def signed(
    vault: Encryption, customer: int, webhook: int, settings: Row, rows: Sequence[Row], server: str
) -> list[PulledMessage]:
    """The messages of these rows, signed now. `settings` is a row of `WEBHOOK`. Raises `Unavailable`."""
    if not rows:
        return []
    dialect = DIALECTS.get(settings["dialect"])
    if dialect is None:  # of a later release, which runs beside this one
        raise Unavailable(NOT_NOW)
    key = (customer, webhook)
    sealed = [value for value in (settings["signing_secret"], settings["old_signing_secret"]) if value]
    secrets = [await subscriptions.signing_secret(vault, key, value) for value in sealed]
    static = settings["secret"] and await subscriptions.static_secret(vault, key, settings["secret"])
    now = datetime.now(UTC)
    return [_signed(dialect, row, secrets, static or None, server, now) for row in rows]


def _signed(
    dialect: Dialect, row: Row, secrets: Sequence[str], static: str | None, server: str, now: datetime
) -> PulledMessage:
    message = WebhookMessage(row["message_id"], row["payload"], row["created_at"], server)
    body = dialect.body(message)
    headers = {"Content-Type": dialect.content_type} | dialect.headers(message, body, secrets, static, now)
    return PulledMessage(row["number"], json.loads(row["payload"])["type"], headers, body)


async def acknowledge(statements: Statements, customer: int, webhook: int, upto: int) -> int:
    """Mark messages up to a number as delivered; return their number."""
    acknowledged = 0
    while True:
        row = await statements.fetchrow(ACKNOWLEDGE, customer, webhook, upto, ACKNOWLEDGED_AT_ONCE)
        assert row is not None  # noqa: S101 - a select of one row
        acknowledged += row["acknowledged"]
        if row["found"] < ACKNOWLEDGED_AT_ONCE:
            return acknowledged
