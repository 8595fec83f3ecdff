"""In charge of how long a caller tries: what is sent again, when, and how many requests go out in a second."""

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
    """How long a call is tried; seconds."""

    attempts: int = 6
    first_pause: float = 0.4  # before the second attempt; each further pause is twice as long
    max_pause: float = 5.0  # between two attempts where the server names no time
    max_retry_after: float = 60.0  # that the server may ask to wait for; beyond it the call is given up at once
    timeout: float = 60.0  # of one attempt
    per_second: float | None = None  # requests, at most

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Seconds before the attempt after number `attempt`, from 1: as the server named them, else a little by chance,
        so that many callers do not come back together."""
        if retry_after is not None:
            return retry_after
        return min(self.first_pause * 2 ** (attempt - 1), self.max_pause) * uniform(0.5, 1)  # noqa: S311 - no secret


class RequestThrottle:
    """Lets requests go one after another, as far apart as `per_second` wants them."""

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
    """Whether the server has done nothing, so that anything may be sent again. A 503 that names no time may be one of
    which nobody knows (code `outcome-unknown`)."""
    return status == 429 or (status == 503 and retry_after is not None)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that `Retry-After` names, in either of its forms (RFC 9110, section 10.2.3)."""
    text = headers.get("Retry-After", "").strip()
    try:
        if text.isdecimal():
            return float(text)
        date = parsedate_to_datetime(text)
        return max(0.0, ((date if date.tzinfo else date.replace(tzinfo=UTC)) - datetime.now(UTC)).total_seconds())
    except (ValueError, OverflowError):
        return None
