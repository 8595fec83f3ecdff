"""The search columns: filled for older rows, and their indexes.

A trigger fills the columns of each written row. Searches compute them for rows that are not filled yet.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.settings import Settings
from keyrack.db.connection import Database, Statements
from keyrack.db.row_batches import run_in_batches

# Table -> its key, and the condition of unfilled rows; large tables have an index for it
PENDING: dict[LiteralString, tuple[LiteralString, LiteralString]] = {
    "car": ("customer_id, car_id", "sort_key is null"),
    "person": ("user_id", "search_text is null"),
    "product": ("customer_id, product_id", "search_text is null"),
    "fleet_group": ("customer_id, group_id", "search_text is null"),
}
# The trigger computes the columns and ignores the given value
FILL: LiteralString = """
with filled as (
  update {table} set search_text = '' where ({key}) in (
    select {key} from {table} where {pending} limit $1 for no key update skip locked) returning 1)
select count(*) from filled
"""
INDEXES: dict[str, LiteralString] = {
    "car_search": "create index concurrently car_search on car using gin (customer_id, search_text gin_trgm_ops)",
    "person_search": "create index concurrently person_search on person using gin (search_text gin_trgm_ops)",
}
MISSING: LiteralString = "select name from unnest($1::text[]) name where to_regclass(name) is null order by 1"


async def fill(db: Database, settings: Settings) -> None:
    """Fill the columns of rows that an older release wrote. A housekeeping step."""
    for table, (key, pending) in PENDING.items():
        statement = FILL.replace("{table}", table).replace("{key}", key).replace("{pending}", pending)
        await run_in_batches(db, settings.housekeeping_rows, statement)


async def missing_indexes(statements: Statements) -> list[str]:
    """The statements that make the missing indexes; empty if the database has all."""
    return [INDEXES[row["name"]] for row in await statements.fetch(MISSING, list(INDEXES))]
