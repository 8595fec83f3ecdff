"""Rate limits: 429 per customer, user name or address."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import LiteralString

from keyrack.core.errors import TooManyRequests
from keyrack.core.metrics.catalog import LIMITS
from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Row, Statements
from keyrack.db.row_batches import run_in_batches

HOUR, DAY = timedelta(hours=1), timedelta(days=1)

GIVE_BACK: LiteralString = "select give_back_token($1, $2::interval) from generate_series(1, $3::integer)"
TAKE: LiteralString = "select allowed, remaining, wait, reset from take_token($1, $2::interval, $3, $4)"
BORROW: LiteralString = "select allowed, remaining, wait, reset from take_token($1, $2::interval, $3, $4, true)"
# Seconds until a token is available. A `full_at` further ahead than the bucket and its debt results from a clock that
# was set back; `take` corrects it
WAIT: LiteralString = """
select extract(epoch from full_at - t + step - step * $3)::float8 as wait
from rate_limit, lateral (select clock_timestamp() as t, $2::interval as step) c
where key = $1 and full_at <= t + step * ($3::integer + owed) + interval '1 second'
"""
FORGET: LiteralString = """
with gone as (delete from rate_limit where ctid = any(array(
  select ctid from rate_limit where full_at < now() - interval '1 hour' limit $1)) returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """`rate` per `period` on average, `burst` at once. `name` is that of the RateLimit headers."""

    name: str
    rate: int
    burst: int
    period: timedelta = timedelta(minutes=1)

    @property
    def _step(self) -> timedelta:
        """The time in which one token is refilled."""
        return self.period / self.rate

    async def take(self, statements: Statements, owner: object) -> dict[str, str]:
        """Take one token from the bucket of `owner`. Returns the RateLimit headers. Raises `TooManyRequests`.

        It is exact across processes, because the bucket is a single row. The headers follow the IETF draft "RateLimit
        header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers).
        """
        (taken,) = await self.take_many(statements, owner, 1)
        if isinstance(taken, TooManyRequests):
            raise taken
        return taken

    async def take_many(
        self, statements: Statements, owner: object, count: int
    ) -> list[dict[str, str] | TooManyRequests]:
        """Take several tokens at once. The first ones get the available tokens."""
        row = await self._row(statements, TAKE, owner, count)
        allowed = row["allowed"]
        results: list[dict[str, str] | TooManyRequests] = []
        for number in range(1, count + 1):
            headers = self._headers(row["remaining"] + max(0, allowed - number), row["reset"])
            results.append(self._too_many_requests(row["wait"], headers) if number > allowed else headers)
        return results

    async def borrow(self, statements: Statements, owner: object, count: int) -> dict[str, str]:
        """Take `count` tokens if at least one is left. The excess is a debt, refilled before the next token.

        So the average rate stays the same. Raises `TooManyRequests`.
        """
        row = await self._row(statements, BORROW, owner, count)
        headers = self._headers(row["remaining"], row["reset"])
        if row["allowed"] < count:
            raise self._too_many_requests(row["wait"], headers)
        return headers

    async def count(self, statements: Statements, owner: object) -> bool:
        """Take one token and return whether one was left. It counts events, so the metric ignores it."""
        return (await self._row(statements, TAKE, owner, 1))["allowed"] == 1

    async def check(self, statements: Statements, owner: object) -> None:
        """Check that a token is left, without taking it or locking the bucket. Raises `TooManyRequests`."""
        wait = await statements.fetchval(WAIT, self._bucket(owner), self._step, self.burst)
        if wait is not None and wait > 0:
            raise self._too_many_requests(wait, self._headers(0, wait))

    async def _row(self, statements: Statements, sql: LiteralString, owner: object, count: int) -> Row:
        row = await statements.fetchrow(sql, self._bucket(owner), self._step, self.burst, count)
        assert row is not None  # noqa: S101 - a function of one row
        return row

    def _headers(self, left: int, reset: float) -> dict[str, str]:
        policy = f'"{self.name}";q={self.burst};w={math.ceil(self.burst * self._step.total_seconds())}'
        return {
            "RateLimit-Policy": policy,
            "RateLimit": f'"{self.name}";r={left};t={max(0, math.ceil(reset))}',
        }

    async def give_back(self, statements: Statements, owner: object, count: int = 1) -> None:
        """Return tokens of a request that turned out to be harmless."""
        await statements.execute(GIVE_BACK, self._bucket(owner), self._step, count)

    def _too_many_requests(self, wait: float, headers: dict[str, str]) -> TooManyRequests:
        LIMITS.add(self.name)
        return TooManyRequests(max(1, math.ceil(wait)), headers)

    def _bucket(self, owner: object) -> str:
        return f"{self.name}:{owner}"


async def forget(db: Database, settings: Settings) -> None:
    """Delete buckets that have been full for an hour. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET)


Bucket = tuple[RateLimit, object]  # a limit and the owner of the bucket


async def take_each(statements: Statements, *buckets: Bucket) -> None:
    """Take one token from each of these buckets, or none: an earlier token is returned if a later bucket is empty.

    Raises `TooManyRequests`.
    """
    for number, (limit, owner) in enumerate(buckets):
        try:
            await limit.take(statements, owner)
        except TooManyRequests:
            await give_back_each(statements, *buckets[:number])
            raise


async def give_back_each(statements: Statements, *buckets: Bucket) -> None:
    """Return one token to each bucket."""
    for limit, owner in buckets:
        await limit.give_back(statements, owner)


# Prefix length of an IPv6 network -> multiple of the limit of a /64
WIDER = {56: 4, 48: 16}


def per_network(limit: RateLimit, address: str) -> tuple[Bucket, ...]:
    """The buckets of an address: one for an IPv4 address, three (/64, /56 and /48) for an IPv6 address.

    A subscriber may own a /64, a /56 or a /48 (RFC 6177, section 2). The wider networks have larger limits, as several
    subscribers may share one. Two /48 networks share no bucket, so no /48 can lock out another one.
    """
    own = network(address)
    if ":" not in own:
        return ((limit, own),)
    wider = (
        (replace(limit, rate=limit.rate * times, burst=limit.burst * times), _network_of(own.partition("/")[0], length))
        for length, times in WIDER.items()
    )
    return ((limit, own), *wider)


def _network_of(address: str, length: int) -> str:
    return str(ipaddress.IPv6Network((address, length), strict=False))


def network(address: str) -> str:
    """The owner of an address for a limit: for IPv6 the /64, because a subscriber has at least that (RFC 6177).

    All invalid addresses of a proxy count as one.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return _network_of(str(parsed).partition("%")[0], 64)


def loggable_address(address: str) -> str:
    """An address for the log; "unknown" for an invalid address of a proxy."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)
