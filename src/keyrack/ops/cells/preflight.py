"""Checks before a move changes anything. Each refusal names the remedy."""

from __future__ import annotations

from typing import Any, LiteralString

from keyrack.db.cell_identity import WrongCell, require_identity
from keyrack.ops.cells.plan import OF_CUSTOMER
from keyrack.ops.cells.side import MoveRefused, Side

WAL_LEVEL: LiteralString = "select current_setting('wal_level')"
IS_SUPERUSER: LiteralString = "select rolsuper from pg_roles where rolname = current_user"
REVISION: LiteralString = "select version_num from alembic_version"
FREE_SLOTS: LiteralString = """
select current_setting('max_replication_slots')::integer - (select count(*) from pg_replication_slots)::integer
"""
NEEDED_SLOTS = 3  # the move's own, and two for tables that are being copied
HAS_DATA_KEYS: LiteralString = "select exists (select from data_key)"
# $1: customer. Accounts that also belong to other customers of the source
SHARED_MANAGERS: LiteralString = """
select m.username as name, array_agg(o.customer_id order by o.customer_id) as customers from manager_customer c
join manager m using (manager_id)
join manager_customer o on o.manager_id = c.manager_id and o.customer_id <> c.customer_id
where c.customer_id = $1 group by m.username order by m.username
"""
SHARED_CLIENTS: LiteralString = """
select m.name, array_agg(o.customer_id order by o.customer_id) as customers from client_customer c
join client m using (client_id)
join client_customer o on o.client_id = c.client_id and o.customer_id <> c.customer_id
where c.customer_id = $1 group by m.name order by m.name
"""
MANAGERS: LiteralString = """
select manager_id as id, address_form as form from manager
where manager_id in (select manager_id from manager_customer where customer_id = $1)
"""
SAME_MANAGERS: LiteralString = """
select username as name from manager m join unnest($1::integer[], $2::text[]) s (id, form)
  on m.address_form = s.form and m.manager_id <> s.id order by 1
"""
PERSONS: LiteralString = """
select user_id as id, address_form as form from person
where user_id in (select user_id from customer_user where customer_id = $1)
"""
SAME_PERSONS: LiteralString = """
select email_address as name from person p join unnest($1::integer[], $2::text[]) s (id, form)
  on p.address_form = s.form and p.user_id <> s.id order by 1
"""
PROVIDERS: LiteralString = """
select p.name from provider p where exists (
  select from manager_identity i join manager_customer c using (manager_id)
  where i.provider_id = p.provider_id and c.customer_id = $1)
or exists (
  select from driver_identity i join driver_access a using (user_id)
  where i.provider_id = p.provider_id and a.customer_id = $1)
or p.driver_customer_id = $1
"""
PROVIDER_NAMES: LiteralString = "select name from provider"
API_KEYS: LiteralString = """
select api_key_id as id, name, hash, revoked_at is not null as is_revoked from api_key order by api_key_id
"""
HAS_ROWS: LiteralString = """
select format('select exists (select from %s where customer_id = $1)', $1::text::regclass)
"""


async def check_identities(source: Side, target: Side) -> None:
    """Check that both databases are the cells of the settings. Raises `MoveRefused`."""
    for side in (source, target):
        try:
            await require_identity(side, side.cell)
        except WrongCell as wrong:
            raise MoveRefused(str(wrong)) from None


async def check_servers(source: Side, target: Side) -> None:
    """Check schema and settings of two cells. Raises `MoveRefused`."""
    for side in (source, target):
        if not await side.fetchval(HAS_DATA_KEYS):
            raise MoveRefused(f"Cell {side.cell.name} has no data key yet. Start a server or worker for it once.")
    await check_wal(source)
    await check_revisions(source, target)


async def check_roles(source: Side, target: Side) -> None:
    """Check that both roles may replicate, and write without triggers. Raises `MoveRefused`."""
    for side in (source, target):
        if not await side.fetchval(IS_SUPERUSER):
            raise MoveRefused(
                f"The role of cell {side.cell.name} is no superuser, which a move needs in both databases until it is "
                "finished or undone. Run `alter role ... superuser` as another superuser, and `alter role ... "
                "nosuperuser` after `keyrack cells finish`."
            )


