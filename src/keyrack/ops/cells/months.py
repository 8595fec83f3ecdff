"""Makes the monthly partitions of the source in the target."""

from __future__ import annotations

from typing import LiteralString

from keyrack.ops.cells.side import Side

# The names of partitions end with year and month
MONTHS: LiteralString = """
select distinct to_date(right(c.relname, 6), 'YYYYMM') as month from pg_class c
where c.relispartition and c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
  and c.relname ~ '_[0-9]{6}$'
"""
MAKE: LiteralString = "select make_history(month), make_changes(month) from unnest($1::date[]) month order by month"


async def make_months(source: Side, target: Side) -> None:
    """Make the missing partitions for the months of the source."""
    await target.fetch(MAKE, [row["month"] for row in await source.fetch(MONTHS)])
