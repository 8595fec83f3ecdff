"""Changes many rows in batches.

Each batch is its own transaction, so that no other session waits long.
"""

from __future__ import annotations

from typing import LiteralString

import asyncpg

from keyrack.db.connection import Database

FEWEST = 50  # rows of the smallest batch; if that times out as well, it is an error


async def run_in_batches(db: Database, rows: int, sql: LiteralString, *args: object) -> None:
    """Repeat a statement until it changes less than a full batch.

    The statement takes the batch size as its last parameter and returns the number of changed rows. A batch that times
    out is retried with half the rows.
    """
    changed = rows
    while changed >= rows:
        try:
            changed = await db.fetchval(sql, *args, rows)
        except asyncpg.QueryCanceledError:
            if rows <= FEWEST:
                raise
            changed = rows = max(FEWEST, rows // 2)
