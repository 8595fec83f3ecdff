"""The delivery queue: claims of lanes, fair shares, throttling of webhooks, and the record of results.

A lane is a queue of one webhook, such as the deliveries of one assignment. A claim is a lease, which expires after a
crash.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

from keyrack.api.schema.fields import utc
from keyrack.core.metrics.catalog import ATTEMPT_SECONDS, ATTEMPTS, ATTEMPTS_OF, DELIVERY_SECONDS
from keyrack.core.settings import Settings
from keyrack.db.named_parameters import compile_statement
from keyrack.webhooks.dialects import WebhookMessage
from keyrack.webhooks.sender import DeliveryAttempt

LONGEST_REST = 5.0  # seconds that a failing webhook rests before the next probe, at most
LONGEST_ASKED_REST = 60.0  # seconds that it rests on its own request (`Retry-After`), at most
QUICK = 1.0  # seconds up to which an answer does not reduce the share
FORGOTTEN = 600.0  # seconds after which failures and slowness of a webhook no longer count
BUSY = (429, 503)
_CHANCE = random.Random()  # noqa: S311 - no secret; separate, because a seed of the shared one would fix the waits

# One statement claims, so that all workers share by the database's current state, in one round trip. A choice in Python
# would be simpler, but needs all lanes that are due: of 500 webhooks with 20 places each, 10,000 rows for a claim that
# takes at most 400 lanes. A second statement would also have to lock them, after other workers have taken some, so
# places would stay free. Each step is a constant with its reason.
#
# The walk visits each webhook that has lanes, once round from the last webhook of the claim before, in at most
# `max_webhooks` steps
_WALK: LiteralString = """
walk as (
  select 0 as step, 0 as lap, :after_customer::integer as customer_id, :after_webhook::integer as webhook_id
  union all
  select w.step + 1, n.* from walk w cross join lateral (
    (select w.lap, l.customer_id, l.webhook_id from delivery_lane l
     where (l.customer_id, l.webhook_id) > (w.customer_id, w.webhook_id)
       and (l.customer_id, l.webhook_id) <= (case w.lap when 0 then 2147483647 else :after_customer end,
                                             case w.lap when 0 then 2147483647 else :after_webhook end)
     order by l.customer_id, l.webhook_id limit 1)
    union all
    (select 1, l.customer_id, l.webhook_id from delivery_lane l
     where w.lap = 0 and (l.customer_id, l.webhook_id) <= (:after_customer, :after_webhook)
     order by l.customer_id, l.webhook_id limit 1)
    limit 1) n
  where w.step < :max_webhooks
)"""
# The places that each webhook could fill within its share; `share_of_others` for webhooks without a throttle
_DUE: LiteralString = """
due as (
  select a.step, a.customer_id, a.webhook_id, n.due_at,
    coalesce(p.sending, 0) + row_number() over (partition by a.step order by n.due_at) as place
  from walk a
  join webhook w on w.customer_id = a.customer_id and w.webhook_id = a.webhook_id and w.is_enabled
  left join unnest(
    :throttled_customers::integer[], :throttled_webhooks::integer[], :sending_by_webhook::integer[], :shares::integer[])
    p (customer_id, webhook_id, sending, share) on p.customer_id = a.customer_id and p.webhook_id = a.webhook_id
  cross join lateral (
    select l.due_at from delivery_lane l
    where l.customer_id = a.customer_id and l.webhook_id = a.webhook_id and l.due_at <= now()
    order by l.due_at limit coalesce(p.share, :share_of_others)) n
  where a.step > 0
)"""
# The places that a customer would hold with each of them. A customer's webhooks share its places in the same way
_RANKED: LiteralString = """
ranked as (
  select d.step, d.customer_id, d.webhook_id,
    coalesce(h.sending, 0) + row_number() over (partition by d.customer_id order by d.place, d.due_at) as rank
  from due d
  left join unnest(:sending_customers::integer[], :sending_by_customer::integer[]) h (customer_id, sending)
    on h.customer_id = d.customer_id
)"""
# Customers that hold the fewest places come first
_TURNS: LiteralString = """
turns as (
  select r.*, row_number() over (order by r.rank, r.step) as turn from ranked r
)"""
# A customer gets at most as many of the free places as then remain free. One customer alone gets half, two get a third
# each, and there is a place for the next one
_GRANTED: LiteralString = """
granted as (
  select customer_id, webhook_id, count(*) as lanes, max(turn) as turn from turns where rank + turn <= :free_places + 1
  group by customer_id, webhook_id
)"""
# Locks lanes in a step of its own and finds them by `ctid`. In a join with the update, the limit would apply to each
# row separately
_LOCKED: LiteralString = """
locked as materialized (
  select l.place from granted g cross join lateral (
    select l.ctid as place from delivery_lane l
    where l.customer_id = g.customer_id and l.webhook_id = g.webhook_id and l.due_at <= now()
    order by l.due_at limit g.lanes for update skip locked) l
)"""
_CLAIMED: LiteralString = """
claimed as (
  update delivery_lane l set lease = now() + make_interval(secs => :lease_seconds),
    due_at = now() + make_interval(secs => :lease_seconds)
  where l.ctid = any(array(select place from locked))
  returning l.customer_id, l.webhook_id, l.lane, l.lease, l.attempts
)"""
# Each row says how far the walk came. There is a row for each claimed lane and each of its first deliveries.
#
# The commit waits for the disk and the synchronous standby before the lanes are sent. So nothing is sent that a crash
# or a new primary could undo. Nor is anything sent from a former primary that came back with rows that no standby has
CLAIM = compile_statement(f"""
with recursive {_WALK}, {_DUE}, {_RANKED}, {_TURNS}, {_GRANTED}, {_LOCKED}, {_CLAIMED}
select e.step as seen, e.customer_id as last_customer, e.webhook_id as last_webhook,
  c.customer_id, c.webhook_id, c.lane, c.lease, c.attempts, g.turn, w.url, w.dialect, w.secret, w.signing_secret,
  case when w.old_signing_secret_until > now() then w.old_signing_secret end as old_signing_secret,
  d.delivery_id, d.message_id::text, d.payload, {utc("d.created_at")} as created_at,
  extract(epoch from now() - d.since)::float8 as age, d.traceparent
