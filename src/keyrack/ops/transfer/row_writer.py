"""Writes rows of a customer with ids of this database, in the caller's transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, LiteralString, cast

from keyrack.core.addresses import address_form
from keyrack.core.text import nfc
from keyrack.db.connection import Connection
from keyrack.fleet.person_lookup import PERSONS
from keyrack.ops.transfer import id_map
from keyrack.ops.transfer.record_types import (
    BY_NAME,
    INSTALLATIONS,
    ODOMETERS,
    OPERATIONS,
    PAIRINGS,
    POSITIONS,
    USERS,
    RecordType,
)
from keyrack.telemetry.history import ODOMETERS as ODOMETER_HISTORY
from keyrack.telemetry.history import POSITIONS as POSITION_HISTORY
from keyrack.telemetry.history import HistoryTable
from keyrack.telemetry.runs import packed

Json = dict[str, Any]
Write = Callable[[Connection, int, Sequence[Json]], Awaitable[None]]

# A person exists once for all customers; an existing person stays unchanged
PEOPLE: LiteralString = """
select form, user_id from (select form, {id} as user_id from unnest($1::text[]) form) p where user_id is not null
""".replace("{id}", PERSONS.key_by_form("form"))
NEW_PEOPLE: LiteralString = (
    """
insert into person (user_id, email_address, address_form, first_name, last_name, type, created_at)
select r."id", "emailAddress", f.form, "firstName", "lastName", "type", coalesce("createdAt", now())
"""
    + USERS.input_rows.replace("$2", "$1")
    + ' join unnest($2::integer[], $3::text[]) f (id, form) on f.id = r."id"'
)
MEMBERS: LiteralString = (
    "insert into customer_user (customer_id, user_id, external_id, metadata)"
    ' select $1, r."id", r."externalId", r."metadata" '
    + USERS.input_rows
    + " on conflict (customer_id, user_id) do nothing"
)
PAIR: LiteralString = 'update service s set product_id = r."productId" ' + PAIRINGS.input_rows + (
    ' where s.customer_id = $1 and s.service_id = r."serviceId" and s.product_id is null'
    ' and not exists (select from service o where o.customer_id = $1 and o.product_id = r."productId")'
)  # fmt: skip
INSTALL: LiteralString = 'update product p set car_id = r."carId" ' + INSTALLATIONS.input_rows + (
    ' where p.customer_id = $1 and p.product_id = r."productId" and p.car_id is null'
    ' and not exists (select from product o where o.customer_id = $1 and o.car_id = r."carId" and o.kind = p.kind)'
)  # fmt: skip
INSIDE = {"carId": "cars", "userId": "users", "assignmentId": "assignments"}  # in an operation's request and result


class DuplicateAddress(Exception):
    """Two users of the source have the same e-mail address."""


async def write(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json]) -> list[Json]:
    """Write rows and return them. Rows that they refer to must be written before."""
    rows = await _renumbered(sql, customer, kind, rows)
    if kind.numbered:
        own = _write_users(sql, rows) if kind is USERS else id_map.allocate_ids(sql, kind, [row["id"] for row in rows])
        given = await own
        await id_map.remember_ids(sql, customer, kind, given)
        rows = [row | {"id": given[row["id"]]} for row in rows]
    if own := OWN.get(kind.name):
        await own(sql, customer, rows)
    elif kind.into:
        await sql.execute(kind.insert, customer, rows)
    return rows


async def _renumbered(sql: Connection, customer: int, kind: RecordType, rows: Sequence[Json]) -> list[Json]:
    """The rows with texts in NFC and references to ids of this database."""
    changed = [texts_in_nfc(row) for row in rows]
    for member, name in (kind.references or {}).items():
        places = [row for row in changed if row[member] is not None]
        if kind is OPERATIONS:
            places += [row[part] for row in changed for part in ("request", "result") if _points(row[part], member)]
        new = await id_map.all_of(sql, customer, BY_NAME[name], (place[member] for place in places))
        for place in places:
            place[member] = new[place[member]]
    return changed


def texts_in_nfc(row: Mapping[str, Any]) -> Json:
    """A row of the source with its texts in NFC, except e-mail addresses."""
    return {
        name: nfc(value) if isinstance(value, str) and name != "emailAddress" else value for name, value in row.items()
    }


def _points(value: object, member: str) -> bool:
    return isinstance(value, dict) and isinstance(cast("Json", value).get(member), int)


async def _write_users(sql: Connection, rows: Sequence[Json]) -> dict[int, int]:
    """Write new persons, and return the ids of all."""
    forms = {row["id"]: address_form(row["emailAddress"]) for row in rows}
    people = {row["form"]: row["user_id"] for row in await sql.fetch(PEOPLE, list(forms.values()))}
    given = {id: people[form] for id, form in forms.items() if form in people}
    new = [row for row in rows if row["id"] not in given]
    _check_duplicates(new, forms)
    given |= await id_map.allocate_ids(sql, USERS, [row["id"] for row in new])
    ids, new_forms = [given[row["id"]] for row in new], [forms[row["id"]] for row in new]
    await sql.execute(NEW_PEOPLE, [row | {"id": given[row["id"]]} for row in new], ids, new_forms)
    return given


def _check_duplicates(rows: Sequence[Json], forms: Mapping[int, str]) -> None:
    """Raises `DuplicateAddress` if two rows have the same address."""
    seen: dict[str, Json] = {}
    for row in rows:
        other = seen.setdefault(forms[row["id"]], row)
        if other is not row:
            raise DuplicateAddress(
                f"The users {other['id']} ({other['emailAddress']}) and {row['id']} ({row['emailAddress']}) of the "
                "source have the same e-mail address. Change one of the addresses there, and import again."
            )


async def _join(sql: Connection, customer: int, rows: Sequence[Json]) -> None:
    await sql.execute(MEMBERS, customer, rows)


async def _pair(sql: Connection, customer: int, rows: Sequence[Json]) -> None:
    await sql.execute(PAIR, customer, rows)


async def _install(sql: Connection, customer: int, rows: Sequence[Json]) -> None:
    await sql.execute(INSTALL, customer, rows)


def _history(history: HistoryTable, *members: str) -> Write:
    async def add(sql: Connection, customer: int, rows: Sequence[Json]) -> None:
        for car, readings in groupby(rows, key=lambda row: row["carId"]):
            samples = [
                (datetime.fromisoformat(row["at"]), tuple(float(row[name]) for name in members)) for row in readings
            ]
            await history.add(sql, customer, [(car, stretch) for stretch, _ in packed(samples)])

    return add


# Kinds that need more than an insert
OWN: dict[str, Write] = {
    USERS.name: _join,
    PAIRINGS.name: _pair,
    INSTALLATIONS.name: _install,
    POSITIONS.name: _history(POSITION_HISTORY, "latitude", "longitude"),
    ODOMETERS.name: _history(ODOMETER_HISTORY, "odometer"),
}
