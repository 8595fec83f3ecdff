"""Dispatch of Web Push messages.

Changes make subscriptions due, and due subscriptions get one fixed text.

Only workers load this module, with its HTTP client. A claim is a lease, so another worker sends the message if this one
dies. Changes within `KEYRACK_PUSH_INTERVAL_SECONDS` share a message.
"""

from __future__ import annotations

import asyncio
from typing import LiteralString

import asyncpg
import structlog
from cryptography.hazmat.primitives.asymmetric import ec

from keyrack.core.metrics.catalog import PUSH_MESSAGES
from keyrack.core.settings import Settings
from keyrack.core.settings.push_services import is_allowed
from keyrack.db.connection import UNREACHABLE, Database, Row
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.drivers import push_keys, sessions
from keyrack.drivers.push_messages import BrowserKeys, authorization, encrypt
from keyrack.webhooks.sender import DeliveryAttempt, Sender

log = structlog.get_logger("keyrack.push")
seldom = ThrottledLogger("keyrack.push")

TEXT = b"Your keys have changed"
HEADERS = {
    "Content-Encoding": "aes128gcm",
    "Content-Type": "application/octet-stream",
    "TTL": "86400",
    "Topic": "keys",  # a push service keeps only the newest undelivered message (RFC 8030, section 5.4)
    "Urgency": "normal",
}
CHANGES, MESSAGES = 1_000, 20  # at once
LEASE_MARGIN = 30.0  # seconds beyond the timeout of an attempt
FIRST, LONGEST = 30.0, 3_600.0  # seconds until a failed message is retried, at first and at most
LONGEST_ASKED = 86_400.0  # seconds of `Retry-After` that count
MAX_ATTEMPTS = 10
GONE = (404, 410)  # the subscription has ended (RFC 8030, section 7.3)
BUSY = (408, 429)

TRY_LOCK: LiteralString = "select pg_try_advisory_xact_lock(hashtext('driver push'))"
# Only sessions that see the customer learn of its change
TAKE_CHANGES: LiteralString = (
    """
with taken as (
  delete from driver_push_change where ctid = any(array(
    select ctid from driver_push_change order by created_at limit $1)) returning customer_id, user_id),
changed as (
  select distinct s.session_id from taken t
    join driver_session s using (user_id) join driver_account a using (user_id) join person p using (user_id)
  where s.sign_outs = a.sign_outs and p.type = 'Normal'
    and s.seen_at > now() - make_interval(days => $3) and s.created_at > now() - make_interval(days => $4)
    and t.customer_id in ("""
    + sessions.VISIBLE
    + """)),
marked as (
  update driver_push d
  set changes = changes + 1, due_at = coalesce(due_at, greatest(now(), sent_at + make_interval(secs => $2)))
  from changed c where d.session_id = c.session_id)
select count(*) from taken
"""
)
CLAIM: LiteralString = """
update driver_push set attempts = attempts + 1, due_at = now() + make_interval(secs => $2)
where session_id = any(array(
  select session_id from driver_push where due_at <= now() order by due_at, session_id limit $1
  for update skip locked))
returning session_id, endpoint, p256dh, auth, changes, attempts
"""
# Changes since the claim are due after the interval
DONE: LiteralString = """
update driver_push set attempts = 0, sent_at = now(),
  due_at = case when changes <> $3 then now() + make_interval(secs => $4) end
where session_id = $1 and endpoint = $2
"""
RETRY: LiteralString = """
update driver_push set due_at = now() + make_interval(secs => $3) where session_id = $1 and endpoint = $2
"""
END: LiteralString = "delete from driver_push where session_id = $1 and endpoint = $2"


class PushDispatcher:
    """Sends the messages of all drivers. Each worker runs one."""

    def __init__(self, db: Database, settings: Settings, vault: Encryption) -> None:
        self._db = db
        self._settings = settings
        self._vault = vault

    async def run(self) -> None:
        """Send until cancelled."""
        key = await push_keys.ensure(self._db, self._vault)
        sender = Sender(self._settings)
        try:
            while True:
                try:
                    await self._take_changes()
                    while rows := await self._claim():
                        await asyncio.gather(*(self._dispatch(sender, key, row) for row in rows))
                except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                    seldom.warning("push queue interrupted, retrying", error=error)
                await asyncio.sleep(self._settings.worker_poll)
        finally:
            await sender.close()

    async def _take_changes(self) -> None:
        """Make subscriptions due. One worker at a time does it, so that workers never wait for one another's rows."""
        count = CHANGES
        while count == CHANGES:
            async with self._db.transaction() as connection:
                if not await connection.fetchval(TRY_LOCK):
                    return
                count = await connection.fetchval(
                    TAKE_CHANGES, CHANGES, self._settings.push_interval_seconds, sessions.IDLE_DAYS, sessions.MAX_DAYS
                )

    async def _claim(self) -> list[Row]:
        return await self._db.fetch(CLAIM, MESSAGES, self._settings.webhook_timeout + LEASE_MARGIN)

    async def _dispatch(self, sender: Sender, key: ec.EllipticCurvePrivateKey, row: Row) -> None:
        endpoint: str = row["endpoint"]
        if not is_allowed(endpoint, self._settings.push_hosts):  # the list has changed since
            await self._end(row, "refused")
            return
        body = encrypt(TEXT, BrowserKeys(row["p256dh"], row["auth"]))
        contact = self._settings.push_contact or self._settings.drive_address
        headers = {**HEADERS, "Authorization": authorization(endpoint, contact, key)}
        await self._record(row, await sender.post(endpoint, body, headers))

    async def _record(self, row: Row, attempt: DeliveryAttempt) -> None:
        """Store the result. An error of the service's reply is final, unless the service is busy or broken."""
        if attempt.status in GONE:
            await self._end(row, "gone")
            return
        is_final = attempt.status is not None and attempt.status < 500 and attempt.status not in BUSY
        if attempt.succeeded:
            await self._done(row, "sent")
        elif is_final:
            log.warning("push message rejected", session=row["session_id"], status=attempt.status)
            await self._done(row, "refused")
        elif row["attempts"] >= MAX_ATTEMPTS:
            log.warning("push message abandoned", session=row["session_id"], reason=attempt.hidden or attempt.error)
            await self._done(row, "given up")
        else:
            PUSH_MESSAGES.add("failed")
            wait = retry_delay(row["attempts"], attempt.retry_after)
            seldom.warning("push message failed, retrying", reason=attempt.hidden or attempt.error, seconds=wait)
            await self._db.execute(RETRY, row["session_id"], row["endpoint"], wait)

    async def _done(self, row: Row, result: str) -> None:
        PUSH_MESSAGES.add(result)
        interval = self._settings.push_interval_seconds
        await self._db.execute(DONE, row["session_id"], row["endpoint"], row["changes"], interval)

    async def _end(self, row: Row, result: str) -> None:
        PUSH_MESSAGES.add(result)
        log.info("push subscription ended", session=row["session_id"], result=result)
        await self._db.execute(END, row["session_id"], row["endpoint"])


def retry_delay(attempts: int, asked: float | None) -> float:
    """Seconds until the next attempt.

    Each attempt doubles them. The service may ask for more.

    >>> retry_delay(1, None), retry_delay(3, None), retry_delay(1, 300.0)
    (30.0, 120.0, 300.0)
    """
    own = min(FIRST * 2 ** (attempts - 1), LONGEST)
    return max(own, min(asked or 0.0, LONGEST_ASKED))
