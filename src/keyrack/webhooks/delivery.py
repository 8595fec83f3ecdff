"""Webhook delivery: claim lanes, send their deliveries, record the results.

A lane is a queue of one webhook, such as the deliveries of one assignment. Its deliveries are sent one after another,
those of different lanes at the same time.

A claim is a lease. It expires after a crash, and no attempt starts that might outlast it.

Limits keep one webhook from delaying others:

- No customer and no webhook gets more than its share of a worker.
- A slow webhook gets a smaller share.
- A webhook that does not answer gets only an occasional probe.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, LiteralString

import asyncpg
import structlog

from keyrack.api.schema.request_body import INT32_MAX
from keyrack.core.background_tasks import supervise
from keyrack.core.metrics.catalog import DELIVERIES_MARKED_DEAD
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import DELIVERED, Notify
from keyrack.db.connection import UNREACHABLE, Database, is_interruption
from keyrack.db.encryption.cipher import CannotDecrypt, Encryption
from keyrack.db.throttled_log import ThrottledLogger
from keyrack.webhooks import subscriptions
from keyrack.webhooks.delivery_errors import DISABLED_BY_GONE, SEALED, UNKNOWN_DIALECT
from keyrack.webhooks.delivery_queue import (
    CLAIM,
    RECORD,
    DeliveryLane,
    EndpointThrottle,
    Key,
    PendingDelivery,
    backoff,
    claim_arguments,
    count,
    lanes_of,
    record_arguments,
)
from keyrack.webhooks.dialects import DIALECTS
from keyrack.webhooks.sender import DeliveryAttempt, DeliveryRequest, Sender

log = structlog.get_logger("keyrack.delivery")
seldom = ThrottledLogger("keyrack.delivery")

PER_LANE = 10  # deliveries of one lane that one claim sends
SOON = 0.004  # seconds in which free places accumulate before the next claim
ASK_FOR_HELP = 0.1  # seconds between two calls for other workers
LOOK = 500  # webhooks that one claim looks at
LOOKS = 10  # consecutive claims that may find nothing before the next pause
GONE = 410

DISABLE: LiteralString = """
update webhook set is_enabled = false, disabled_reason = $3
where customer_id = $1 and webhook_id = $2 and is_enabled and url = $4
"""


class DeliveryWorker:
    """Claims, sends and records the deliveries of one worker."""

    def __init__(
        self, db: Database, settings: Settings, vault: Encryption, call_others: Callable[[], None], notify: Notify
    ) -> None:
        self._db = db
        self._settings = settings
        self._vault = vault
        self._call_others = call_others  # more work is due than this worker can take
        self._notify = notify
        self._lease = settings.webhook_timeout + min(5.0, max(1.0, settings.webhook_timeout / 2))
        self._throttles: dict[Key, EndpointThrottle] = {}
        self._sending: dict[asyncio.Task[None], DeliveryLane] = {}
        self._finished: list[DeliveryLane] = []
        self._wake = asyncio.Event()
        self._record = asyncio.Event()
        self._last_webhook: Key = (0, 0)  # the next claim starts after this webhook
        self._empty_claims = 0  # consecutive claims that found nothing and did not see all webhooks
        self._may_have_more = False  # a larger claim might have found more
        self._helped_at = 0.0
        self._stopping = False

    def wake(self) -> None:
        """Look for deliveries soon."""
        self._wake.set()

    async def run(self, grace: float) -> None:
        """Deliver until `stop`. Running attempts then have `grace` seconds; after that their lanes are released."""
        self._sender = Sender(self._settings)
        recording = asyncio.create_task(supervise("delivery results", self._recording, lambda: self._stopping))
        try:
            await self._claiming()
            if self._sending:
                await asyncio.wait(self._sending, timeout=grace)
            await self._give_up()
            self._record.set()
            await asyncio.wait_for(recording, 2.0)
        except TimeoutError:
            log.warning("delivery results lost at shutdown, deliveries will be repeated", count=len(self._finished))
        finally:
            recording.cancel()
            await self._sender.close()

    def stop(self) -> None:
        """Claim no lanes and start no attempts from now on.

        Then `run` ends.
        """
        self._stopping = True
        self._wake.set()

    async def _claiming(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                has_rows = await self._claim()
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                seldom.warning("delivery claim interrupted, retrying", error=error)
                await asyncio.sleep(0.5)
                continue
            except Exception:
                log.exception("delivery claim failed")
                await asyncio.sleep(2)
                continue
            if has_rows and self._may_have_more:
                self._ask_for_help()
            if has_rows:
                await asyncio.sleep(SOON)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _pause(self) -> float:
        """Seconds to sleep unless woken: the poll interval, or less until a webhook's rest ends.

        `SOON` after a claim that found nothing and has not seen all webhooks, less than `LOOKS` times in a row.
        """
        if 0 < self._empty_claims < LOOKS:
            return SOON
        self._empty_claims = 0
        now = time.monotonic()
        rests = [pace.rests_until - now for pace in self._throttles.values() if pace.rests_until > now]
        return max(0.01, min([self._settings.worker_poll, *rests]))

    def _ask_for_help(self) -> None:
        if time.monotonic() - self._helped_at > ASK_FOR_HELP:
            self._helped_at = time.monotonic()
            self._call_others()

    async def _claim(self) -> bool:
        free = self._settings.webhook_concurrency - len(self._sending)
        # set before the query: a lane that finishes during the claim must wake the worker, because its place was not
        # counted
        self._may_have_more = True
        if free <= 0:
            return False
        full = self._settings.webhook_per_endpoint
        now = time.monotonic()
        for key in [key for key, pace in self._throttles.items() if pace.is_like_new(now)]:
            del self._throttles[key]
        shares = {key: pace.share(full, now) for key, pace in self._throttles.items()}
        held_by_customer = Counter(lane.key[0] for lane in self._sending.values())
        arguments = claim_arguments(
            after=self._last_webhook, max_webhooks=LOOK, throttles=self._throttles, shares=shares, share_of_others=full,
            held_by_customer=held_by_customer, free=free, lease=self._lease, per_lane=PER_LANE,
        )  # fmt: skip
        rows = await self._db.fetch(CLAIM.sql, *arguments)
        lanes = lanes_of(rows, now, self._settings.public_url)
        taken = Counter(lane.key for lane in lanes)
        for lane in lanes:
            self._begin(lane)
        free_left = free - len(lanes)
        self._set_next_claim(rows, seen_all=rows[0]["seen"] < LOOK, free_left=free_left)
        held_by_customer.update(lane.key[0] for lane in lanes)
        self._may_have_more = any(count >= shares.get(key, full) for key, count in taken.items())
        # A customer that got all that it may hold, or a webhook that had used up its share before, may have more as
        # well
        self._may_have_more = self._may_have_more or any(count >= free_left for count in held_by_customer.values())
        self._may_have_more = self._may_have_more or any(
            not share and self._throttles[key].sending for key, share in shares.items()
        )
        return bool(lanes)

    def _set_next_claim(self, rows: Sequence[Any], *, seen_all: bool, free_left: int) -> None:
        """Set the start of the next claim: after the customer served last, or where this claim stopped looking."""
        has_lane = rows[0]["lane"] is not None
        self._empty_claims = 0 if has_lane or seen_all else self._empty_claims + 1
        if has_lane:
            self._last_webhook = (max(rows, key=lambda row: row["turn"])["customer_id"], INT32_MAX)
        if not seen_all and free_left > 0:
            self._last_webhook = (rows[0]["last_customer"], rows[0]["last_webhook"])

    def _begin(self, lane: DeliveryLane) -> None:
        self._throttles.setdefault(lane.key, EndpointThrottle()).sending += 1
        task = asyncio.create_task(self._deliver(lane))
        self._sending[task] = lane
        task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[None]) -> None:
        lane = self._sending.pop(task)
        self._throttles[lane.key].sending -= 1
        if not task.cancelled() and task.exception() is not None:
            log.error("delivery failed unexpectedly", error=repr(task.exception()))
            lane.wait = self._settings.webhook_retry_first
        self._finished.append(lane)
        self._record.set()
        if self._may_have_more:
            self._wake.set()

    async def _deliver(self, lane: DeliveryLane) -> None:
        """Send the lane's deliveries in order, until the first failure and within the lease.

        Sends none while the endpoint wants to rest: the answer of another lane may have said so since the claim began.
        """
        pace = self._throttles[lane.key]
        for delivery in lane.deliveries:
            now = time.monotonic()
            if self._stopping or now < pace.asked_rest_until:
                return
            if now - lane.claimed + self._settings.webhook_timeout > self._lease:
                return
            attempt = await self._attempt(lane, delivery)
            pace.learn(attempt)
            count(lane, delivery, attempt)
            self._log_hidden_error(lane, pace, attempt)
            if attempt.succeeded:
                lane.results.append((delivery.id, "Delivered", attempt))
                lane.attempts = 0
                continue
            if attempt.status == GONE:
                lane.results.append((delivery.id, "Waiting", attempt))
                await self._disable(lane)
                lane.wait = 0.0
                return
            if delivery.age + time.monotonic() - lane.claimed >= self._settings.webhook_retry_for:
                lane.results.append((delivery.id, "Dead", attempt))
                DELIVERIES_MARKED_DEAD.add()
                log.warning(
                    "delivery marked dead", customer=lane.key[0], webhook=lane.key[1], delivery=delivery.id,
                    consecutive_attempts=lane.attempts + 1, error=attempt.error,
                )  # fmt: skip
                lane.attempts = 0
                return
            lane.results.append((delivery.id, "Waiting", attempt))
            lane.wait = backoff(self._settings, lane.attempts, attempt)
            return

    async def _attempt(self, lane: DeliveryLane, delivery: PendingDelivery) -> DeliveryAttempt:
        """Sign and send one delivery. Sends nothing if its dialect is unknown or a secret cannot be decrypted."""
        dialect = DIALECTS.get(lane.dialect)
        if dialect is None:
            return DeliveryAttempt(datetime.now(UTC), 0, error=UNKNOWN_DIALECT.text)
        try:
            secrets = [
                await subscriptions.signing_secret(self._vault, lane.key, value) for value in lane.signing_secrets
            ]
            static = (
                lane.secret
                if lane.secret is None
                else await subscriptions.static_secret(self._vault, lane.key, lane.secret)
            )
        except CannotDecrypt:
            return DeliveryAttempt(datetime.now(UTC), 0, error=SEALED.text)
        return await self._sender.send(
            DeliveryRequest(lane.url, dialect, delivery.message, secrets, static or None, delivery.traceparent)
        )

    def _log_hidden_error(self, lane: DeliveryLane, pace: EndpointThrottle, attempt: DeliveryAttempt) -> None:
        """Log a cause that the customer must not see.

        Consecutive attempts with the same cause are logged once.
        """
        if attempt.hidden and attempt.hidden != pace.last_hidden_error:
            log.info("webhook endpoint unreachable", customer=lane.key[0], webhook=lane.key[1], reason=attempt.hidden)
        pace.last_hidden_error = attempt.hidden

    async def _disable(self, lane: DeliveryLane) -> None:
        with suppress(*UNREACHABLE, asyncpg.PostgresError):
            await self._db.execute(DISABLE, *lane.key, DISABLED_BY_GONE.text, lane.url)
            log.warning("webhook disabled", customer=lane.key[0], webhook=lane.key[1], reason=DISABLED_BY_GONE.text)
            self._notify(lane.key[0], DELIVERED)

    async def _recording(self) -> None:
        """Record finished lanes in batches, until the worker stops and no lane is being sent."""
        while True:
            await self._record.wait()
            self._record.clear()
            while self._finished:
                lanes, self._finished = self._finished, []
                try:
                    await self._record_all(lanes)
                    self._look_again(lanes)
                except Exception as error:
                    if not is_interruption(error):
                        raise
                    self._finished = [*lanes, *self._finished]
                    seldom.warning("delivery results not recorded, retrying", error=error, count=len(self._finished))
                    await asyncio.sleep(0.5)
            if self._stopping and not self._sending:
                return

    async def _record_all(self, lanes: Sequence[DeliveryLane]) -> None:
        """Record the results of these lanes. A lane whose result cannot be recorded does not affect the others."""
        try:
            await self._db.execute(RECORD.sql, *record_arguments(lanes))
            for customer in {lane.key[0] for lane in lanes}:
                self._notify(customer, DELIVERED)
        except Exception as error:
            if is_interruption(error):
                raise
            if len(lanes) > 1:
                for lane in lanes:
                    await self._record_all([lane])
            else:
                fields = {"customer": lanes[0].key[0], "webhook": lanes[0].key[1], "lane": lanes[0].number}
                log.exception("delivery result not recorded, delivery will be repeated", **fields)

    def _look_again(self, lanes: Sequence[DeliveryLane]) -> None:
        """Wake the worker: at once after a delivery, as its lane may have more; after the wait of a failed one."""
        waits = [lane.wait for lane in lanes if lane.wait is not None]
        if len(waits) < len(lanes):
            self._wake.set()
        for wait in waits:
            if wait < self._settings.worker_poll:  # the poll finds later ones
                asyncio.get_running_loop().call_later(wait + SOON, self._wake.set)

    async def _give_up(self) -> None:
        """Cancel the running attempts. Their lanes are free at once; deliveries that were sent may be sent again."""
        cut = dict(self._sending)
        for task in cut:
            task.cancel()
        if cut:
            await asyncio.wait(cut, timeout=1.0)
            log.warning("deliveries released at shutdown", count=len(cut))
