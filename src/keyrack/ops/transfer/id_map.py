"""Old and new ids of imported rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import LiteralString

from keyrack.db.connection import Statements
from keyrack.ops.transfer.record_types import RecordType

KNOWN: LiteralString = """
select old_id, new_id from imported_id where customer_id = $1 and kind = $2 and old_id = any($3::bigint[])
"""
NOTE: LiteralString = """
insert into imported_id (customer_id, kind, old_id, new_id)
select $1, $2, old_id, new_id from unnest($3::bigint[], $4::bigint[]) u (old_id, new_id)
"""


async def known(sql: Statements, customer: int, kind: RecordType, old: Iterable[int]) -> dict[int, int]:
    """The known new ids of these old ids."""
    rows = await sql.fetch(KNOWN, customer, kind.name, list(set(old)))
    return {row["old_id"]: row["new_id"] for row in rows}


async def remember_ids(sql: Statements, customer: int, kind: RecordType, ids: Mapping[int, int]) -> None:
    """Store new ids of old ids, in the transaction that writes their rows."""
    await sql.execute(NOTE, customer, kind.name, list(ids), list(ids.values()))


async def allocate_ids(sql: Statements, kind: RecordType, old: Sequence[int]) -> dict[int, int]:
    """A new, unused id for each of these."""
    rows = await sql.fetch(kind.numbered, len(old))
    return dict(zip(old, (row[0] for row in rows), strict=True))


async def all_of(sql: Statements, customer: int, kind: RecordType, old: Iterable[int]) -> dict[int, int]:
    """The new ids of these old ids. Ids of zero or less refer to no row, and stay unchanged.

    A row that no longer exists also gets a new, unused id, so that all references to it still match.
    """
    wanted = set(old)
    new_ids = {number: number for number in wanted if number <= 0}
    new_ids |= await known(sql, customer, kind, wanted - new_ids.keys())
    if gone := sorted(wanted - new_ids.keys()):
        given = await allocate_ids(sql, kind, gone)
        await remember_ids(sql, customer, kind, given)
        new_ids |= given
    return new_ids
