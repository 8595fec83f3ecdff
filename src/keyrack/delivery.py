"""In charge of deliveries under way: claim lanes, send what waits in them, record what came of it.

A lane is one assignment at one webhook: its deliveries go out one after another, those of other lanes at the same
time. A claim is a lease: it ends by itself after a crash, and no attempt is begun that might outlast it. No webhook
gets more than its share of a worker, and one that does not answer gets a probe now and then, so nobody waits for it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import asyncpg
import structlog

from keyrack.db import UNREACHABLE, Database
from keyrack.sending import Attempt, Sender
from keyrack.settings import Settings

log = structlog.get_logger("keyrack.delivery")

PER_LANE = 10  # deliveries of one lane that one claim sends
SOON = 0.004  # seconds in which freed places are gathered before the next claim
ASK_FOR_HELP = 0.1  # seconds between two calls for other workers
LONGEST_REST = 5.0  # seconds that a webhook without success rests, at most, before the next probe
LONGEST_ASKED_REST = 60.0  # seconds that it rests at its own wish
FORGOTTEN = 600.0  # seconds after which it does not matter any more how a webhook failed
GONE = 410
BUSY = (429, 503)
DISABLED_BY_GONE = "The endpoint answered 410 Gone."

# Walks from webhook to webhook that have lanes, and takes from each what is due, as far as its share goes. Its commit
# does not wait for the disk, nor does that of `record_attempts`: what a crash of the database takes back is sent again
CLAIM: LiteralString = """
with recursive active as (
  (select customer_id, webhook_id from delivery_lane order by customer_id, webhook_id limit 1)
  union all
  select n.customer_id, n.webhook_id from active a cross join lateral (
    select l.customer_id, l.webhook_id from delivery_lane l
    where (l.customer_id, l.webhook_id) > (a.customer_id, a.webhook_id)
    order by l.customer_id, l.webhook_id limit 1) n
),
due as (
  select l.customer_id, l.webhook_id, l.lane
  from active a
  join webhook w on w.customer_id = a.customer_id and w.webhook_id = a.webhook_id and w.is_enabled
  left join unnest($1::integer[], $2::integer[], $3::integer[]) s (customer_id, webhook_id, share)
    on s.customer_id = a.customer_id and s.webhook_id = a.webhook_id
  cross join lateral (
    select l.customer_id, l.webhook_id, l.lane from delivery_lane l
    where l.customer_id = a.customer_id and l.webhook_id = a.webhook_id and l.due_at <= now()
    order by l.due_at limit coalesce(s.share, $4) for update skip locked
  ) l
  limit $5
),
claimed as (
  update delivery_lane l set lease = now() + make_interval(secs => $6), due_at = now() + make_interval(secs => $6)
  from due d where l.customer_id = d.customer_id and l.webhook_id = d.webhook_id and l.lane = d.lane
  returning l.customer_id, l.webhook_id, l.lane, l.lease, l.attempts
)
select c.customer_id, c.webhook_id, c.lane, c.lease, c.attempts, w.url, w.secret, w.signing_secret,
  case when w.old_signing_secret_until > now() then w.old_signing_secret end as old_signing_secret,
  d.delivery_id, d.message_id::text, d.payload, extract(epoch from now() - d.since)::float8 as age
