"""Compares the rows of both sides.

Each table has a count and a checksum. It runs while no row can change, or in snapshots. The checksum does not depend on
the order of the rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import LiteralString

from keyrack.ops.cells.changed_rows import ChangedRows
from keyrack.ops.cells.side import MoveRefused, Side

AT_ONCE = 5_000  # changed rows of one statement

# $1: tables, $2: the customer, or null for all rows. The first 60 bits of MD5 are added up. `of_keys` has the rows with
# the primary keys of its parameter, a list of JSON objects
QUERIES: LiteralString = """
select name, every, format('%s%s (%s) in (select %s from jsonb_populate_recordset(null::%s, $1::text::jsonb))', every,
  case when $2::integer is null then ' where' else ' and' end, key, key, name::regclass) as of_keys
from unnest($1::text[]) name cross join lateral (
  select format('select count(*)::bigint as rows,'
    ' coalesce(sum((''x'' || left(md5(row(%s)::text), 15))::bit(60)::bigint), 0)::text as checksum from %s%s',
    string_agg(quote_ident(attname), ', ' order by attname), name::regclass, ' where customer_id = ' || $2::integer)
  from pg_attribute where attrelid = name::regclass and attnum > 0 and not attisdropped) c (every)
cross join lateral (
  select string_agg(quote_ident(attname), ', ' order by attname)
  from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
  where i.indrelid = name::regclass and i.indisprimary) k (key)
order by name
"""


@dataclass(frozen=True, slots=True)
class TableSum:
    """The number of rows of a table, and their checksum."""

    table: str
    rows: int
    checksum: str


@dataclass(frozen=True, slots=True)
class TableQueries:
    """The statements that compare a table."""

    table: str
    every: str
    of_keys: str

    async def sum_every(self, side: Side) -> TableSum:
        """Count and checksum of all rows."""
        return TableSum(self.table, *(await side.fetch(self.every))[0])

    async def sum_of_keys(self, side: Side, keys: str) -> TableSum:
        """Count and checksum of the rows with these keys."""
        return TableSum(self.table, *(await side.fetch(self.of_keys, keys))[0])


@dataclass(frozen=True, slots=True)
class Comparison:
    """A prepared comparison: only the reading takes time while writes are held."""

    queries: list[TableQueries]

    @classmethod
    async def of(cls, source: Side, tables: list[str], customer: int | None) -> Comparison:
        """The comparison of these tables; with a customer, only of its rows."""
        return cls([TableQueries(*row) for row in await source.fetch(QUERIES, tables, customer)])

    async def compare_all(self, source: Side, target: Side, report: Callable[[TableSum], None]) -> list[TableSum]:
        """Compare all rows; report each table. Raises `MoveRefused` with the tables that differ."""
        sums: list[TableSum] = []
        different: list[str] = []
        for query in self.queries:
            ours, theirs = await asyncio.gather(query.sum_every(source), query.sum_every(target))
            if ours != theirs:
                different.append(query.table)
            report(theirs)
            sums.append(theirs)
        _refuse_different(different, source, target)
        return sums

    async def compare_changed(self, source: Side, target: Side, changes: ChangedRows) -> None:
        """Compare the changed rows. Raises `MoveRefused` with the tables that differ."""
        different: list[str] = []
        for query in self.queries:
            keys = iter(changes.get(query.table, ()))
            while batch := list(islice(keys, AT_ONCE)):
                text = f"[{', '.join(batch)}]"
                ours, theirs = await asyncio.gather(query.sum_of_keys(source, text), query.sum_of_keys(target, text))
                if ours != theirs:
                    different.append(query.table)
        _refuse_different(different, source, target)

    async def prepare(self, source: Side, target: Side) -> None:
        """Prepare the statements of changed rows in both sessions.

        They run without a key, since a first run takes longer.
        """
        for query in self.queries:
            await asyncio.gather(query.sum_of_keys(source, "[]"), query.sum_of_keys(target, "[]"))


def _refuse_different(tables: list[str], source: Side, target: Side) -> None:
    if tables:
        raise MoveRefused(
            f"The rows of {', '.join(dict.fromkeys(tables))} differ between the cells {source.cell.name} and "
            f"{target.cell.name}, so nothing is switched. Undo the move with `keyrack cells undo`, and begin again."
        )
