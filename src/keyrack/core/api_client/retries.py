"""Retries of an API client: conditions, pauses and a rate limit."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from random import uniform

PASSING = frozenset((408, 425, 429, 500, 502, 503, 504))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The limits on retries of a call, in seconds."""

    attempts: int = 6
    first_pause: float = 0.4  # before the second attempt; each further pause is twice as long
    max_pause: float = 5.0  # between two attempts, unless the server names a time
    max_retry_after: float = 60.0  # longest `Retry-After` that is accepted; beyond it the call fails at once
    timeout: float = 60.0  # of one attempt
    per_second: float | None = None  # maximum number of requests

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """The pause before the next attempt, in seconds. `attempt` counts from 1.

        The server's time counts. Without one it is an exponential back-off with jitter, so that many clients do not
        return together.
        """
        if retry_after is not None:
            return retry_after
        return min(self.first_pause * 2 ** (attempt - 1), self.max_pause) * uniform(0.5, 1)  # noqa: S311 - no secret


class RequestThrottle:
    """Delays requests, so that at most `per_second` are sent."""

    def __init__(self, per_second: float | None) -> None:
        self._apart = 1 / per_second if per_second else 0.0
        self._next = 0.0

    async def wait_turn(self) -> None:
        if not self._apart:
            return
        now = asyncio.get_running_loop().time()
        at, self._next = max(now, self._next), max(now, self._next) + self._apart
        await asyncio.sleep(at - now)


def undone(status: int, retry_after: float | None) -> bool:
    """Whether the server has done nothing, which permits a retry.

    The outcome of a 503 without `Retry-After` may be unknown (code `outcome-unknown`).
    """
    return status == 429 or (status == 503 and retry_after is not None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds of `Retry-After`, in either form (RFC 9110, section 10.2.3)."""
    text = headers.get("Retry-After", "").strip()
    try:
        if text.isdecimal():
            return float(text)
        date = parsedate_to_datetime(text)
        return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
