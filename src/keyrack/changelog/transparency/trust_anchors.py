"""Trust anchors: points from which a log verifies without earlier records.

At the beginning of a month or of a retention class, the hash of the previous record and the tree's edge are stored.
Months of a class are dropped whole, so the rest of a log begins with its epoch or at an anchor.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import LiteralString

from keyrack.db.connection import Connection, Row, Statements
from keyrack.db.partitions import month

CLASSES = {100: 1, 400: 2, 800: 3, 3_660: 4}  # minimum days for which changes are kept -> retention class

# The caller has locked the rows of the logs
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
    """The class of these logs' next changes, by customer: the customer's choice, or that of `days`.

    Stores an anchor if the class changes, or a new month begins.
    """
    wanted = {row["customer_id"]: CLASSES[row["changes_days"] or days] for row in logs}
    turning = [
        row["customer_id"] for row in logs if row["class"] != wanted[row["customer_id"]] or _is_over(row, now)
    ]  # fmt: skip
    if turning:
        await connection.execute(KEEP, turning, [wanted[customer] for customer in turning])
    return wanted


def _is_over(row: Row, now: datetime) -> bool:
    """Whether a later month than that of the newest change has begun."""
    recorded: datetime | None = row["last_recorded_at"]
    return recorded is not None and month(recorded) < month(now)


async def forget(statements: Statements) -> None:
    """Delete the anchors before the oldest change, after months were dropped."""
    await statements.execute(FORGET)
