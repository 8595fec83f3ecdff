"""In charge of the places of a log from which it can be proven without what stood before: where a month or a class of
retention begins, the hash of the record before and the tree's edge are kept.

Months of a class are dropped whole, so what is left of a log begins with its epoch or at one of these places.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Connection, Row, Statements
from keyrack.db.partitions import month

CLASSES = {100: 1, 400: 2, 800: 3, 3_660: 4}  # days for which changes are kept at least -> their class of retention

# The logs' rows are locked
KEEP: LiteralString = """
with kept as (
  insert into change_edge (customer_id, behind, hash, tree)
  select customer_id, last_id, hash, tree from change_log where customer_id = any($1) and hash is not null
  on conflict do nothing
)
update change_log l set class = n.class from unnest($1::integer[], $2::smallint[]) n (customer_id, class)
where l.customer_id = n.customer_id and l.class <> n.class
"""
FORGET: LiteralString = """
delete from change_edge e using change_log l where l.customer_id = e.customer_id and e.behind < l.oldest_id - 1
"""


async def advance_anchor(connection: Connection, logs: Iterable[Row], now: datetime, days: int) -> dict[int, int]:
    """The class of these logs' next changes, by customer: as the customer has chosen, or of so many days. Where it is
    another than before, or the month is, the place is kept."""
    wanted = {row["customer_id"]: CLASSES[row["changes_days"] or days] for row in logs}
    turning = [
        row["customer_id"] for row in logs if row["class"] != wanted[row["customer_id"]] or _is_over(row, now)
    ]  # fmt: skip
    if turning:
        await connection.execute(KEEP, turning, [wanted[customer] for customer in turning])
    return wanted


def _is_over(row: Row, now: datetime) -> bool:
    """Whether the month of the newest change is over."""
    recorded: datetime | None = row["last_recorded_at"]
    return recorded is not None and month(recorded) < month(now)


async def forget(statements: Statements) -> None:
    """Forget the places before what is kept, after months were dropped."""
    await statements.execute(FORGET)
