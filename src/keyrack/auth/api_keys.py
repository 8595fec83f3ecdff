"""API keys: their validity, and the log of rejected ones."""

from __future__ import annotations

import json
from typing import LiteralString

from keyrack.api.rate_limits import loggable_address
from keyrack.core.error_codes import INVALID_KEY, FieldError
from keyrack.core.errors import Unauthorized
from keyrack.core.log_config import RateLimitedLogger
from keyrack.db.connection import Database

FIND: LiteralString = """
select api_key_id, coalesce(extract(epoch from expires_at), 'infinity')::float8 as until,
  revoked_at is not null as is_revoked, coalesce(expires_at <= now(), false) as has_expired
from api_key where hash = $1
"""
MISSING, UNKNOWN, REVOKED, EXPIRED = "missing", "unknown", "revoked", "expired"

_seldom = RateLimitedLogger("keyrack.api_keys")


class KeyRefused(Unauthorized):
    """401 for an API key.

    The response names the header. Only the log shows why a key was rejected.
    """

    def __init__(self, header: str, because: str, key: int | None = None) -> None:
        fault = FieldError("missing", f"The header {header} is missing.", header=header)
        super().__init__(INVALID_KEY, errors=(fault,) if because == MISSING else ())
        self.header = header
        self.because = because
        self.key = key  # its id, if known

    def body(self, trace_id: str) -> bytes:
        return json.dumps({"statusCode": 401, "message": self.text, "header": self.header}).encode()

    def logged(self, address: str) -> None:
        """Log the cause, throttled by cause and key."""
        _seldom.warning(
            "api key rejected", reason=self.because, key=self.key, header=self.header,
            address=loggable_address(address),
            throttle_by=(self.because, self.key),
        )  # fmt: skip


async def good_until(db: Database, hashed: bytes, header: str) -> float:
    """The expiry of the key with this hash, in seconds since 1970.

    It is infinite for a key that does not expire. Raises `KeyRefused`.
    """
    row = await db.fetchrow(FIND, hashed)
    if row is None:
        raise KeyRefused(header, UNKNOWN)
    if row["is_revoked"] or row["has_expired"]:
        raise KeyRefused(header, REVOKED if row["is_revoked"] else EXPIRED, row["api_key_id"])
    return row["until"]
