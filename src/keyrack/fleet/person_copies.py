"""Persons of other cells: found by address, and copied with their id.

A copy has the id, the seed and the master data of the person. A start password stays in the cell of its customer. Each
cell knows the others that have the person (`person_cell`), so that changes reach all of them (`person_changes`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import LiteralString

import asyncpg

from keyrack.core.errors import Unavailable
from keyrack.db.connection import Database, Row
from keyrack.db.other_cells import OtherCells
from keyrack.fleet.person_lookup import BY_ADDRESS

OWN_NUMBER: LiteralString = "select number from cell"
# Version 0: nothing has changed since the first copy was made. The update waits for a running erasure
TAKE: LiteralString = """
update person set version = coalesce(version, 0) where user_id = $1
returning user_id, email_address, address_form, first_name, last_name, type, created_at, seed, version
"""
ADD_CELLS: LiteralString = """
insert into person_cell (user_id, cell)
select user_id, unnest($2::integer[]) from person where user_id = $1 on conflict do nothing
"""
# The copy is deleted like any person without a customer unless the request makes the person a user. It has no version
# yet, so it gets its names by `APPLY`
COPY: LiteralString = """
insert into person (user_id, email_address, address_form, type, created_at, seed, left_at)
values ($1, $2, $3, $4, $5, $6, now()) on conflict do nothing
"""
# The greatest version wins
APPLY: LiteralString = """
update person set email_address = $2, address_form = $3, first_name = $4, last_name = $5, type = $6, version = $7,
  has_address_conflict = false
where user_id = $1 and (version is null or version < $7)
"""


async def ids_in_other_cells(other_cells: OtherCells, *forms: str, must_all_answer: bool = False) -> dict[int, int]:
    """The ids of other cells' persons with the address, by cell.

    `forms` are the two normal forms of `BY_ADDRESS`. A cell that does not answer is left out. It could have the person:
    with `must_all_answer`, raises `Unavailable` if there is such a cell, and the others have no such person.
    """
    rows = await other_cells.fetchrow_from_each(BY_ADDRESS, *forms)
    ids = {number: row[0] for number, row in rows.items() if row is not None and row[0] is not None}
    if must_all_answer and not ids and len(rows) < len(other_cells.numbers):
        raise Unavailable
    return ids


async def copy_by_address(db: Database, other_cells: OtherCells, *forms: str) -> None:
    """Copy the person with the address from another cell.

    Nothing happens if this cell has such a person, or if no cell has one. If two cells have different persons with the
    address, the one with the lower id counts, as within a cell. Raises `Unavailable` if none is found and a cell does
    not answer.
    """
    if await db.fetchval(BY_ADDRESS, *forms) is not None:
        return
    ids = await ids_in_other_cells(other_cells, *forms, must_all_answer=True)
    if not ids:
        return
    user = min(ids.values())
    own_number: int = await db.fetchval(OWN_NUMBER)
    cells = [number for number, id in ids.items() if id == user]
    rows = [row for number in cells if (row := await _register(other_cells, number, user, own_number)) is not None]
    if rows:
        await _insert(db, max(rows, key=_version), cells)


async def _register(other_cells: OtherCells, number: int, user: int, own_number: int) -> Row | None:
    """Subscribe to the person's changes in another cell.

    Returns the row of the person, or None if it is gone. The cell knows of the copy before there is one, so that no
    change is lost in between.
    """
    async with other_cells.database(number) as database, database.transaction() as connection:
        row = await connection.fetchrow(TAKE, user)
        await connection.execute(ADD_CELLS, user, [own_number])
    return row


async def _insert(db: Database, row: Row, cells: list[int]) -> None:
    user, email, form, first_name, last_name, kind, created_at, seed, version = row.values()
    with suppress(asyncpg.UniqueViolationError):  # a new person has got the address meanwhile, and is found by it
        async with db.transaction() as connection:
            await connection.execute(COPY, user, email, form, kind, created_at, seed)
            # Also an older copy gets the present state: its changes may not have arrived yet
            await connection.execute(APPLY, user, email, form, first_name, last_name, kind, version)
            await connection.execute(ADD_CELLS, user, cells)


def _version(row: Row) -> int:
    return row["version"]
