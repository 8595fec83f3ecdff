"""Settings of every database session, and the codecs between Python and PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any, LiteralString

import asyncpg

from keyrack.core.settings import Settings

# The same values in each session, whatever the defaults of the server, database or role are. Answers, signed bodies and
# exports depend on the first group, the meaning of a statement on the second. The third group turns off time limits.
# `default_transaction_read_only` is left out: operators freeze a database with it.
BASE: Mapping[str, str] = {
    "TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres", "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on", "default_transaction_isolation": "read committed",
    "statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}  # fmt: skip
# Keyrack's own settings: a session or transaction passes values to triggers and statements beside their parameters
OWN: Mapping[str, str] = {
    "keyrack.brand": "The brand of the installation, which is part of a product's type.",
    "keyrack.public_url": "The public address of the server, for links in answers.",
    "keyrack.records": "The release names the actor of each change. Releases up to 0.2.0 do not set it.",
    "keyrack.who": "The actor that triggers record with each change: JSON in base64.",
    "keyrack.scope": "The group scope of the actor: what a group-limited manager creates joins its groups.",
    "keyrack.operations": "The operations by assignment: a change of an assignment is recorded on their behalf.",
    "keyrack.phone_actors": "The actor of each phone whose keys the transaction signs, with those of other phones.",
    "keyrack.moved_customer": "The customer that the session moves to another cell, so its rows are not guarded.",
    "keyrack.removed_customer": "The customer whose rows `keyrack customer remove` deletes.",
}
# The settings of `BASE` that PgBouncer itself keeps for each client
KEPT_BY_POOLER = frozenset(("TimeZone", "DateStyle", "standard_conforming_strings"))


def session(settings: Settings) -> dict[str, str]:
    """The session parameters of the API and the workers; SQL reads `keyrack.*` with `current_setting`."""
    return {
        **BASE,
        "jit": "off",
        "statement_timeout": str(int(settings.statement_timeout_seconds * 1000)),
        "lock_timeout": str(int(settings.lock_timeout_seconds * 1000)),
        "idle_in_transaction_session_timeout": "15000",  # a client that vanishes must not keep its locks
        "keyrack.brand": settings.brand,
        "keyrack.records": "on",  # it sets the actor, which releases up to 0.2.0 do not
        "keyrack.who": "",  # no actor yet, whatever default the server has
        "keyrack.public_url": settings.public_url,
    }


async def open_session(
    dsn: str, *, server_settings: Mapping[str, str] | None = None, **options: Any
) -> asyncpg.Connection:
    """Connect to PostgreSQL with the parameters of `BASE`, unless `server_settings` overrides them.

    `options` are those of `asyncpg.connect`. Raises its errors. If a pooler rejects a parameter, the error ends with
    the remedy.
    """
    try:
        return await asyncpg.connect(dsn, server_settings={**BASE, **(server_settings or {})}, **options)
    except asyncpg.ProtocolViolationError as error:
        if "startup parameter" not in str(error):
            raise
        raise asyncpg.ProtocolViolationError(f"{error}. {REMEDY_OF_POOLER}") from error


# For `Connection.lift_timeouts`, which lifts the client's timeout as well
NO_STATEMENT_TIMEOUT: LiteralString = "set local statement_timeout = 0"
# The settings that a session lacks: PgBouncer passes on hardly any of them
LACKING: LiteralString = """
select string_agg(w.name, ', ' order by w.name) from unnest($1::text[], $2::text[]) w (name, value)
left join pg_settings s on s.name = w.name
where coalesce(s.setting, current_setting(w.name, true)) is distinct from w.value
"""
REMEDY_OF_POOLER = (
    "PgBouncer needs the lines that `keyrack database pgbouncer` prints for these settings: copy them into its "
    "pgbouncer.ini, and restart it."
)
WRONG_SETTINGS = (
    "The database's sessions lack settings that Keyrack sends at their start, or have other values: {lacking}. "
    f"{REMEDY_OF_POOLER}"
)


async def prepare(raw: asyncpg.Connection) -> None:
    """Set the codecs of a connection for JSON, times and days.

    `json` is read as bytes, so that PostgreSQL's JSON reaches responses unchanged. `jsonb` is read as Python values.
    Both are written from Python values. Times and days convert exactly. asyncpg's own codecs turn the first and the
    last value that Python has into infinity.
    """
    await raw.set_type_codec("json", schema="pg_catalog", encoder=_dump, decoder=bytes, format="binary")
    await raw.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads, format="text")
    await raw.set_type_codec("timestamptz", schema="pg_catalog", encoder=_sent, decoder=_received, format="tuple")
    await raw.set_type_codec("date", schema="pg_catalog", encoder=_sent_day, decoder=_received_day, format="tuple")


def _dump(value: object) -> bytes:
    return json.dumps(value).encode()


_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)  # PostgreSQL's epoch
_MICROSECOND = timedelta(microseconds=1)


def _sent(time: datetime) -> tuple[int]:
    return ((time - _EPOCH) // _MICROSECOND,)


def _received(microseconds: tuple[int]) -> datetime:
    return _EPOCH + microseconds[0] * _MICROSECOND


def _sent_day(day: date) -> tuple[int]:
    return (day.toordinal() - _EPOCH.toordinal(),)


def _received_day(days: tuple[int]) -> date:
    return date.fromordinal(_EPOCH.toordinal() + days[0])
