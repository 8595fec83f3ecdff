"""In charge of how much one may take: 429 per customer, user name or address."""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from typing import LiteralString

from keyrack.database.connection import Database, Statements
from keyrack.database.pieces import repeat
from keyrack.errors import TooManyRequests
from keyrack.settings import Settings

GIVE_BACK: LiteralString = "select give_back($1, $2) from generate_series(1, $3::integer)"
TAKE: LiteralString = "select allowed, remaining, wait, reset from take($1, $2, $3, $4)"
FORGET: LiteralString = """
with gone as (delete from rate_limit where ctid = any(array(
  select ctid from rate_limit where full_at < now() - interval '1 hour' limit $1)) returning true)
select count(*) from gone
"""


@dataclass(frozen=True, slots=True)
class Limit:
    """`rate` a minute over time, `burst` at once; `name` is what the RateLimit headers call it."""

    name: str
    rate: int
    burst: int

    async def take(self, statements: Statements, who: object) -> dict[str, str]:
        """Take one from the bucket of `who`: the headers that tell what is left. Raises `TooManyRequests`.

        Exact across processes: the row of the bucket is the only truth. The headers follow the IETF draft
        "RateLimit header fields for HTTP" (draft-ietf-httpapi-ratelimit-headers).
        """
        (taken,) = await self.take_many(statements, who, 1)
        if isinstance(taken, TooManyRequests):
            raise taken
        return taken

    async def take_many(
        self, statements: Statements, who: object, wanted: int
    ) -> list[dict[str, str] | TooManyRequests]:
        """The same for several that come at once: the first ones get what there is."""
        row = await statements.fetchrow(TAKE, self._bucket(who), self.rate, self.burst, wanted)
        assert row is not None  # noqa: S101 - a function of one row
        allowed, reset = row["allowed"], max(0, math.ceil(row["reset"]))
        policy = f'"{self.name}";q={self.burst};w={math.ceil(self.burst * 60 / self.rate)}'
        results: list[dict[str, str] | TooManyRequests] = []
        for number in range(1, wanted + 1):
            left = row["remaining"] + max(0, allowed - number)
            headers = {"RateLimit-Policy": policy, "RateLimit": f'"{self.name}";r={left};t={reset}'}
            refused = number > allowed
            results.append(TooManyRequests(max(1, math.ceil(row["wait"])), headers) if refused else headers)
        return results

    async def give_back(self, statements: Statements, who: object, count: int = 1) -> None:
        """Return what was taken for something that turned out to be harmless."""
        await statements.execute(GIVE_BACK, self._bucket(who), self.rate, count)

    def _bucket(self, who: object) -> str:
        return f"{self.name}:{who}"


async def forget(db: Database, settings: Settings) -> None:
    """Forget the buckets that have been full for an hour. A step of housekeeping."""
    await repeat(db, settings.housekeeping_rows, FORGET)


Taken = tuple[Limit, object]  # a limit, and whose bucket it is


async def take_each(statements: Statements, *wanted: Taken) -> None:
    """Take one from each of these buckets, or none: what was taken before one of them refuses is given back.

    Raises `TooManyRequests`.
    """
    for number, (limit, who) in enumerate(wanted):
        try:
            await limit.take(statements, who)
        except TooManyRequests:
            await give_back_each(statements, *wanted[:number])
            raise


async def give_back_each(statements: Statements, *taken: Taken) -> None:
    """Return what was taken from each."""
    for limit, who in taken:
        await limit.give_back(statements, who)


def network(address: str) -> str:
    """Whose address it is, as far as a limit is concerned: IPv6 gives everybody a whole /64 to choose from (RFC 6177).

    What a proxy names and is no address counts as one.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
