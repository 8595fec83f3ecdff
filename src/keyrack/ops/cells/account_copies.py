"""Copies accounts, and rows that give access, at the switch."""

from __future__ import annotations

from io import BytesIO
from typing import LiteralString
from uuid import UUID

from keyrack.ops.cells.plan import ACCOUNTS, SHORT_LIVED, SWITCHED
from keyrack.ops.cells.side import Side

# For each table $1: the rows `t` with condition $2 of customer $4, without the column $3, whose ids the target gives.
# Most tables have none, which one statement of all `probe` finds out
COPIES: LiteralString = """
select c.name, c.columns, format('select %s from %s t where %s', c.list, c.name::regclass, c.condition) as query,
  format('select %L where exists (select from %s t where %s)', c.name, c.name::regclass, c.condition) as probe,
  format('create temporary table moved on commit drop as select %s from %s limit 0', c.list, c.name::regclass) as make,
  format('insert into %s (%s) overriding system value select %s from moved on conflict do nothing',
    c.name::regclass, c.list, c.list) as insert
from (
  select w.name, replace(w.condition, '$1', ($4::integer)::text) as condition, w.place,
    array_agg(attname::text order by attname) as columns,
    string_agg(quote_ident(attname), ', ' order by attname) as list
  from unnest($1::text[], $2::text[], $3::text[]) with ordinality w (name, condition, own_id, place)
  join pg_attribute on attrelid = w.name::regclass and attnum > 0 and not attisdropped
    and attname is distinct from w.own_id
  group by w.name, w.condition, w.place) c
order by c.place
"""
# Deletes the rows of each table $1 with condition $2 of customer $3, and keeps them for move $4
DELETIONS: LiteralString = """
select string_agg(format('with gone as (delete from %s t where %s returning to_jsonb(t) as content)'
  ' insert into cell_move_kept_row (move_id, table_name, content) select %L, %L, content from gone', w.name::regclass,
  replace(w.condition, '$1', ($3::integer)::text), $4::uuid, w.name), '; ' order by w.place)
from unnest($1::text[], $2::text[]) with ordinality w (name, condition, place)
"""
DROP: LiteralString = "drop table moved"
PROVIDERS: LiteralString = "select name, provider_id from provider"
MAP_PROVIDERS: LiteralString = """
update moved m set provider_id = p.target from unnest($1::integer[], $2::integer[]) p (source, target)
where m.provider_id = p.source
"""
OF_CUSTOMER: LiteralString = "customer_id = $1"
# An earlier move may have left a person here that no customer has any more
DELETE_LEFT_PERSONS: LiteralString = """
delete from person p using moved m where p.user_id = m.user_id
and not exists (select from customer_user u where u.user_id = p.user_id and u.customer_id <> $1)
"""


async def copy_accounts(source: Side, target: Side, customer: int) -> None:
    """Copy accounts and rows of `SWITCHED` in the target's transaction without triggers.

    A row that the target has already stays, such as a person who is a user of another customer there.
    """
    tables = {account.name: (account.copied, account.own_id) for account in ACCOUNTS}
    tables |= dict.fromkeys(SWITCHED, (OF_CUSTOMER, None))
    conditions, own_ids = zip(*tables.values(), strict=True)
    providers = await _provider_map(source, target)
    copies = await source.fetch(COPIES, list(tables), list(conditions), list(own_ids), customer)
    filled = {row[0] for row in await source.fetch(" union all ".join(copy["probe"] for copy in copies))}
    for copy in copies:
        if copy["name"] not in filled:
            continue
        rows = BytesIO()
        await source.raw.copy_from_query(copy["query"], output=rows)
        rows.seek(0)
        await target.execute(copy["make"])
        await target.raw.copy_to_table("moved", source=rows, columns=copy["columns"])
        if "provider_id" in copy["columns"]:
            await target.execute(MAP_PROVIDERS, list(providers), list(providers.values()))
        if copy["name"] == "person":
            await target.execute(DELETE_LEFT_PERSONS, customer)
        await target.execute(copy["insert"])
        await target.execute(DROP)


async def delete_moved(source: Side, move: UUID, customer: int) -> None:
    """Delete the same rows in the source, in its transaction without triggers. `kept_rows` can bring them back."""
    conditions = SHORT_LIVED | {account.name: account.deleted for account in ACCOUNTS if account.deleted is not None}
    conditions |= dict.fromkeys(SWITCHED, OF_CUSTOMER)  # last: the conditions of accounts read these tables
    await source.execute(await source.fetchval(DELETIONS, list(conditions), list(conditions.values()), customer, move))


async def _provider_map(source: Side, target: Side) -> dict[int, int]:
    """The target's provider with the same name, for each of the source."""
    there = {row["name"]: row["provider_id"] for row in await target.fetch(PROVIDERS)}
    return {row["provider_id"]: there[row["name"]] for row in await source.fetch(PROVIDERS) if row["name"] in there}
