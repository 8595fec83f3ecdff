"""Mapping of unexpected exceptions to errors for the caller."""

from __future__ import annotations

import asyncpg
import structlog

from keyrack.api.odata import TOO_MANY, TOO_MANY_EXPANDED
from keyrack.assignments.customer_lock import BUSY
from keyrack.core.error_codes import (
    DATABASE_TOO_SLOW,
    NO_CUSTOMER,
    NOT_NOW,
    OUTCOME_UNKNOWN,
    QUERY_OUT_OF_RANGE,
    QUERY_TOO_SLOW,
)
from keyrack.core.errors import BadRequest, InternalError, NotFound, Refusal, Unavailable
from keyrack.db.connection import UNREACHABLE, OutcomeUnknown, is_interruption
from keyrack.db.throttled_log import ThrottledLogger

log = structlog.get_logger("keyrack.app")
seldom = ThrottledLogger("keyrack.app")

OF_CUSTOMER = "_customer_id_fkey"  # the suffix of every foreign key to a customer
FAULTS = ("25P02", "XX")  # interruptions that may be bugs, so the error suggests no retry


def map_exception(error: Exception, method: str, path: str, query: str) -> Refusal:
    """The error for the caller in place of an unexpected exception."""
    if isinstance(error, asyncpg.DataError):  # SQLSTATE class 22: a value outside the domain of an expression
        return BadRequest(QUERY_OUT_OF_RANGE)
    if isinstance(error, asyncpg.PostgresError) and error.sqlstate == TOO_MANY:
        return BadRequest(TOO_MANY_EXPANDED.with_text(str(error)))
    if isinstance(error, asyncpg.QueryCanceledError):
        return BadRequest(QUERY_TOO_SLOW) if query else Unavailable(DATABASE_TOO_SLOW)
    if isinstance(error, asyncpg.LockNotAvailableError):
        return Unavailable(BUSY)
    if is_interruption(error) and not str(getattr(error, "sqlstate", "")).startswith(FAULTS):
        seldom.warning("request failed, database unreachable or read-only", error=error)
        if isinstance(error, OutcomeUnknown) and method not in ("GET", "HEAD"):
            return Unavailable(OUTCOME_UNKNOWN, repeatable=False)
        return Unavailable() if isinstance(error, UNREACHABLE) else Unavailable(NOT_NOW)
    if isinstance(error, asyncpg.ForeignKeyViolationError) and (error.constraint_name or "").endswith(OF_CUSTOMER):
        return NotFound(NO_CUSTOMER)  # the customer was deleted after the check
    log.exception("internal error", method=method, path=path)
    return InternalError()
