"""Checks of persons in cells: undelivered changes, addresses with two ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import LiteralString

from keyrack.core.errors import Unavailable
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.other_cells import OtherCells
from keyrack.ops.doctor.result import failure, ok, warning
from keyrack.ops.monitoring import thresholds
from keyrack.ops.monitoring.findings import Finding, duration

LISTED = 20  # maximum number of listed pairs for each cell
BATCH = 5_000  # addresses that one statement compares
COMPARING = 8.0  # seconds for all comparisons

UNDELIVERED: LiteralString = """
select cell, is_erasure, count(*) as changes, extract(epoch from now() - min(created_at))::float8 as age,
  max(last_error) as error
from person_change_outbox where created_at < now() - make_interval(secs => $1) group by 1, 2 order by 1, 2
"""
# In the order of an index, so that each statement is short. `keyrack cells check` sorts all rows instead
ADDRESSES: LiteralString = """
select address_form, user_id from person where address_form > $1 and not has_address_conflict
order by address_form limit $2
"""
SAME: LiteralString = """
select own.form, own.id as own_id, p.user_id as id
from unnest($1::text[], $2::integer[]) own (form, id)
join person p on p.address_form = own.form and not p.has_address_conflict where p.user_id <> own.id order by 1
"""


class _NotFinished(Exception):
    """The comparison takes too long."""


async def examined(connection: Connection, settings: Settings) -> list[Finding]:
    """Check the outbox, and compare addresses with each other cell."""
    rows = await connection.fetch(UNDELIVERED, thresholds.PERSON_CHANGE_AGE)
    findings = list(_undelivered(rows, {cell.number: cell.name for cell in settings.other_cells}))
    if settings.other_cells:
        findings += await _compare(connection, settings)
        return findings or [ok("persons", "persons are the same in all cells")]
    return findings


def _undelivered(rows: list[Row], names: dict[int, str]) -> Iterator[Finding]:
    for row in rows:
        noun = "erasure" if row["is_erasure"] else "change"
        what = f"1 {noun} of persons has" if row["changes"] == 1 else f"{row['changes']} {noun}s of persons have"
        cell = names.get(row["cell"], f"{row['cell']}, which the settings do not name")
        reason = f": {row['error']}" if row["error"] else ""
        yield failure(
            "persons", f"{what} waited for {duration(row['age'])} for cell {cell}{reason}.",
            "Check that a worker runs, and that it can reach the database of that cell (docs/cells-people.md).",
        )  # fmt: skip


async def _compare(connection: Connection, settings: Settings) -> list[Finding]:
    findings: list[Finding] = []
    other_cells = OtherCells(settings)
    end = time.monotonic() + COMPARING
    try:
        for cell in settings.other_cells:
            try:
                async with other_cells.database(cell.number, None) as database:
                    pairs = await _pairs(connection, database.reading(), end)
            except (Unavailable, _NotFinished):
                text = f"The addresses of persons were not compared with all of cell {cell.name}."
                findings.append(warning("persons", text, "Check that its database runs and is not overloaded."))
            else:
                findings += [_same_address(row, cell.name) for row in pairs]
    finally:
        await other_cells.close()
    return findings


async def _pairs(connection: Connection, other: Database, end: float) -> list[Row]:
    """Pairs of different persons with the same address in both cells. Raises `_NotFinished`."""
    pairs: list[Row] = []
    rows = await connection.fetch(ADDRESSES, "", BATCH)
    while rows and len(pairs) < LISTED:
        if time.monotonic() > end:
            raise _NotFinished
        forms, ids = [row["address_form"] for row in rows], [row["user_id"] for row in rows]
        pairs += await other.fetch(SAME, forms, ids)
        rows = await connection.fetch(ADDRESSES, forms[-1], BATCH) if len(rows) == BATCH else []
    return pairs[:LISTED]


def _same_address(row: Row, cell: str) -> Finding:
    return failure(
        "persons", f"User {row['own_id']} and user {row['id']} of cell {cell} have the same address, {row['form']}.",
        "Run `keyrack user change USER --address ADDRESS` in one of the two cells (docs/cells-people.md).",
    )  # fmt: skip
