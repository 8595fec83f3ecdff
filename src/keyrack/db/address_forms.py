"""The column `address_form`: lookups by it in SQL, and its filling in batches.

`core.addresses` defines the normal form. A row without a form was written by the release before this column. If two
rows have one form, the row with the lower key has the address. The other row is marked by `has_address_conflict`, and
no address finds it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import LiteralString

import structlog

from keyrack.core.addresses import address_form
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, Statements

log = structlog.get_logger("keyrack.addresses")

# Under the collation "C", `lower()` folds only A to Z, as a normal form does. The other `lower()` is there for the
# index. A row without a form is not found if its text differs in more, such as in the notation of its domain.
ROW: LiteralString = """
(select min({key}) from (
  select {key} from {table} where address_form = {form} and not has_address_conflict
  union all select {key} from {table} where address_form is null
    and lower({text}) = lower({form}) and lower({text} collate "C") = {form}) same_address)
"""
PENDING: LiteralString = """
select {key} as id, {text} as text from {table} where address_form is null order by {key} limit $1
for update skip locked
"""
# A row with a lower key takes its form back from one with a higher key
GIVE_WAY: LiteralString = """
update {table} later set has_address_conflict = true{mark}
from unnest($1::integer[], $2::text[]) given (id, form)
where later.address_form = given.form and not later.has_address_conflict and later.{key} > given.id
returning later.{key} as id
"""
FILL: LiteralString = """
update {table} r set address_form = given.form, has_address_conflict = given.is_later{fill_mark}
from (
  select id, form, row_number() over (partition by form order by id) > 1 or exists (
    select from {table} h where h.address_form = form and not h.has_address_conflict and h.{key} < id) as is_later
  from unnest($1::integer[], $2::text[]) pending (id, form)) given
where r.{key} = given.id returning r.{key} as id, given.is_later
"""
# No other row holds the address any more, and no marked row with a lower key has it
RESOLVE: LiteralString = """
update {table} r set has_address_conflict = false
where has_address_conflict and not exists (
  select from {table} o where o.address_form = r.address_form and o.{key} <> r.{key}
    and (not o.has_address_conflict or o.{key} < r.{key}))
"""
CONFLICTS: LiteralString = """
select marked.{key} as id, marked.{text} as address, holder.{key} as holder, holder.{text} as holder_address
from {table} marked left join {table} holder
  on holder.address_form = marked.address_form and not holder.has_address_conflict
where marked.has_address_conflict order by 1 limit $1
"""


@dataclass(frozen=True, slots=True)
class AddressTable:
    """A table whose rows have an address, and its columns."""

    table: LiteralString
    key: LiteralString
    text: LiteralString
    is_disabled_by_conflict: bool = False

    def key_by_form(self, form: LiteralString) -> LiteralString:
        """SQL of the key of the row with the normal form `form`, or null."""
        return self._sql(ROW.strip()).replace("{form}", form)

    def _sql(self, statement: LiteralString) -> LiteralString:
        mark: LiteralString = ", is_disabled = true" if self.is_disabled_by_conflict else ""
        fill_mark: LiteralString = (
            ", is_disabled = r.is_disabled or given.is_later" if self.is_disabled_by_conflict else ""
        )
        return (
            statement.replace("{table}", self.table)
            .replace("{key}", self.key)
            .replace("{text}", self.text)
            .replace("{mark}", mark)
            .replace("{fill_mark}", fill_mark)
        )

    async def fill(self, db: Database, settings: Settings) -> None:
        """Fill the missing forms in batches, then clear resolved conflicts. A housekeeping step."""
        rows = settings.housekeeping_rows
        batches, filled = 0, rows
        while filled >= rows:
            async with db.transaction() as connection:
                filled = await self._fill_batch(connection, rows)
            batches += 1
            if batches == 1 and filled == rows:  # the planner does not know yet that most rows have no form
                await db.execute(self._sql("analyze {table} (address_form)"))
        await db.execute(self._sql(RESOLVE))

    async def conflicts(self, statements: Statements, limit: int) -> list[Row]:
        """The marked rows, each with the row that has the address: id, address, holder, holder_address."""
        return await statements.fetch(self._sql(CONFLICTS), limit)

    async def _fill_batch(self, connection: Connection, rows: int) -> int:
        pending = await connection.fetch(self._sql(PENDING), rows)
        ids, forms = [row["id"] for row in pending], [address_form(row["text"]) for row in pending]
        marked = [row["id"] for row in await connection.fetch(self._sql(GIVE_WAY), ids, forms)]
        marked += [row["id"] for row in await connection.fetch(self._sql(FILL), ids, forms) if row["is_later"]]
        if marked:
            log.error("address conflict", alert=True, table=self.table, ids=sorted(marked))
        return len(pending)
