"""Persons of a moved customer, whom both cells have.

The source keeps a person until the move is finished, and longer if another customer of it has the person. Then a change
or an erasure in one cell must reach the other one.
"""

from __future__ import annotations

from typing import LiteralString

from keyrack.ops.cells.side import Side

USERS: LiteralString = "select coalesce(array_agg(user_id), '{}') from customer_user where customer_id = $1"
# Version 0: the person has not changed since two cells have it
SHARE: LiteralString = """
update person set version = coalesce(version, 0) where user_id = any($1::integer[]) and version is null
"""
CELLS: LiteralString = "select user_id, cell from person_cell where user_id = any($1::integer[]) and cell <> $2"
ADD_CELLS: LiteralString = """
insert into person_cell (user_id, cell) select p.user_id, c.cell
from unnest($1::integer[], $2::integer[]) c (user_id, cell) join person p using (user_id)
on conflict do nothing
"""
# A delivery has the cells of the person, so a third cell gets to know the target
QUEUE: LiteralString = """
select queue_person_changes(u.user_id) from unnest($1::integer[]) u (user_id)
where (select count(*) from person_cell c where c.user_id = u.user_id) > 1
"""
PASSWORDS: LiteralString = """
select user_id, password_hash from person where password_customer = $1 and password_hash is not null
"""
# The target may have had the person already, without the start password that this customer set
SET_PASSWORDS: LiteralString = """
update person p set password_hash = s.password_hash, password_customer = $3
from unnest($1::integer[], $2::text[]) s (user_id, password_hash) where p.user_id = s.user_id
"""


async def share_in_target(source: Side, target: Side, customer: int) -> None:
    """Register the other cells of the moved persons in the target.

    It runs in the target's transaction without triggers.
    """
    users: list[int] = await source.fetchval(USERS, customer)
    others = await source.fetch(CELLS, users, target.cell.number)
    await target.execute(SHARE, users)
    await target.execute(ADD_CELLS, users, [source.cell.number] * len(users))
    await target.execute(ADD_CELLS, [row["user_id"] for row in others], [row["cell"] for row in others])
    passwords = await source.fetch(PASSWORDS, customer)
    await target.execute(
        SET_PASSWORDS, [row["user_id"] for row in passwords], [row["password_hash"] for row in passwords], customer
    )


async def share_in_source(source: Side, target_number: int, customer: int) -> None:
    """Register the target in the source, in a transaction without triggers."""
    users: list[int] = await source.fetchval(USERS, customer)
    await source.execute(SHARE, users)
    await source.execute(ADD_CELLS, users, [target_number] * len(users))
    await source.execute(QUEUE, users)
