"""In charge of old and new numbers: which row of the customer stands for which one of where it came from."""

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
    """The new numbers of these old ones, as far as there are any."""
    rows = await sql.fetch(KNOWN, customer, kind.name, list(set(old)))
    return {row["old_id"]: row["new_id"] for row in rows}


async def remember_ids(sql: Statements, customer: int, kind: RecordType, ids: Mapping[int, int]) -> None:
    """Remember which new number stands for which old one, in the transaction that writes their rows."""
    await sql.execute(NOTE, customer, kind.name, list(ids), list(ids.values()))


async def allocate_ids(sql: Statements, kind: RecordType, old: Sequence[int]) -> dict[int, int]:
    """A number for each of these that nobody has yet."""
    rows = await sql.fetch(kind.numbered, len(old))
    return dict(zip(old, (row[0] for row in rows), strict=True))


async def all_of(sql: Statements, customer: int, kind: RecordType, old: Iterable[int]) -> dict[int, int]:
    """The new numbers of these old ones. What is not there any more gets one too, which nobody else has: so that what
    is told of it still belongs together. Zero and less stand for nobody, and stay."""
    wanted = set(old)
    new_ids = {number: number for number in wanted if number <= 0}
    new_ids |= await known(sql, customer, kind, wanted - new_ids.keys())
    if gone := sorted(wanted - new_ids.keys()):
        given = await allocate_ids(sql, kind, gone)
        await remember_ids(sql, customer, kind, given)
        new_ids |= given
    return new_ids
