"""Options for the customers, roles and groups of a manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, LiteralString

import typer

from keyrack.api.permissions import Role
from keyrack.auth import owners
from keyrack.auth.owners import OWNER_LIMITED
from keyrack.cli.database_session import DatabaseSession
from keyrack.cli.output import CommandFailed
from keyrack.core.error_codes import NO_CUSTOMER
from keyrack.core.errors import Conflict, NotFound, on_constraint

JOIN: LiteralString = """
insert into manager_customer (customer_id, manager_id) select unnest($2::integer[]), $1 on conflict do nothing
"""
GIVE: LiteralString = """
insert into manager_role (customer_id, manager_id, role, groups, is_limited)
select unnest($2::integer[]), $1, $3, $4::integer[], $4 is not null
on conflict (customer_id, manager_id) do update set role = excluded.role,
  groups = case when $5 then null else coalesce(excluded.groups, manager_role.groups) end,
  is_limited = not $5 and coalesce(excluded.groups, manager_role.groups) is not null
"""
WHERE_OWNER: LiteralString = """
select array(select customer_id from manager_role where manager_id = $1 and role = 'Owner' order by 1)
"""
LEAVE: LiteralString = "delete from manager_customer where manager_id = $1 and customer_id = any($2::integer[])"
UNKNOWN: LiteralString = """
select id from unnest($1::integer[]) id where not exists (select from customer where customer_id = id) order by id
"""
HELD: LiteralString = """
select c as id from unnest($2::integer[]) c
where not exists (select from manager_customer where manager_id = $1 and customer_id = c) order by c
"""
# Invitations create accounts named by an address. A name without `@` was chosen by the operator
UNPROVEN: LiteralString = """
select username from manager m where manager_id = $1 and proven_at is null and username like '%@%' and exists (
  select from unnest($2::integer[]) c
  where not exists (select from manager_customer where manager_id = m.manager_id and customer_id = c))
for no key update
"""
GROUPS: LiteralString = """
select n.name, array(select group_id from fleet_group g
  where g.customer_id = $1 and (g.name = n.name or g.group_id::text = n.name) order by g.name = n.name) as found
from unnest($2::text[]) n (name)
"""

OfRole = typer.Option("--role", case_sensitive=False, help="The manager's role for these customers (docs/access.md).")
Limits = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="ID|NAME", help="Limit the role to this group of the customer. Repeatable."),
]
Whole = Annotated[bool, typer.Option("--whole-fleet", help="Remove the limit to groups.")]
Ownerless = Annotated[
    bool,
    typer.Option(
        "--leave-without-owner", help="Proceed even if this leaves a customer without an owner who may sign in."
    ),
]


async def owned(session: DatabaseSession, id: int) -> list[int]:
    """The customers that the manager owns. Their roles are locked until the transaction ends."""
    owned = await session.sql.fetchval(WHERE_OWNER, id)
    await owners.lock_roles(session.sql, *owned)
    return owned


async def check_owners(session: DatabaseSession, owned: list[int], *, ownerless: bool) -> None:
    """Raise `CommandFailed` if a customer would have no owner left.

    `ownerless` allows it.
    """
    if not ownerless and (without := await owners.find_customers_without_owner(session.sql, *owned)):
        raise CommandFailed(
            f"Customer {without[0]} would have no owner left who may sign in. Make another manager an owner first, or"
            " add --leave-without-owner."
        )


async def limits(session: DatabaseSession, customers: Sequence[int], groups: Sequence[str] | None) -> list[int] | None:
    """The ids of the named groups; None for the whole fleet. Raises `CommandFailed`."""
    if not groups:
        return None
    if len(customers) != 1:
        raise typer.BadParameter("--group needs exactly one --customer, because groups belong to one customer.")
    rows = await session.sql.fetch(GROUPS, customers[0], list(groups))
    for row in rows:
        if len(row["found"]) != 1:
            if row["found"]:
                raise CommandFailed(f"Customer {customers[0]} has several groups called {row['name']}. Use the id.")
            raise CommandFailed(f"Customer {customers[0]} has no group called {row['name']}.")
    return sorted({row["found"][0] for row in rows})


async def join(
    session: DatabaseSession,
    id: int,
    customers: list[int],
    role: Role,
    groups: list[int] | None,
    *,
    whole: bool = False,
) -> None:
    """Let a manager act for customers in a role, limited to groups. Raises `CommandFailed`.

    Without groups, an existing limit stays unless `whole` removes it. A manager whose address is not proven gets no
    further customer.
    """
    if unknown := await session.sql.fetch(UNKNOWN, customers):
        raise CommandFailed(f"There is no customer {', '.join(str(row['id']) for row in unknown)}.")
    if username := await session.sql.fetchval(UNPROVEN, id, customers):
        raise CommandFailed(
            f"The address of {username} is not proven, so the account cannot act for further customers. If the account"
            f" belongs to that person, prove the address first: keyrack manager prove {username}"
        )
    with on_constraint(
        {"manager_customer_customer_id_fkey": (NotFound, NO_CUSTOMER.with_text("A customer was removed meanwhile."))}
    ):
        await session.sql.execute(JOIN, id, customers)
        with on_constraint({"manager_role_owner": (Conflict, OWNER_LIMITED)}):
            await session.sql.execute(GIVE, id, customers, role, groups, whole)