async def changed_keys(source: Side, target: Side) -> list[dict[str, Any]]:
    """The API keys of the target that only one cell has revoked.

    The copy of a key does not change a row that the target has already.
    """
    is_revoked = {row["hash"]: row["is_revoked"] for row in await source.fetch(API_KEYS)}
    return [
        {"apiKey": row["id"], "name": row["name"], "cell": target.cell.name, "isRevoked": row["is_revoked"]}
        for row in await target.fetch(API_KEYS)
        if row["is_revoked"] != is_revoked.get(row["hash"], row["is_revoked"])
    ]


async def check_wal(source: Side) -> None:
    """Check that the source can replicate logically. Raises `MoveRefused`."""
    if (level := await source.fetchval(WAL_LEVEL)) != "logical":
        raise MoveRefused(
            f"Cell {source.cell.name} has wal_level = {level}, but a move needs logical. Set `wal_level = logical`, "
            "and restart its PostgreSQL."
        )
    if (free := await source.fetchval(FREE_SLOTS)) < NEEDED_SLOTS:
        raise MoveRefused(
            f"Cell {source.cell.name} has {free} free replication slots, but a move needs {NEEDED_SLOTS}. Raise "
            "`max_replication_slots` and `max_wal_senders`, and restart its PostgreSQL."
        )


async def check_revisions(source: Side, target: Side) -> None:
    """Check that both databases have the same schema. Raises `MoveRefused`."""
    revisions = [await side.fetchval(REVISION) for side in (source, target)]
    if revisions[0] != revisions[1]:
        raise MoveRefused(
            f"Cell {source.cell.name} has schema {revisions[0]}, cell {target.cell.name} has {revisions[1]}. Run "
            "`keyrack migrate` first."
        )


async def check_customer(source: Side, target: Side, customer: int) -> None:
    """Check that the customer fits into the target. Raises `MoveRefused`."""
    await check_accounts(source, customer)
    for rows, same, what in (
        (MANAGERS, SAME_MANAGERS, "a manager with the user name"),
        (PERSONS, SAME_PERSONS, "another person with the address"),
    ):
        found = await source.fetch(rows, customer)
        conflicts = await target.fetch(same, [row["id"] for row in found], [row["form"] for row in found])
        if conflicts:
            names = ", ".join(row["name"] for row in conflicts)
            raise MoveRefused(f"Cell {target.cell.name} has {what} {names}. Rename or remove one of the two first.")
    here = {row["name"] for row in await target.fetch(PROVIDER_NAMES)}
    if missing := [row["name"] for row in await source.fetch(PROVIDERS, customer) if row["name"] not in here]:
        raise MoveRefused(
            f"Cell {target.cell.name} lacks the provider {', '.join(missing)} for single sign-on. Add it with "
            "`keyrack provider add` first."
        )
    await _refuse_leftovers(target, customer)


async def check_accounts(side: Side, customer: int) -> None:
    """Check that accounts of the customer work for no other one. Raises `MoveRefused`."""
    await _refuse_shared(side, customer, SHARED_MANAGERS, "Manager", "keyrack manager change")
    await _refuse_shared(side, customer, SHARED_CLIENTS, "Client", "keyrack client change")


async def _refuse_shared(source: Side, customer: int, sql: LiteralString, noun: str, remedy: str) -> None:
    for row in await source.fetch(sql, customer):
        others = ", ".join(map(str, row["customers"]))
        raise MoveRefused(
            f"{noun} {row['name']} also works for customer {others} of cell {source.cell.name}, and can work in one "
            f"cell only. Run `{remedy} {row['name']} --remove-customer {customer}`, and give the customer an account "
            "of its own."
        )


async def _refuse_leftovers(target: Side, customer: int) -> None:
    for row in await target.fetch(OF_CUSTOMER):
        if await target.fetchval(await target.fetchval(HAS_ROWS, row["name"]), customer):
            raise MoveRefused(
                f"Cell {target.cell.name} still has rows of customer {customer} in {row['name']}, of an earlier move. "
                f"Run `keyrack cells finish {customer}` first."
            )
