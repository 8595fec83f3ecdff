"""In charge of taking in what another server tells of a customer: in pieces, each of them once, wherever it broke off.

Each piece is asked for first and then written in a transaction of its own, together with the numbers that its rows got
here. Whoever is killed in between goes on there: what has a number is not written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.assignments.customer_lock import apply_at_once, flush_all
from keyrack.assignments.failure_codes import text_of
from keyrack.assignments.rules import as_request
from keyrack.assignments.submission import OperationRequest, submit
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.ops.transfer import id_map
from keyrack.ops.transfer.api_source import TOLD, ApiSource, Json
from keyrack.ops.transfer.record_types import (
    ASSIGNMENTS,
    BY_NAME,
    CARS,
    EVENTS,
    GROUPS,
    INSTALLATIONS,
    PAIRINGS,
    PRODUCTS,
    SERVICES,
    USERS,
    RecordType,
)
from keyrack.ops.transfer.row_writer import write

GROUND = (USERS, PAIRINGS, INSTALLATIONS, ASSIGNMENTS)  # what operations stand on, and operations
CONTENT = (PRODUCTS, SERVICES, CARS, USERS, GROUPS, ASSIGNMENTS, EVENTS)  # a customer without them is empty
PIECE = 200  # rows of one transaction

Progress = Callable[[str, int], None]  # kind, rows seen so far

BEGIN: LiteralString = """
insert into customer_import (customer_id, source) select customer_id, $2 from customer where customer_id = $1
on conflict (customer_id) do nothing
"""
TARGET: LiteralString = """
select name, source from customer left join customer_import using (customer_id) where customer_id = $1
"""
ALONE: LiteralString = "select from customer_import where customer_id = $1 for update"
ENDED: LiteralString = "update customer_import set ended_at = now() where customer_id = $1"
# What is the same on both sides by its name: an earlier import, or an operator, has written it
THERE: dict[str, tuple[str, LiteralString]] = {
    PRODUCTS.name: (
        "serialNumber",
        "select serial_number as name, product_id as id from product"
        " where customer_id = $1 and serial_number = any($2::text[])",
    ),
    GROUPS.name: (
        "name",
        "select name, group_id as id from fleet_group where customer_id = $1 and name = any($2::text[])",
    ),
}
EVENT_NUMBERS: LiteralString = """
update event_counter set last_id = last_id + $2 where customer_id = $1 returning last_id - $2
"""
KEEPS_POSITIONS: LiteralString = "select keeps_positions from customer where customer_id = $1"
OUTCOMES: LiteralString = """
select operation_id, (result->>'assignmentId')::integer as id, state, error_code from operation
where customer_id = $1 and operation_id = any($2::uuid[])
"""


class NotImportable(Exception):
    """Why nothing can be taken in there."""


@dataclass(slots=True)
class ImportProgress:
    """What came of it."""

    new: dict[str, int] = field(default_factory=dict[str, int])  # rows written by this run, of each kind
    refused: list[str] = field(default_factory=list[str])  # assignments that do not hold here, and why


async def check_target(db: Database, customer: int, source: str, *, merge: bool) -> None:
    """Check that the rows of `source` may come into the customer.

    Raises `NotImportable`: there is no such customer, its rows come from another source, or it has rows of its own
    and `merge` is false. There is no undo, so two fleets in one customer have to be wanted.
    """
    target = await db.fetchrow(TARGET, customer)
    if target is None:
        raise NotImportable(f"There is no customer {customer}. `keyrack customer add NAME` makes one.")
    if target["source"] is None and not merge:
        counts = {kind.name: await db.fetchval(kind.count, customer) for kind in CONTENT}
        if rows := ", ".join(f"{count:,} {name}" for name, count in counts.items() if count):
            raise NotImportable(
                f"Customer {customer} ({target['name']}) is not empty: it has {rows}. Import into an empty customer, "
                "or add --merge to put both fleets into this one. There is no way back."
            )
    if target["source"] not in (None, source):
        raise NotImportable(
            f"Customer {customer} comes from {target['source']}; numbers of {source} would mix with those."
        )


async def begin(db: Database, customer: int, source: str, *, merge: bool) -> None:
    """Record where the customer's rows come from. Raises `NotImportable` as `check_target` does."""
    await check_target(db, customer, source, merge=merge)
    await db.execute(BEGIN, customer, source)
    await check_target(db, customer, source, merge=merge)  # another import may have begun meanwhile


async def import_rows(
    db: Database, settings: Settings, source: ApiSource, customer: int, progress: Progress
) -> ImportProgress:
    """Take in all that the source tells and that is not here yet. Raises `ApiError`, `Refusal`."""
    arrived = ImportProgress()
    for kind in TOLD:
        seen = 0
        arrived.new[kind.name] = 0
        async for page in source.pages(kind):
            for first in range(0, len(page), PIECE):
                rows = page[first : first + PIECE]
                async with db.transaction() as sql:
                    if kind in GROUND:
                        await flush_all(db, sql, (customer,), settings)
                    await sql.execute(ALONE, customer)
                    arrived.new[kind.name] += await _take(sql, customer, kind, rows, arrived)
            seen += len(page)
            progress(kind.name, seen)
    await db.execute(ENDED, customer)
    return arrived


