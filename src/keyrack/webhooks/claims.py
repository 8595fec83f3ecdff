"""In charge of claimed lanes: what a claim takes, how fast a webhook gets its share, and what is recorded.

A lane is one assignment at one webhook. A claim is a lease: it ends by itself after a crash.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from keyrack.settings import Settings
from keyrack.webhooks.sending import Attempt

LONGEST_REST = 5.0  # seconds that a webhook without success rests, at most, before the next probe
LONGEST_ASKED_REST = 60.0  # seconds that it rests at its own wish
BUSY = (429, 503)

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
  select d.delivery_id, d.message_id, d.payload, d.since, d.applied from delivery d
  where d.customer_id = c.customer_id and d.webhook_id = c.webhook_id and d.lane = c.lane and d.state = 'Waiting'
  order by d.applied, d.delivery_id limit $7
) d on true
order by c.customer_id, c.webhook_id, c.lane, d.applied, d.delivery_id
"""
# Times go as texts: for an array of a type with a codec of ours asyncpg would look through the catalogue, which takes
# every new connection 50 ms
RECORD: LiteralString = """
select record_attempts($1, $2, $3, $4, $5, $6, $7, $8::text[]::timestamptz[], $9, $10, $11, $12::text[]::timestamptz[],
                       $13)
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
    secret: bytes | None  # sealed, like those below
    signing_secrets: tuple[bytes, ...]
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


def backoff(settings: Settings, failures: int, attempt: Attempt) -> float:
    """Seconds until the next try: full jitter over a doubling bound, and not before an endpoint wants it."""
    bound = min(settings.webhook_retry_max, settings.webhook_retry_first * 2.0 ** min(failures, 30))
    wait = random.random() * bound  # noqa: S311 - no secret
    if attempt.status in BUSY and attempt.retry_after is not None:
        wait = max(wait, min(attempt.retry_after, settings.webhook_retry_max))
    return wait


def lanes_of(rows: Sequence[Any], now: float) -> list[Lane]:
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


def columns_of(lanes: Sequence[Lane]) -> tuple[list[Any], ...]:
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
        [attempt.started.isoformat() for *_, attempt in done],
        [lane.key[0] for lane in lanes],
        [lane.key[1] for lane in lanes],
        [lane.number for lane in lanes],
        [lane.lease.isoformat() for lane in lanes],
        [lane.wait for lane in lanes],
    )