from claimed c
cross join (select set_config('synchronous_commit', 'off', true)) hasty
join webhook w on w.customer_id = c.customer_id and w.webhook_id = c.webhook_id
left join lateral (
  select d.delivery_id, d.message_id, d.payload, d.since, d.created_at from delivery d
  where d.customer_id = c.customer_id and d.webhook_id = c.webhook_id and d.lane = c.lane and d.state = 'Waiting'
  order by d.created_at, d.delivery_id limit $7
) d on true
order by c.customer_id, c.webhook_id, c.lane, d.created_at, d.delivery_id
"""
RECORD: LiteralString = "select record_attempts($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
DISABLE: LiteralString = """
update webhook set is_enabled = false, disabled_reason = $3
where customer_id = $1 and webhook_id = $2 and is_enabled and url = $4
"""

Key = tuple[int, int]  # customer, webhook


@dataclass(slots=True)
class Waiting:
    """One delivery of a claimed lane."""

    id: int
    message_id: str
    payload: str
    age: float  # seconds since it came, or was to be sent again


@dataclass(slots=True)
class Lane:
    """A claimed lane, and what came of it so far."""

    key: Key
    number: int
    lease: datetime
    claimed: float  # on our clock
    attempts: int  # failed ones in a row, before this claim
    url: str
    secret: str | None
    signing_secrets: tuple[str, ...]
    waiting: list[Waiting]
    done: list[tuple[int, str, Attempt]] = field(default_factory=list[tuple[int, str, Attempt]])
    wait: float | None = None  # seconds until the next try; None: go on at once


@dataclass(slots=True)
class Pace:
    """How fast one webhook is sent to, as this worker knows it."""

    sending: int = 0
    failures: int = 0  # in a row
    rests_until: float = 0.0

    def share(self, full: int, now: float) -> int:
        """How many lanes more it may get."""
        if now < self.rests_until:
            return 0
        return max(0, max(1, full >> min(self.failures, 10)) - self.sending)

    def learn(self, attempt: Attempt) -> None:
        """Take note of an attempt: any success restores the full pace."""
        if attempt.succeeded:
            self.failures = 0
            self.rests_until = 0.0
            return
        self.failures += 1
        rest = min(LONGEST_REST, 0.05 * 2.0 ** min(self.failures - 5, 10)) if self.failures > 4 else 0.0
        if attempt.status in BUSY and attempt.retry_after is not None:
            rest = max(rest, min(attempt.retry_after, LONGEST_ASKED_REST))
        self.rests_until = max(self.rests_until, time.monotonic() + rest)


class Courier:
    """The deliveries of one worker."""

    def __init__(self, db: Database, settings: Settings, call_others: Callable[[], None]) -> None:
        self._db = db
        self._settings = settings
        self._call_others = call_others  # there is more than this worker can take
        self._lease = settings.webhook_timeout + min(5.0, max(1.0, settings.webhook_timeout / 2))
        self._paces: dict[Key, Pace] = {}
        self._sending: dict[asyncio.Task[None], Lane] = {}
        self._finished: list[Lane] = []
        self._wake = asyncio.Event()
        self._record = asyncio.Event()
        self._full = False  # the last claim could have found more
        self._called = 0.0
        self._stopping = False

    def wake(self) -> None:
        """There may be something to deliver."""
        self._wake.set()

    async def run(self, grace: float) -> None:
        """Deliver until `stop`; what is under way then has `grace` seconds, and is given back after them."""
        self._sender = Sender(self._settings)
        recording = asyncio.create_task(self._recording())
        try:
            await self._claiming()
            if self._sending:
                await asyncio.wait(self._sending, timeout=grace)
            await self._give_up()
            self._record.set()
            await asyncio.wait_for(recording, 2.0)
        except TimeoutError:
            log.warning("results not recorded in time; these deliveries will be sent again", count=len(self._finished))
        finally:
            recording.cancel()
            await self._sender.close()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    async def _claiming(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                found = await self._claim()
            except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                log.warning("deliveries interrupted; they will be taken up again", error=str(error))
                await asyncio.sleep(0.5)
                continue
            except Exception:
                log.exception("deliveries not taken up")
                await asyncio.sleep(2)
                continue
            if found and self._full:
                self._ask_for_help()
            if found:
                await asyncio.sleep(SOON)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    def _pause(self) -> float:
        """Seconds to sleep unless woken: the poll, or until a webhook has rested."""
        now = time.monotonic()
        rests = [pace.rests_until - now for pace in self._paces.values() if pace.rests_until > now]
        return max(0.01, min([self._settings.worker_poll, *rests]))

    def _ask_for_help(self) -> None:
        if time.monotonic() - self._called > ASK_FOR_HELP:
            self._called = time.monotonic()
            self._call_others()

    async def _claim(self) -> bool:
        free = self._settings.webhook_concurrency - len(self._sending)
        self._full = True  # what ends while the claim is under way has to wake us: its place was not counted
        if free <= 0:
            return False
        full = self._settings.webhook_per_endpoint
        now = time.monotonic()
        for key in [
            key for key, pace in self._paces.items() if not pace.sending and pace.rests_until < now - FORGOTTEN
        ]:
            del self._paces[key]
        shares = {key: pace.share(full, now) for key, pace in self._paces.items()}
        rows = await self._db.fetch(
            CLAIM, [key[0] for key in shares], [key[1] for key in shares], list(shares.values()), full, free,
            self._lease, PER_LANE,
        )  # fmt: skip
        lanes = _lanes(rows, now)
        taken: dict[Key, int] = {}
        for lane in lanes:
            taken[lane.key] = taken.get(lane.key, 0) + 1
            self._begin(lane)
        self._full = len(lanes) >= free or any(count >= shares.get(key, full) for key, count in taken.items())
        # A webhook whose share was used up before may have more as well
        busy = {key for key, pace in self._paces.items() if pace.sending}
        self._full = self._full or any(not share and key in busy for key, share in shares.items())
        return bool(lanes)

    def _begin(self, lane: Lane) -> None:
        self._paces.setdefault(lane.key, Pace()).sending += 1
        task = asyncio.create_task(self._deliver(lane))
        self._sending[task] = lane
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        lane = self._sending.pop(task)
        pace = self._paces[lane.key]
        pace.sending -= 1
        if not pace.sending and not pace.failures:
            del self._paces[lane.key]
        if not task.cancelled() and task.exception() is not None:
            log.error("delivery failed unexpectedly", error=repr(task.exception()))
            lane.wait = self._settings.webhook_retry_first
        self._finished.append(lane)
        self._record.set()
        if self._full:
            self._wake.set()

    async def _deliver(self, lane: Lane) -> None:
        """Send what waits in the lane, in order, up to the first failure and as long as the lease allows."""
        pace = self._paces[lane.key]
        for waiting in lane.waiting:
            if self._stopping or time.monotonic() - lane.claimed + self._settings.webhook_timeout > self._lease:
                return
            attempt = await self._sender.send(
                lane.url, waiting.payload, waiting.message_id, lane.signing_secrets, lane.secret
            )
            pace.learn(attempt)
            if attempt.succeeded:
                lane.done.append((waiting.id, "Delivered", attempt))
                lane.attempts = 0
                continue
            if attempt.status == GONE:
                lane.done.append((waiting.id, "Waiting", attempt))
                await self._disable(lane)
                lane.wait = 0.0
                return
            if waiting.age + time.monotonic() - lane.claimed >= self._settings.webhook_retry_for:
                lane.done.append((waiting.id, "Dead", attempt))
                log.warning(
                    "delivery is dead", customer=lane.key[0], webhook=lane.key[1], delivery=waiting.id,
                    attempts_in_a_row=lane.attempts + 1, error=attempt.error,
                )  # fmt: skip
                lane.attempts = 0
                return
            lane.done.append((waiting.id, "Waiting", attempt))
            lane.wait = backoff(self._settings, lane.attempts, attempt)
            return

    async def _disable(self, lane: Lane) -> None:
        with suppress(*UNREACHABLE, asyncpg.PostgresError):
            await self._db.execute(DISABLE, *lane.key, DISABLED_BY_GONE, lane.url)
            log.warning("webhook disabled", customer=lane.key[0], webhook=lane.key[1], reason=DISABLED_BY_GONE)

    async def _recording(self) -> None:
        """Record what has ended, all that there is at a time, until nothing is under way any more."""
        while True:
            await self._record.wait()
            self._record.clear()
            while self._finished:
                lanes, self._finished = self._finished, []
                try:
                    await self._db.execute(RECORD, *_columns(lanes))
                    self._look_again(lanes)
                except (*UNREACHABLE, asyncpg.PostgresError, TimeoutError) as error:
                    self._finished = [*lanes, *self._finished]
                    log.warning("results not recorded yet", count=len(self._finished), error=str(error))
                    await asyncio.sleep(0.5)
            if self._stopping and not self._sending:
                return

    def _look_again(self, lanes: Sequence[Lane]) -> None:
        """What is delivered may have more behind it, now; what failed is due after its pause."""
        waits = [lane.wait for lane in lanes if lane.wait is not None]
        if len(waits) < len(lanes):
            self._wake.set()
        for wait in waits:
            if wait < self._settings.worker_poll:  # the poll finds the others
                asyncio.get_running_loop().call_later(wait + SOON, self._wake.set)

    async def _give_up(self) -> None:
        """Cancel what is still under way: its lanes are free at once, and what was sent may be sent again."""
        cut = dict(self._sending)
        for task in cut:
            task.cancel()
        if cut:
            await asyncio.wait(cut, timeout=1.0)
            log.warning("deliveries given back", count=len(cut))


def backoff(settings: Settings, failures: int, attempt: Attempt) -> float:
    """Seconds until the next try: full jitter over a doubling bound, and not before an endpoint wants it."""
    bound = min(settings.webhook_retry_max, settings.webhook_retry_first * 2.0 ** min(failures, 30))
    wait = random.random() * bound  # noqa: S311 - no secret
    if attempt.status in BUSY and attempt.retry_after is not None:
        wait = max(wait, min(attempt.retry_after, settings.webhook_retry_max))
    return wait


def _lanes(rows: Sequence[Any], now: float) -> list[Lane]:
    lanes: list[Lane] = []
    for row in rows:
        key = (row["customer_id"], row["webhook_id"])
        if not lanes or (lanes[-1].key, lanes[-1].number) != (key, row["lane"]):
            old = row["old_signing_secret"]
            secrets = (row["signing_secret"], old) if old else (row["signing_secret"],)
            lanes.append(
                Lane(key, row["lane"], row["lease"], now, row["attempts"], row["url"], row["secret"], secrets, [])
            )
        if row["delivery_id"] is not None:
            lanes[-1].waiting.append(Waiting(row["delivery_id"], row["message_id"], row["payload"], row["age"]))
    return lanes


def _columns(lanes: Sequence[Lane]) -> tuple[list[Any], ...]:
    """The arguments of `record_attempts`: of each attempt, and of each lane."""
    done = [(place, *result) for place, lane in enumerate(lanes, 1) for result in lane.done]
    return (
        [place for place, *_ in done],
        [id for _, id, _, _ in done],
        [state for _, _, state, _ in done],
        [attempt.status for *_, attempt in done],
        [attempt.duration for *_, attempt in done],
        [attempt.answer for *_, attempt in done],
        [attempt.error for *_, attempt in done],
        [attempt.started for *_, attempt in done],
        [lane.key[0] for lane in lanes],
        [lane.key[1] for lane in lanes],
        [lane.number for lane in lanes],
        [lane.lease for lane in lanes],
        [lane.wait for lane in lanes],
    )
