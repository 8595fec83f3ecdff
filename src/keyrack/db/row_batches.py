"""In charge of changing many rows: a piece at a time, each in a transaction of its own, so that nobody waits for it."""

from __future__ import annotations

from typing import LiteralString

import asyncpg

from keyrack.db.connection import Database

FEWEST = 50  # rows of a piece; one that cannot be done in the time of a statement either is an error


async def run_in_batches(db: Database, rows: int, sql: LiteralString, *args: object) -> None:
    """Repeat a statement until it finds nothing more: it takes the size of a piece as its last parameter and returns
    how many rows it has changed. A piece for which a statement's time is too short is tried again with half the rows.
    """
    changed = rows
    while changed >= rows:
        try:
            changed = await db.fetchval(sql, *args, rows)
        except asyncpg.QueryCanceledError:
            if rows <= FEWEST:
                raise
            changed = rows = max(FEWEST, rows // 2)
