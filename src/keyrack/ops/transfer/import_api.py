"""Import of a customer from another server: in batches, each of them written once, even after an interruption.

Each batch is first read, and then written in its own transaction together with the new ids of its rows. An interrupted
import continues there: a row with a new id is not written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import LiteralString

from keyrack.api.request_origin import RequestOrigin, checksum
from keyrack.api.schema.references import NAMES
from keyrack.assignments.booking_checks import CAR_BOOKED, OLD_WORKER
from keyrack.assignments.customer_lock import apply_at_once, flush_all
from keyrack.assignments.failure_codes import text_of
from keyrack.assignments.rules import as_request
from keyrack.assignments.submission import OperationRequest, References, submit
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database
from keyrack.ops.transfer import id_map
from keyrack.ops.transfer.api_source import API_RECORD_TYPES, ApiSource, Json
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

GROUND = (USERS, PAIRINGS, INSTALLATIONS, ASSIGNMENTS)  # operations depend on these, or are these
CONTENT = (PRODUCTS, SERVICES, CARS, USERS, GROUPS, ASSIGNMENTS, EVENTS)  # a customer without any of these is empty
PIECE = 200  # rows per transaction

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
# Rows that match an existing row by name, written by an earlier import or by an operator
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
    """The import is not possible; the text has the reason."""


@dataclass(slots=True)
class ImportProgress:
    """The result of an import."""

    new: dict[str, int] = field(default_factory=dict[str, int])  # rows written by this run, by kind
    refused: list[str] = field(default_factory=list[str])  # rejected assignments, with the reasons


async def check_target(db: Database, customer: int, source: str, *, merge: bool) -> None:
    """Check that rows of `source` may be imported into the customer.

    Raises `NotImportable` if there is no such customer, if its rows come from another source, or if it has its own rows
    and `merge` is false. An import cannot be undone, so merging two fleets needs an explicit option.
    """
    target = await db.fetchrow(TARGET, customer)
    if target is None:
        raise NotImportable(f"There is no customer {customer}. Create one with `keyrack customer add NAME`.")
    if target["source"] is None and not merge:
        counts = {kind.name: await db.fetchval(kind.count, customer) for kind in CONTENT}
        if rows := ", ".join(f"{count:,} {name}" for name, count in counts.items() if count):
            raise NotImportable(
                f"Customer {customer} ({target['name']}) is not empty: it has {rows}. Import into an empty customer, "
                "or add --merge to merge both fleets. A merge cannot be undone."
            )
    if target["source"] not in (None, source):
        raise NotImportable(
            f"Customer {customer} was imported from {target['source']}. It cannot also be imported from {source}, "
            "because ids would be mixed up. Choose another customer."
        )


async def begin(db: Database, customer: int, source: str, *, merge: bool) -> None:
    """Store the source of the customer's rows. Raises `NotImportable` as `check_target` does."""
    await check_target(db, customer, source, merge=merge)
    await db.execute(BEGIN, customer, source)
    await check_target(db, customer, source, merge=merge)  # another import may have started in the meantime


async def import_rows(
    db: Database, settings: Settings, source: ApiSource, customer: int, progress: Progress
) -> ImportProgress:
    """Import all rows of the source that are not here yet. Raises `ApiError`, `Refusal`."""
    arrived = ImportProgress()
    for kind in API_RECORD_TYPES:
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
    """The rows without a known new id. Links have no ids, so all of them are returned."""
    if "id" not in kind.members:
        return list(rows)
    new_ids = await id_map.known(sql, customer, kind, (row["id"] for row in rows))
    return [row for row in rows if row["id"] not in new_ids]


async def _take(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json], arrived: ImportProgress) -> int:
    """Write the rows that are not here yet, and return their number."""
    new = await missing_references(sql, customer, kind, rows)
    if kind is not EVENTS:  # an event may refer to a removed car or user
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
    """The rows whose references are here.

    The next run imports rows whose references were created during this run. Rows whose references were removed here
    after their import stay out.
    """
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
    """The rows without a namesake here; a row with a namesake is mapped to it."""
    member, there = THERE[kind.name]
    ids_by_name = {row["name"]: row["id"] for row in await sql.fetch(there, customer, [row[member] for row in rows])}
    await id_map.remember_ids(
        sql, customer, kind, {row["id"]: ids_by_name[row[member]] for row in rows if row[member] in ids_by_name}
    )
    return [row for row in rows if row[member] not in ids_by_name]


async def _numbered(sql: Connection, customer: int, rows: Sequence[Json]) -> list[Json]:
    """Events with consecutive numbers of this customer, and without positions if the customer does not store them."""
    before: int = await sql.fetchval(EVENT_NUMBERS, customer, len(rows))
    given = {row["id"]: before + number for number, row in enumerate(rows, 1)}
    await id_map.remember_ids(sql, customer, EVENTS, given)
    hidden: Json = {} if await sql.fetchval(KEEPS_POSITIONS, customer) else {"latitude": None, "longitude": None}
    return [row | hidden | {"id": given[row["id"]]} for row in rows]


async def _assign(sql: Connection, customer: int, rows: Sequence[Json], arrived: ImportProgress) -> int:
    """Submit and apply assignments by the normal rules; webhooks report the outcomes."""
    cars = await id_map.known(sql, customer, BY_NAME["cars"], (row["carId"] for row in rows))
    users = await id_map.known(sql, customer, USERS, (row["userId"] for row in rows))
    wanted = [_wanted(row, cars[row["carId"]], users[row["userId"]]) for row in rows]
    references = await submit(sql, customer, wanted)
    await apply_at_once(sql, customer, *(request.operation for request in wanted))
    outcomes = {row["operation_id"]: row for row in await sql.fetch(OUTCOMES, customer, [w.operation for w in wanted])}
    given: dict[int, int] = {}
    for row, request, submitted in zip(rows, wanted, references, strict=True):
        outcome = outcomes.get(request.operation)
        if outcome is not None and outcome["state"] == "Succeeded":
            given[row["id"]] = outcome["id"]
        else:
            reason = text_of(outcome["error_code"]) if outcome else _rejected(submitted)
            arrived.refused.append(f"assignment {row['id']} of the source: {reason}")
    await id_map.remember_ids(sql, customer, ASSIGNMENTS, given)
    return len(given)


def _rejected(references: References) -> str:
    """Why an assignment was not submitted."""
    if references.conflicts:
        return CAR_BOOKED.text
    return OLD_WORKER.text if references.is_early else "its car or user was removed"


def _wanted(row: Json, car: int, user: int) -> OperationRequest:
    body = as_request(row)
    chosen = {name: body[name] for name in ("start", "end", "lifetime", "renewableAfter")}
    chosen |= {name: row[name] for name in NAMES if row[name] is not None}
    chosen["exclusive"] = body.get("exclusive", False)  # an older server has shared assignments alone
    print_of = checksum(b"", "IMPORT", f"/assignments/{row['id']}")
    return OperationRequest("CreateAssignment", None, car, user, chosen, print_of, RequestOrigin(request="import"))