async def missing_references(
    sql: Connection | Database, customer: int, kind: RecordType, rows: Sequence[Json]
) -> list[Json]:
    """Of these rows those that are not here; of links those that are not known to be."""
    if "id" not in kind.members:
        return list(rows)
    new_ids = await id_map.known(sql, customer, kind, (row["id"] for row in rows))
    return [row for row in rows if row["id"] not in new_ids]


async def _take(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json], arrived: ImportProgress) -> int:
    """Write those of the rows that are not here; how many."""
    new = await missing_references(sql, customer, kind, rows)
    if kind is not EVENTS:  # an event may tell of a car or a user that has gone
        new = await _standing(sql, customer, kind, new)
    if kind.name in THERE:
        new = await _without_namesakes(sql, customer, kind, new)
    if not new:
        return 0
    if kind is ASSIGNMENTS:
        return await _assign(sql, customer, new, arrived)
    if kind is EVENTS:
        new = await _numbered(sql, customer, new)
    if "id" in kind.members:
        await write(sql, customer, kind, new)
        return len(new)
    before: int = await sql.fetchval(kind.count, customer)
    await write(sql, customer, kind, new)
    return await sql.fetchval(kind.count, customer) - before


async def _standing(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json]) -> list[Json]:
    """Those whose car, user and so on are here: what was made while we read comes with the next run, and what was
    removed here since it came stays away."""
    standing = list(rows)
    for member, name in (kind.references or {}).items():
        other = BY_NAME[name]
        new_ids = await id_map.known(sql, customer, other, (row[member] for row in standing))
        there = {
            json.loads(row[0])["id"] for row in await sql.fetch(other.select_by_key, customer, list(new_ids.values()))
        }
        standing = [row for row in standing if new_ids.get(row[member]) in there]
    return standing


async def _without_namesakes(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json]) -> list[Json]:
    """Those that nothing here has the name of; the others are what is here."""
    member, there = THERE[kind.name]
    ids_by_name = {row["name"]: row["id"] for row in await sql.fetch(there, customer, [row[member] for row in rows])}
    await id_map.remember_ids(
        sql, customer, kind, {row["id"]: ids_by_name[row[member]] for row in rows if row[member] in ids_by_name}
    )
    return [row for row in rows if row[member] not in ids_by_name]


async def _numbered(sql: Connection, customer: int, rows: Sequence[Json]) -> list[Json]:
    """Events under numbers of this customer, without gaps; without places where it wants none kept."""
    before: int = await sql.fetchval(EVENT_NUMBERS, customer, len(rows))
    given = {row["id"]: before + number for number, row in enumerate(rows, 1)}
    await id_map.remember_ids(sql, customer, EVENTS, given)
    hidden: Json = {} if await sql.fetchval(KEEPS_POSITIONS, customer) else {"latitude": None, "longitude": None}
    return [row | hidden | {"id": given[row["id"]]} for row in rows]


async def _assign(sql: Connection, customer: int, rows: Sequence[Json], arrived: ImportProgress) -> int:
    """Ask for assignments and have them applied: by the same rules as anybody's, with outcomes told by webhook."""
    cars = await id_map.known(sql, customer, BY_NAME["cars"], (row["carId"] for row in rows))
    users = await id_map.known(sql, customer, USERS, (row["userId"] for row in rows))
    wanted = [_wanted(row, cars[row["carId"]], users[row["userId"]]) for row in rows]
    await submit(sql, customer, wanted)
    await apply_at_once(sql, customer, *(request.operation for request in wanted))
    outcomes = {row["operation_id"]: row for row in await sql.fetch(OUTCOMES, customer, [w.operation for w in wanted])}
    given: dict[int, int] = {}
    for row, request in zip(rows, wanted, strict=True):
        outcome = outcomes.get(request.operation)
        if outcome is not None and outcome["state"] == "Succeeded":
            given[row["id"]] = outcome["id"]
        else:
            reason = text_of(outcome["error_code"]) if outcome else "its car or user has gone"
            arrived.refused.append(f"assignment {row['id']} of the source: {reason}")
    await id_map.remember_ids(sql, customer, ASSIGNMENTS, given)
    return len(given)


def _wanted(row: Json, car: int, user: int) -> OperationRequest:
    body = as_request(row)
    chosen = {name: body[name] for name in ("start", "end", "lifetime", "renewableAfter")}
    print_of = checksum(b"", "IMPORT", f"/assignments/{row['id']}")
    return OperationRequest("CreateAssignment", None, car, user, chosen, print_of, RequestOrigin(request="import"))
