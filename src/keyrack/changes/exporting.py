"""In charge of reading a log out of the database, with all that proves it: for an export, as lines."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, LiteralString

from keyrack.changes.exports import Change, Head
from keyrack.changes.record import FIRST, decode, loads
from keyrack.changes.tree import Tree
from keyrack.database.connection import Connection, Row

PIECE = 1_000  # changes that are fetched at a time

# What is read is of one moment
SNAPSHOT: LiteralString = "set transaction isolation level repeatable read, read only"
LOG: LiteralString = "select epoch, oldest_id, last_id, hash, tree from change_log where customer_id = $1"
FROM_FIRST: LiteralString = """
select record from change
where class between 1 and 4 and customer_id = $1 and change_id = $2
"""
# The next ones of each class by its own index, and of these the first: no log is sorted as a whole
OF_CLASS: LiteralString = """
(select change_id, at, recorded_at, kind, resource, resource_id, groups, who::text, before::text, after::text,
  person::text, who_salt, content_salt, person_salt, record
from change where class = {class} and customer_id = $1 and change_id > $2 and change_id <= $3
order by change_id limit $4)
"""
CLASSES: tuple[LiteralString, ...] = ("1", "2", "3", "4")
CHANGES: LiteralString = (
    " union all ".join([OF_CLASS.replace("{class}", number) for number in CLASSES]) + " order by change_id limit $4"
)


async def read(sql: Connection, customer: int) -> AsyncGenerator[Head | Change]:
    """The head of a customer's log, and each change that is still kept; nothing where there is no log.

    In a transaction that has done nothing yet, so that all is of one moment. Customer 0 is the installation.
    """
    await sql.execute(SNAPSHOT)
    log = await sql.fetchrow(LOG, customer)
    if log is None:
        return
    yield await _head(sql, customer, log)
    behind = log["oldest_id"] - 1
    while rows := await sql.fetch(CHANGES, customer, behind, log["last_id"], PIECE):
        for row in rows:
            yield _change(row)
        behind = rows[-1]["change_id"]


async def _head(sql: Connection, customer: int, log: Row) -> Head:
    """What stood before the oldest change: of months that were dropped the hash is known, and the tree is not."""
    behind = log["oldest_id"] - 1
    if behind == log["last_id"]:
        return Head(customer, log["epoch"], behind, behind, log["hash"] or FIRST, Tree.read(log["tree"]))
    oldest = await sql.fetchval(FROM_FIRST, customer, log["oldest_id"])
    before = FIRST if behind == 0 or oldest is None else decode(oldest).previous
    return Head(customer, log["epoch"], behind, log["last_id"], before, Tree() if before == FIRST else None)


def _change(row: Row) -> Change:
    before, after = _json(row["before"]), _json(row["after"])
    has_content = row["content_salt"] is not None or before is not None or after is not None
    return Change(
        row["change_id"], row["at"], row["recorded_at"], row["kind"], row["resource"], row["resource_id"],
        row["groups"],
        parts={
            "who": _json(row["who"]),
            "content": {"before": before, "after": after} if has_content else None,
            "person": _json(row["person"]),
        },
        salts={"who": row["who_salt"], "content": row["content_salt"], "person": row["person_salt"]},
        record=row["record"],
    )  # fmt: skip


def _json(text: str | None) -> Any:
    return None if text is None else loads(text)
