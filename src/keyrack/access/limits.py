"""In charge of how much one may take: 429 per customer, user name or address."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import LiteralString

from keyrack.database.connection import Statements
from keyrack.errors import TooManyRequests

GIVE_BACK: LiteralString = "select give_back($1, $2) from generate_series(1, $3::integer)"
TAKE: LiteralString = "select allowed, remaining, wait, reset from take($1, $2, $3, $4)"


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
