"""Reads a log with its proofs from the database, for an export."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import LiteralString
from uuid import UUID

from keyrack.changelog.record_format import FIRST, decode, loads
from keyrack.changelog.transparency.export_format import ExportedChange, Head
from keyrack.changelog.transparency.merkle_tree import Tree
from keyrack.db.connection import Connection, Row, Statements

PIECE = 1_000  # changes per batch

# All reads see one moment
SNAPSHOT: LiteralString = "set transaction isolation level repeatable read, read only"
# The current epoch, or the given one
LOG: LiteralString = """
select e.epoch, e.first_id, greatest(l.oldest_id, e.first_id) as oldest_id, e.last_id, e.hash, e.tree
from change_log l, lateral (
  select l.epoch, l.first_id, l.last_id, l.hash, l.tree
  union all
  select o.epoch, o.first_id, o.last_id, o.hash, o.tree from change_epoch o where o.customer_id = l.customer_id
) e
where l.customer_id = $1 and e.epoch = coalesce($2::uuid, l.epoch)
"""
EPOCHS: LiteralString = """
select o.epoch, o.last_id, o.ended_at from change_epoch o join change_log l using (customer_id)
where o.customer_id = $1 and o.last_id >= l.oldest_id order by o.first_id
"""
EDGE: LiteralString = "select hash, tree from change_edge where customer_id = $1 and behind = $2"
FROM_FIRST: LiteralString = "select record from change where customer_id = $1 and change_id = $2"
CHANGES: LiteralString = """
select change_id, at, recorded_at, kind, resource, resource_id, groups, who::text, before::text, after::text,
  person::text, who_salt, content_salt, person_salt, record
from change where customer_id = $1 and change_id > $2 and change_id <= $3 order by change_id limit $4
"""


async def read(sql: Connection, customer: int, epoch: UUID | None = None) -> AsyncGenerator[Head | ExportedChange]:
    """The head of a customer's log, and each change that is kept; nothing if the log or epoch is unknown.

    The transaction must be unused, so that all reads see one moment. Customer 0 is the installation.
    """
    await sql.execute(SNAPSHOT)
    log = await sql.fetchrow(LOG, customer, epoch)
    if log is None:
        return
    yield await _head(sql, customer, log)
    behind = log["oldest_id"] - 1
    while rows := await sql.fetch(CHANGES, customer, behind, log["last_id"], PIECE):
        for row in rows:
            yield _change(row)
        behind = rows[-1]["change_id"]


async def earlier(statements: Statements, customer: int) -> list[Row]:
    """The ended epochs of a log that still have changes, the oldest first: `epoch`, `last_id`, `ended_at`."""
    return await statements.fetch(EPOCHS, customer)


async def _head(sql: Connection, customer: int, log: Row) -> Head:
    """The head of the export: the state before the oldest change that is kept."""
    behind, last = log["oldest_id"] - 1, log["last_id"]
    if behind >= last:
        return Head(customer, log["epoch"], last, last, log["hash"] or FIRST, Tree.read(log["tree"]))
    if behind == log["first_id"] - 1:
        return Head(customer, log["epoch"], behind, last)
    if (edge := await sql.fetchrow(EDGE, customer, behind)) is not None:
        return Head(customer, log["epoch"], behind, last, edge["hash"], Tree.read(edge["tree"]))
    oldest = await sql.fetchval(FROM_FIRST, customer, log["oldest_id"])
    before = FIRST if oldest is None else decode(oldest).previous
    return Head(customer, log["epoch"], behind, last, before, None)


def _change(row: Row) -> ExportedChange:
    before, after = loads(row["before"]), loads(row["after"])
    has_content = row["content_salt"] is not None or before is not None or after is not None
    return ExportedChange(
        row["change_id"], row["at"], row["recorded_at"], row["kind"], row["resource"], row["resource_id"],
        row["groups"],
        parts={
            "who": loads(row["who"]),
            "content": {"before": before, "after": after} if has_content else None,
            "person": loads(row["person"]),
        },
        salts={"who": row["who_salt"], "content": row["content_salt"], "person": row["person_salt"]},
        record=row["record"],
    )  # fmt: skip
