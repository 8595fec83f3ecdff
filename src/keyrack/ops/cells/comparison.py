"""Compares the rows of both sides.

Each table has a count and a checksum. It runs while no row can change. The checksum does not depend on the order of
the rows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import LiteralString

from keyrack.ops.cells.side import MoveRefused, Side

# $1: tables, $2: the customer, or null for all rows. The first 60 bits of MD5 are added up
QUERY: LiteralString = """
select string_agg(format('select %L as table, count(*)::bigint as rows,'
  ' coalesce(sum((''x'' || left(md5(row(%s)::text), 15))::bit(60)::bigint), 0)::text as checksum from %s%s',
  name, columns, name::regclass, ' where customer_id = ' || $2::integer), ' union all ' order by name)
from unnest($1::text[]) name cross join lateral (
  select string_agg(quote_ident(attname), ', ' order by attname) as columns from pg_attribute
  where attrelid = name::regclass and attnum > 0 and not attisdropped) c
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """The number of rows of a table, and their checksum."""

    table: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prepared comparison: only the reading takes time while writes are held."""

    query: str

    @classmethod
    async def of(cls, source: Side, tables: list[str], customer: int | None) -> Comparison:
        """The comparison of these tables; with a customer, only of its rows."""
        return cls(await source.fetchval(QUERY, tables, customer))

    async def run(self, source: Side, target: Side) -> list[TableSum]:
        """The sums of both sides. Raises `MoveRefused` with the tables that differ."""
        ours, theirs = await asyncio.gather(self._sums(source), self._sums(target))
        if different := [sum.table for sum, other in zip(ours, theirs, strict=True) if sum != other]:
            raise MoveRefused(
                f"The rows of {', '.join(different)} differ between the cells {source.cell.name} and "
                f"{target.cell.name}, so nothing is switched. Undo the move with `keyrack cells undo`, and begin again."
            )
        return theirs

    async def _sums(self, side: Side) -> list[TableSum]:
        sums = [TableSum(*row.values()) for row in await side.fetch(self.query)]
        return sorted(sums, key=lambda sum: sum.table)
