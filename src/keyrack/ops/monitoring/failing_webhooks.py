"""Failing webhooks: retried deliveries that wait, and recently dead deliveries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString
from urllib.parse import urlsplit

from keyrack.db.connection import Statements
from keyrack.ops.monitoring.backlog import LOOK, MOST, OF_EACH, WEBHOOKS
from keyrack.ops.monitoring.thresholds import DEAD_WITHIN

SHOWN = 10  # maximum number of webhooks, those with the oldest deliveries

# The oldest retried delivery among the first ones of each webhook
FAILING: LiteralString = (
    WEBHOOKS
    + """
select o.customer_id as customer, o.webhook_id as webhook, w.url, first.attempts, first.error,
  extract(epoch from now() - first.created_at)::float8 as age
from webhook_of o join webhook w on w.customer_id = o.customer_id and w.webhook_id = o.webhook_id and w.is_enabled
  and not w.is_pull
cross join lateral (
  select d.* from (
    select attempts, error, created_at from delivery
    where customer_id = o.customer_id and webhook_id = o.webhook_id and state = 'Waiting'
    order by lane, applied, delivery_id limit $2) d
  where d.attempts > 0 order by d.created_at limit 1) first
order by age desc limit $3
"""
)
GIVEN_UP: LiteralString = """
select count(*) from (select customer_id, webhook_id, attempted_at from delivery where state = 'Dead' limit $1) d
where d.attempted_at > now() - make_interval(secs => $2) and not exists (
  select from webhook w where w.customer_id = d.customer_id and w.webhook_id = d.webhook_id
  and w.delete_unused_after_days is not null)
"""
ENABLED: LiteralString = "select distinct url from webhook where is_enabled and url like 'https:%' limit $1"


@dataclass(frozen=True, slots=True)
class FailingWebhook:
    """A webhook with failed attempts."""

    customer: int
    webhook: int
    url: str
    attempts: int
    error: str | None
    age: float  # of the oldest retried delivery (seconds)

    @property
    def host(self) -> str:
        """The host of the address, because the rest may contain a token."""
        return urlsplit(self.url).netloc.rpartition("@")[2]


async def failing(statements: Statements) -> tuple[FailingWebhook, ...]:
    """The enabled webhooks that fail, at most `SHOWN`. Raises the errors of the database."""
    rows = await statements.fetch(FAILING, LOOK, OF_EACH, SHOWN)
    return tuple(FailingWebhook(**dict(row)) for row in rows)


async def given_up(statements: Statements) -> int:
    """Count deliveries marked dead within an hour.

    The count covers the first `MOST` dead deliveries. Those of webhooks for tests, which are deleted if no client uses
    them, do not count.
    """
    return await statements.fetchval(GIVEN_UP, MOST, DEAD_WITHIN)


async def addresses(statements: Statements, most: int) -> list[str]:
    """At most `most` addresses of enabled webhooks with TLS."""
    return [row["url"] for row in await statements.fetch(ENABLED, most)]
