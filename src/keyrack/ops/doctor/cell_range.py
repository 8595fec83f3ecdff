"""The check of a cell's number and its range of ids."""

from __future__ import annotations

from typing import LiteralString

from keyrack.core.cell_ids import id_range
from keyrack.core.settings import Cell
from keyrack.db.cell_identity import WrongCell, require_identity
from keyrack.db.connection import Connection
from keyrack.ops.doctor.result import failure, ok
from keyrack.ops.monitoring.findings import Finding

# Sequences of ids that no two cells give. `pg_sequences` has no last value before the first id
SEQUENCES: LiteralString = """
with s as (
  select 'customer_customer_id_seq' as name, last_value as last from customer_customer_id_seq union all
  select 'manager_manager_id_seq', last_value from manager_manager_id_seq union all
  select 'person_user_id_seq', last_value from person_user_id_seq
)
select name, last, seqmax as highest from s join pg_sequence on seqrelid = name::regclass order by 1
"""


async def examine_identity(connection: Connection, cell: Cell) -> list[Finding]:
    """Check the number and the range of ids of a cell."""
    try:
        await require_identity(connection, cell)
    except WrongCell as error:
        return [failure("number", str(error), "Correct [[cells]] in the settings of all processes.")]
    ids = id_range(cell.number)
    wrong = [
        row["name"]
        for row in await connection.fetch(SEQUENCES)
        if row["highest"] != ids.stop - 1 or row["last"] not in ids
    ]
    if wrong:
        text = (
            f"The sequences {', '.join(wrong)} can give ids of another cell, outside of {ids.start} to {ids.stop - 1}."
        )
        return [failure("range", text, "Run `keyrack cells add` again for a cell that exists: it bounds the ids.")]
    return [ok("number", f"it is cell {cell.number} and gives ids from {ids.start} to {ids.stop - 1}")]
