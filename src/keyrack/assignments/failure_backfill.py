"""Backfill of error codes for operations that failed before codes existed."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.row_batches import run_in_batches

# `failure_code` returns null for an unknown text; its row keeps no code
FILL: LiteralString = """
with filled as (
  update operation o set error_code = failure_code(o.error_message)
  from (
    select customer_id, operation_id from operation
    where state = 'Failed' and error_code is null and failure_code(error_message) is not null
    limit $1 for no key update skip locked) p
  where o.customer_id = p.customer_id and o.operation_id = p.operation_id returning 1)
select count(*) from filled
"""


async def fill(db: Database, settings: Settings) -> None:
    """Store the codes of failed operations that have none. A step of housekeeping."""
    await run_in_batches(db, settings.housekeeping_rows, FILL)
