"""A database with webhooks and deliveries, and workers for them in this process.

Deliveries are written in the same way as for outcomes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Any

import asyncpg

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.transaction_database import InTransaction
from keyrack.server.worker import Worker, connect
from keyrack.webhooks import subscriptions
from keyrack.webhooks.declarations import NewWebhook
from keyrack.webhooks.dialects import DEFAULT, DIALECTS, WebhookMessage
from keyrack.webhooks.sender import DeliveryRequest
from tests.support.servers import DEADLINE

SECRET = "whsec_" + "A" * 43 + "="
LOCAL = Settings(
    webhook_allowed_networks="127.0.0.0/8",
    webhook_timeout=1,
    webhook_retry_first=0.05,
    webhook_retry_max=0.2,
    worker_poll=0.1,
)


# All tables of a customer's data
TABLES = """
select string_agg(distinct c.oid::regclass::text, ', ')
from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'customer_id'
where c.relkind in ('r', 'p') and not c.relispartition and c.relnamespace = 'public'::regnamespace
  and c.oid <> 'customer'::regclass
"""

NEW_CUSTOMERS = """
with c as (insert into customer (customer_id, name) select n, n from generate_series(1, 4) n returning customer_id)
select setval(s, greatest(max(customer_id), nextval(s))) from c, pg_get_serial_sequence('customer', 'customer_id') s
group by s
"""


def plain_request(url: str, text: str = "{}", static_secret: str | None = None) -> DeliveryRequest:
    """A message without meaning, in the default dialect."""
    message = WebhookMessage("msg_1", text, "2026-01-01T08:00:00Z", LOCAL.public_url)
    return DeliveryRequest(url, DIALECTS[DEFAULT], message, [SECRET], static_secret)


class Office:
    """Webhooks and deliveries of customers, and workers for them."""

    def __init__(self, dsn: str, sql: Any) -> None:
        self.dsn, self.sql = dsn, sql

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, dsn: str) -> AsyncGenerator[Office]:
        connection = await asyncpg.connect(dsn)
        # Without triggers, which would reject the truncation. The customers are again 1 to 4, so tables without a
        # foreign key to the customer, such as the log and custody, are emptied as well. No sequence restarts: a server
        # of this database may know keys of earlier customers by their numbers, and a step back of the log is a restore
        tables = await connection.fetchval(TABLES)
        truncation = (
            f"set session_replication_role = replica; truncate {tables}, customer cascade;"
            "set session_replication_role = origin"
        )
        try:
            await connection.execute(truncation)
        except asyncpg.DeadlockDetectedError:  # a session of the test before still ends
            await connection.execute(truncation)
        await connection.execute(NEW_CUSTOMERS)
        try:
            yield cls(dsn, connection)
        finally:
            await connection.close()

    async def webhook(self, url: str | None, customer: int = 1, **members: Any) -> int:
        """The id of a new webhook. Without an address it is a pull webhook."""
        connection = Connection(self.sql)
        vault = await open_vault(InTransaction(connection), LOCAL)
        async with connection.transaction():
            given = {"kinds": ["assignment.created"], "url": url, "pull": url is None}
            webhook = NewWebhook.model_construct(**given, **members)
            added = await subscriptions.add(connection, vault, customer, webhook, 1_000)
        assert added is not None
        return added[0]

    async def deliver(self, webhook: int, lane: int, count: int = 1, customer: int = 1) -> None:
        """Write deliveries as outcomes do, with a clock that steps back: only the applied number decides."""
        await self.sql.execute(
            "with d as (insert into delivery"
            " (customer_id, webhook_id, message_id, type, lane, payload, created_at, applied)"
            " select $4::integer, $1, gen_random_uuid(), 'assignment.created', $2::bigint,"
            " json_build_object('lane', $2::bigint, 'n', n)::text, clock_timestamp() - n * interval '1 second', n + ("
            "   select coalesce(max(applied), 0) from delivery where webhook_id = $1 and lane = $2::bigint)"
            " from generate_series(1, $3::integer) n order by random())"
            " insert into delivery_lane values ($4, $1, $2) on conflict (customer_id, webhook_id, lane)"
            " do update set due_at = delivery_lane.due_at",
            webhook, lane, count, customer,
        )  # fmt: skip
        await self.sql.execute("notify keyrack_deliver")

    @contextlib.asynccontextmanager
    async def worker(self, **settings: Any) -> AsyncGenerator[Worker]:
        wanted = LOCAL.model_copy(update=settings)
        database = await connect(self.dsn, wanted)
        worker = Worker(database, wanted)
        task = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            await worker.stop()
            await asyncio.wait_for(task, DEADLINE)
            await database.close()

    async def count(self, state: str) -> int:
        return await self.sql.fetchval("select count(*) from delivery where state = $1", state)

    async def until(self, what: str, sql: str, value: object) -> None:
        end = time.monotonic() + DEADLINE
        while (found := await self.sql.fetchval(sql)) != value:
            assert time.monotonic() < end, f"{what}: {found} instead of {value}"
            await asyncio.sleep(0.02)

    async def numbered(self) -> None:
        await self.until("changes without a number", "select count(*) from change_inbox", 0)

    async def drained(self) -> None:
        await self.until("lanes left", "select count(*) from delivery_lane", 0)
