"""A session without PgBouncer, in one read-only transaction."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import LiteralString

import asyncpg

from keyrack.core.settings import Settings
from keyrack.db.replication.primary_connector import PrimaryConnector


@asynccontextmanager
async def read_only_session(
    address: str, settings: Settings, *, application: str, seconds: float, begin: LiteralString
) -> AsyncGenerator[asyncpg.Connection]:
    """A connection in a transaction, which is rolled back at the end.

    `begin` is its first statement, and `seconds` the maximum duration of a statement. Raises the errors of
    asyncpg.
    """
    raw = await PrimaryConnector(address, settings).connect(
        server_settings={"application_name": application},
        statement_cache_size=settings.statement_cache,
        command_timeout=seconds,
    )
    try:
        await raw.execute(begin)
        yield raw
    finally:
        raw.terminate()