from (select step, customer_id, webhook_id from walk order by step desc limit 1) e
left join (
  claimed c
  join granted g on g.customer_id = c.customer_id and g.webhook_id = c.webhook_id
  join webhook w on w.customer_id = c.customer_id and w.webhook_id = c.webhook_id) on true
left join lateral (
  select d.delivery_id, d.message_id, d.payload, d.created_at, d.since, d.applied, d.traceparent from delivery d
  where d.customer_id = c.customer_id and d.webhook_id = c.webhook_id and d.lane = c.lane and d.state = 'Waiting'
  order by d.applied, d.delivery_id limit :deliveries_per_lane
) d on true
order by c.customer_id, c.webhook_id, c.lane, d.applied, d.delivery_id
""")
# The parameters are named as in the function. It turns off `synchronous_commit` for its transaction: a lost result only
# repeats the delivery. Times are passed as texts: for an array of a type with a custom codec asyncpg would query the
# catalogue, which takes every new connection 50 ms
RECORD = compile_statement("""
select record_attempts(
  :of_lane, :delivery_ids, :states, :statuses, :durations, :answers, :errors, :times::text[]::timestamptz[],
  :customers, :webhooks, :lanes, :leases::text[]::timestamptz[], :waits)
""")

Key = tuple[int, int]  # customer, webhook


def claim_arguments(
    *,
    after: Key,
    max_webhooks: int,
    throttles: Mapping[Key, EndpointThrottle],
    shares: Mapping[Key, int],
    share_of_others: int,
    held_by_customer: Mapping[int, int],
    free: int,
    lease: float,
    per_lane: int,
) -> list[object]:
    """The arguments of `CLAIM`.

    - `after`: the walk starts after this webhook. `max_webhooks`: webhooks that it visits.
    - `shares`: lanes that each webhook of `throttles` may get. `share_of_others`: lanes that any other webhook may get.
    - `held_by_customer`: the worker's places that each customer holds. `free`: places that no customer holds.
    - `lease`: seconds. `per_lane`: deliveries read from a lane.
    """
    return CLAIM.arguments(
        after_customer=after[0],
        after_webhook=after[1],
        max_webhooks=max_webhooks,
        throttled_customers=[customer for customer, _ in throttles],
        throttled_webhooks=[webhook for _, webhook in throttles],
        sending_by_webhook=[throttle.sending for throttle in throttles.values()],
        shares=[shares[key] for key in throttles],
        share_of_others=share_of_others,
        sending_customers=list(held_by_customer),
        sending_by_customer=list(held_by_customer.values()),
        free_places=free,
        lease_seconds=lease,
        deliveries_per_lane=per_lane,
    )


@dataclass(slots=True)
class PendingDelivery:
    """One delivery of a claimed lane."""

    id: int
    message: WebhookMessage
    age: float  # seconds since it was written or last replayed
    traceparent: str | None  # trace context of the request that it is an outcome of


@dataclass(slots=True)
class DeliveryLane:
    """A claimed lane, and its results so far."""

    key: Key
    number: int
    lease: datetime
    claimed: float  # on the monotonic clock
    attempts: int  # consecutive failures before this claim
    url: str
    dialect: str
    secret: bytes | None  # encrypted, like the signing secrets
    signing_secrets: tuple[bytes, ...]
    deliveries: list[PendingDelivery]
    results: list[tuple[int, str, DeliveryAttempt]] = field(default_factory=list[tuple[int, str, DeliveryAttempt]])
    wait: float | None = None  # seconds until the next attempt; None: the lane is due at once


@dataclass(slots=True)
class EndpointThrottle:
    """The send rate of one webhook, as this worker has observed it."""

    sending: int = 0
    failures: int = 0  # consecutive ones
    seconds: float = 0.0  # recent duration of an attempt
    rests_until: float = 0.0  # on the monotonic clock
    asked_rest_until: float = 0.0  # the same, for `Retry-After` alone
    last_attempt_at: float = 0.0  # on the monotonic clock
    last_hidden_error: str | None = None  # the cause logged last

    def share(self, full: int, now: float) -> int:
        """Lanes that the webhook may get in addition: none while it rests, few if it is slow or fails."""
        if now < self.rests_until:
            return 0
        max_lanes = full >> min(self.failures, 10)
        if self.seconds > QUICK:
            max_lanes = min(max_lanes, int(full * QUICK / self.seconds))
        return max(0, max(1, max_lanes) - self.sending)

    def learn(self, attempt: DeliveryAttempt) -> None:
        """Update the throttle: any success resets the failures, and quick answers end the slowness.

        A success does not end a rest that the webhook asked for: that attempt may have begun earlier.
        """
        seconds = attempt.duration / 1000
        self.seconds = (self.seconds + seconds) / 2 if self.last_attempt_at else seconds
        self.last_attempt_at = time.monotonic()
        if attempt.succeeded:
            self.failures = 0
            self.rests_until = self.asked_rest_until
            return
        self.failures += 1
        rest = min(LONGEST_REST, 0.05 * 2.0 ** min(self.failures - 5, 10)) if self.failures > 4 else 0.0
        if attempt.status in BUSY and attempt.retry_after is not None:
            asked_rest = min(attempt.retry_after, LONGEST_ASKED_REST)
            self.asked_rest_until = max(self.asked_rest_until, self.last_attempt_at + asked_rest)
        self.rests_until = max(self.rests_until, self.asked_rest_until, self.last_attempt_at + rest)

    def is_like_new(self, now: float) -> bool:
        """Whether it can be dropped: equal to a new one, or too old to count."""
        if self.sending or now < self.rests_until:
            return False
        return (not self.failures and self.seconds <= QUICK) or self.last_attempt_at < now - FORGOTTEN


def backoff(settings: Settings, failures: int, attempt: DeliveryAttempt) -> float:
    """Seconds until the next attempt: full jitter below a doubling bound.

    A busy endpoint (429, 503) may request a longer wait with `Retry-After`, up to the maximum.
    """
    bound = min(settings.webhook_retry_max, settings.webhook_retry_first * 2.0 ** min(failures, 30))
    wait = _CHANCE.random() * bound
    if attempt.status in BUSY and attempt.retry_after is not None:
        wait = max(wait, min(attempt.retry_after, settings.webhook_retry_max))
    return wait


def lanes_of(rows: Sequence[Any], now: float, server: str) -> list[DeliveryLane]:
    """The lanes of a claim's rows. A claim without lanes has one row with a null lane.

    `server`: the public address of this installation.
    """
    lanes: list[DeliveryLane] = []
    for row in rows:
        if row["lane"] is None:
            continue
        key = (row["customer_id"], row["webhook_id"])
        if not lanes or (lanes[-1].key, lanes[-1].number) != (key, row["lane"]):
            old = row["old_signing_secret"]
            secrets = (row["signing_secret"], old) if old else (row["signing_secret"],)
            lanes.append(
                DeliveryLane(
                    key,
                    row["lane"],
                    row["lease"],
                    now,
                    row["attempts"],
                    row["url"],
                    row["dialect"],
                    row["secret"],
                    secrets,
                    [],
                )
            )
        if row["delivery_id"] is not None:
            message = WebhookMessage(row["message_id"], row["payload"], row["created_at"], server)
            lanes[-1].deliveries.append(PendingDelivery(row["delivery_id"], message, row["age"], row["traceparent"]))
    return lanes


def record_arguments(lanes: Sequence[DeliveryLane]) -> list[object]:
    """The arguments of `RECORD`: columns of all attempts, and of the lanes. `of_lane` counts the lanes from 1."""
    results = [(place, *result) for place, lane in enumerate(lanes, 1) for result in lane.results]
    attempts = [attempt for *_, attempt in results]
    return RECORD.arguments(
        of_lane=[place for place, *_ in results],
        delivery_ids=[delivery for _, delivery, _, _ in results],
        states=[state for _, _, state, _ in results],
        statuses=[attempt.status for attempt in attempts],
        # the duration of a hidden failure would reveal whether a host exists
        durations=[None if attempt.hidden else attempt.duration for attempt in attempts],
        answers=[attempt.answer for attempt in attempts],
        errors=[attempt.error for attempt in attempts],
        times=[attempt.started.isoformat() for attempt in attempts],
        customers=[lane.key[0] for lane in lanes],
        webhooks=[lane.key[1] for lane in lanes],
        lanes=[lane.number for lane in lanes],
        leases=[lane.lease.isoformat() for lane in lanes],
        waits=[lane.wait for lane in lanes],
    )


def count(lane: DeliveryLane, waiting: PendingDelivery, attempt: DeliveryAttempt) -> None:
    """Count an attempt and, if it delivered, the time that the delivery waited."""
    result = "delivered" if attempt.succeeded else "unanswered" if attempt.status is None else "refused"
    ATTEMPTS.add(result)
    ATTEMPTS_OF.count(lane.key[0], result)
    ATTEMPT_SECONDS.observe(attempt.duration / 1000)
    if attempt.succeeded:
        DELIVERY_SECONDS.observe(waiting.age + time.monotonic() - lane.claimed)
