"""In charge of what every connection is told at its start, and of how values travel between Python and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString

import asyncpg

from keyrack.core.settings import Settings

# The same values in each session, whatever the defaults of the server, the database or the role are. Answers, signed
# bodies and exports depend on the first group, the meaning of a statement on the second. The third group lets a session
# last. `default_transaction_read_only` is left out: operators freeze a database with it.
BASE: Mapping[str, str] = {
    "TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on", "default_transaction_isolation": "read committed",
    "statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}  # fmt: skip
# Settings of our own, by which a session or a transaction tells triggers and statements what is no parameter of them
OWN: Mapping[str, str] = {
    "keyrack.brand": "The brand of the installation, which is part of a product's type.",
    "keyrack.public_url": "The public address of the server, for links in answers.",
    "keyrack.records": "The release names the actor of each change. Releases up to 0.2.0 do not set it.",
    "keyrack.who": "The actor that triggers record with each change: JSON in base64.",
    "keyrack.scope": "The group scope of the actor: what a group-limited manager creates joins its groups.",
    "keyrack.operations": "The operations by assignment: a change of an assignment is recorded on their behalf.",
    "keyrack.removed_customer": "The customer whose rows `keyrack customer remove` deletes.",
}
# Of `BASE`, the ones that PgBouncer itself keeps as each client has set them
KEPT_BY_POOLER = frozenset(("TimeZone", "DateStyle", "standard_conforming_strings"))


def session(settings: Settings) -> dict[str, str]:
    """The parameters of a session of the API or of a worker; SQL reads those of `keyrack.` with `current_setting`."""
    return {
        **BASE,
        "jit": "off",
        "statement_timeout": str(int(settings.statement_timeout_seconds * 1000)),
        "lock_timeout": str(int(settings.lock_timeout_seconds * 1000)),
        "idle_in_transaction_session_timeout": "15000",  # a client that is gone silently must not hold its locks
        "keyrack.brand": settings.brand,
        "keyrack.records": "on",  # it says who acts, which releases up to 0.2.0 do not
        "keyrack.who": "",  # nobody yet, whatever the server has as a default
        "keyrack.public_url": settings.public_url,
    }


async def open_session(
    dsn: str, *, server_settings: Mapping[str, str] | None = None, **options: Any
) -> asyncpg.Connection:
    """Connect to PostgreSQL, with the parameters of `BASE` unless `server_settings` has another value.

    `options` are those of `asyncpg.connect`. Raises what that raises; the error of a pooler that refuses a parameter
    ends with the remedy.
    """
    try:
        return await asyncpg.connect(dsn, server_settings={**BASE, **(server_settings or {})}, **options)
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
        raise asyncpg.ProtocolViolationError(f"{error}. {REMEDY_OF_POOLER}") from error


# For `Connection.lift_timeouts`, which lifts that of the client as well
NO_STATEMENT_TIMEOUT: LiteralString = "set local statement_timeout = 0"
# Which of these settings a session does not have: PgBouncer passes hardly any of them on
LACKING: LiteralString = """
select string_agg(w.name, ', ' order by w.name) from unnest($1::text[], $2::text[]) w (name, value)
left join pg_settings s on s.name = w.name
where coalesce(s.setting, current_setting(w.name, true)) is distinct from w.value
"""
REMEDY_OF_POOLER = (
    "PgBouncer needs the lines that `keyrack database pgbouncer` prints for these settings: copy them into its "
    "pgbouncer.ini, and restart it."
)
NOT_TOLD = (
    "The database's sessions lack what Keyrack sets at their start, or have other values: {lacking}. "
    f"{REMEDY_OF_POOLER}"
)


async def prepare(raw: asyncpg.Connection) -> None:
    """JSON that PostgreSQL has built goes out as the bytes that came; JSON for it comes in as Python values.

    A time is the time that it is: asyncpg's own codecs take the first and the last that Python has for infinity.
    """
    await raw.set_type_codec("json", schema="pg_catalog", encoder=_dump, decoder=bytes, format="binary")
    await raw.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads, format="text")
    await raw.set_type_codec("timestamptz", schema="pg_catalog", encoder=_sent, decoder=_received, format="tuple")
    await raw.set_type_codec("date", schema="pg_catalog", encoder=_sent_day, decoder=_received_day, format="tuple")


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's
_MICROSECOND = timedelta(microseconds=1)


def _sent(time: datetime) -> tuple[int]:
    return ((time - _EPOCH) // _MICROSECOND,)


def _received(microseconds: tuple[int]) -> datetime:
    return _EPOCH + microseconds[0] * _MICROSECOND


def _sent_day(day: date) -> tuple[int]:
    return (day.toordinal() - _EPOCH.toordinal(),)


def _received_day(days: tuple[int]) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days[0])
