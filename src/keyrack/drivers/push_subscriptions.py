"""Web Push subscriptions, which end with the driver's session."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.principals import Driver
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Statements
from keyrack.db.row_batches import run_in_batches
from keyrack.drivers.push_messages import BrowserKeys

MAX_ENDPOINT = 1_000  # characters
FORGET_HOURS = 24  # a message about an older change is no longer useful

# A browser has one subscription, also after another driver signs in
END_EARLIER: LiteralString = "delete from driver_push where endpoint = $2 and session_id <> $1"
SUBSCRIBE: LiteralString = """
insert into driver_push (session_id, user_id, endpoint, p256dh, auth) values ($1, $2, $3, $4, $5)
on conflict (session_id) do update set endpoint = excluded.endpoint, p256dh = excluded.p256dh, auth = excluded.auth,
  attempts = 0
"""
END: LiteralString = "delete from driver_push where session_id = $1"
FORGET: LiteralString = """
with gone as (delete from driver_push_change where ctid = any(array(
  select ctid from driver_push_change where created_at < now() - make_interval(hours => $1) limit $2))
  returning true)
select count(*) from gone
"""


async def subscribe(connection: Connection, driver: Driver, endpoint: str, keys: BrowserKeys) -> None:
    """Store the subscription of the session in place of an earlier one. Runs in the caller's transaction."""
    await connection.execute(END_EARLIER, driver.session, endpoint)
    await connection.execute(SUBSCRIBE, driver.session, driver.user, endpoint, *keys)


async def end(statements: Statements, driver: Driver) -> None:
    """End the subscription of the session, if it has one."""
    await statements.execute(END, driver.session)


async def forget(db: Database, settings: Settings) -> None:
    """Delete changes that no worker took, because Web Push is off. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET, FORGET_HOURS)
