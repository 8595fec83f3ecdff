"""Copies rows from one cell to the other at the switch: accounts, and the rows that give access."""

from __future__ import annotations

from io import BytesIO
from typing import LiteralString

from keyrack.ops.cells.plan import ACCOUNTS, SHORT_LIVED, SWITCHED, columns_of
from keyrack.ops.cells.side import Side

# $1: table, $2: columns, $3: condition
SELECT: LiteralString = """
select format('select %s from %s t where %s', string_agg(quote_ident(name), ', ' order by name), $1::text::regclass,
  $3::text) from unnest($2::text[]) name
"""
DELETE: LiteralString = "select format('delete from %s t where %s', $1::text::regclass, $2::text)"
MAKE: LiteralString = "select format('create temporary table moved (like %s) on commit drop', $1::text::regclass)"
LOOSEN: LiteralString = """
select format('alter table moved alter %I drop not null', attname) from pg_attribute
where attrelid = 'moved'::regclass and attnum > 0 and attnotnull
"""
# A row that the target has already stays, such as a person who is a user of another customer there
INSERT: LiteralString = """
select format('insert into %1$s (%2$s) overriding system value select %2$s from moved on conflict do nothing',
  $1::text::regclass, string_agg(quote_ident(name), ', ' order by name)) from unnest($2::text[]) name
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
    """Copy the accounts of the customer, in the target's transaction without triggers."""
    providers = await _provider_map(source, target)
    for account in ACCOUNTS:
        columns = [name for name in await columns_of(source, account.name) if name != account.own_id]
        await _copy(source, target, account.name, columns, account.copied, customer, providers)


async def copy_switched(source: Side, target: Side, customer: int) -> None:
    """Copy the rows that give access or cause work, in the target's transaction without triggers."""
    for table in SWITCHED:
        await _copy(source, target, table, await columns_of(source, table), OF_CUSTOMER, customer, {})


async def delete_moved(source: Side, customer: int) -> None:
    """Delete accounts and rows that give access in the source, in its transaction without triggers."""
    conditions = SHORT_LIVED | {account.name: account.deleted for account in ACCOUNTS if account.deleted is not None}
    conditions |= dict.fromkeys(SWITCHED, OF_CUSTOMER)  # last: the conditions of accounts read these tables
    for table, condition in conditions.items():
        await source.execute(await source.fetchval(DELETE, table, condition), customer)


async def _copy(
    source: Side, target: Side, table: str, columns: list[str], condition: str, customer: int, providers: dict[int, int]
) -> None:
    rows = BytesIO()
    query = await source.fetchval(SELECT, table, columns, condition)
    parameters = (customer,) if "$1" in condition else ()  # keys of the API belong to no customer
    await source.raw.copy_from_query(query, *parameters, output=rows)
    rows.seek(0)
    await target.execute(await target.fetchval(MAKE, table))
    for row in await target.fetch(LOOSEN):
        await target.execute(row[0])
    await target.raw.copy_to_table("moved", source=rows, columns=columns)
    if "provider_id" in columns:
        await target.execute(MAP_PROVIDERS, list(providers), list(providers.values()))
    if table == "person":
        await target.execute(DELETE_LEFT_PERSONS, customer)
    await target.execute(await target.fetchval(INSERT, table, columns))
    await target.execute(DROP)


async def _provider_map(source: Side, target: Side) -> dict[int, int]:
    """The target's provider of single sign-on with the same name, for each of the source."""
    there = {row["name"]: row["provider_id"] for row in await target.fetch(PROVIDERS)}
    return {row["provider_id"]: there[row["name"]] for row in await source.fetch(PROVIDERS) if row["name"] in there}
