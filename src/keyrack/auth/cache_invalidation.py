"""Change numbers by which processes notice that access has changed."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.row_batches import run_in_batches

# Differs after every change of access, by any program; see the table's triggers
CHANGES: LiteralString = "select count(*), coalesce(sum(access_change_id), 0) from access_change"
FORGET_CHANGES: LiteralString = """
with gone as (delete from access_change where access_change_id = any(array(
  select access_change_id from access_change where at < now() - interval '1 hour' order by access_change_id limit $1))
  returning true)
select count(*) from gone
"""


async def forget_changes(db: Database, settings: Settings) -> None:
    """Delete changes older than an hour, which every process has seen. A housekeeping step."""
    await run_in_batches(db, settings.housekeeping_rows, FORGET_CHANGES)
