"""Compares the rows of both sides: a count and a checksum for each table.

It runs while no row can change. The checksum does not depend on the order of the rows.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import LiteralString

from keyrack.ops.cells.plan import columns_of
from keyrack.ops.cells.side import Side

# $1: table, $2: columns, $3: the customer, or null for all rows. The first 60 bits of MD5 are added up
QUERY: LiteralString = """
select format('select count(*)::bigint as rows, coalesce(sum((''x'' || left(md5(row(%s)::text), 15))::bit(60)::bigint),'
  ' 0)::text as checksum from %s%s', string_agg(quote_ident(name), ', ' order by name), $1::text::regclass,
  case when $3::integer is not null then ' where customer_id = ' || $3 else '' end)
from unnest($2::text[]) name
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """The number of rows of a table, and their checksum."""

    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table in both cells."""

    table: str
    source: TableSum
    target: TableSum

    @property
    def is_equal(self) -> bool:
        return self.source == self.target


async def compare(source: Side, target: Side, tables: list[str], customer: int | None) -> list[ComparedTable]:
    """Compare these tables; with a customer, only its rows."""
    return [await _compare_table(source, target, table, customer) for table in tables]


async def _compare_table(source: Side, target: Side, table: str, customer: int | None) -> ComparedTable:
    columns = await columns_of(source, table)
    sums = await asyncio.gather(*(_sum(side, table, columns, customer) for side in (source, target)))
    return ComparedTable(table, *sums)


async def _sum(side: Side, table: str, columns: list[str], customer: int | None) -> TableSum:
    (row,) = await side.fetch(await side.fetchval(QUERY, table, columns, customer))
    return TableSum(row["rows"], row["checksum"])
