"""In charge of a phone's keys: told as they are, and made where they are due.

Whether anything is to be made is seen by one statement without a lock. Whoever makes a key has locked what it stands
on: the assignment, the box in its car, the service. What ends one of them waits, and then finds the key and revokes it
(migration 0038); or has come first, and there is no key.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString
from uuid import UUID

from keyrack.database.connection import Connection, Database, Row, Statements
from keyrack.keys import cose, lists
from keyrack.keys.authority import Signer, Signers, box_name, issuer
from keyrack.keys.lists import Place
from keyrack.keys.members import KEY, Status
from keyrack.keys.moments import now
from keyrack.keys.places import take
from keyrack.keys.rights import LOCKED, PHONE, RIGHTS, Phone, freshness, is_due, life, newest, of_key, phone_of
from keyrack.settings import Settings

LISTS: LiteralString = """
select product_id, epoch, generation, uri, is_outdated, listed_at, list from status_generation
where customer_id = $1 and (product_id, epoch, generation) in (
  select * from unnest($2::integer[], $3::integer[], $4::integer[]))
"""
INSERT: LiteralString = """
insert into box_key (customer_id, device_id, issuing_key_id, rights, issued_at, key_id, product_id, epoch, generation,
  place, assignment_id, car_id, user_id, freshness, lifetime, begins_at, expires_at, token)
select $1, $2, $3, $4::smallint[], $5, u.* from unnest(
  $6::uuid[], $7::integer[], $8::integer[], $9::integer[], $10::smallint[], $11::integer[], $12::integer[],
  $13::integer[], $14::integer[], $15::integer[], $16::timestamptz[], $17::timestamptz[], $18::bytea[]) u
"""
KEY_SET: LiteralString = "select key_set from key_authority where customer_id = $1"


class NoDevice(Exception):
    """The user has no phone with this thumbprint."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as a phone gets it."""

    assignment: int
    car: int
    place: Place
    issued: datetime
    begins: datetime
    expires: datetime
    renew: datetime  # from then on there is another one
    token: bytes


@dataclass(frozen=True, slots=True)
class Held:
    """What a phone is to hold now."""

    key_set: bytes | None  # None: nothing opens without a network at this customer
    keys: Sequence[Key] = ()
    lists: Mapping[Place, bytes] = field(default_factory=dict[Place, bytes])
    receipts: Mapping[tuple[int, int], bytes] = field(default_factory=dict[tuple[int, int], bytes])
    withheld: Mapping[int, str] = field(default_factory=dict[int, str])  # assignment -> why there is no new key
    is_complete: bool = True  # else the user has more assignments than are told


async def held(db: Database, signers: Signers, settings: Settings, customer: int, subject: UUID, device: bytes) -> Held:
    """What this phone is to hold: its keys, made as far as they are due. Raises `NoDevice`, `CannotOpen`."""
    at = now()
    row = await db.fetchrow(PHONE, customer, subject, device)
    if row is None:
        raise NoDevice
    if row["key_set"] is None:
        return Held(None)
    phone, most = phone_of(row, customer, device), settings.sdk_keys
    rows = await db.fetch(RIGHTS, customer, device, at, most + 1)
    if not any(is_due(one, phone, at) for one in rows):
        known = [*rows, *await _older(db, customer, rows)]
        if not any(lists.is_due(one, at) for one in known):
            found = {newest(one): one["list"] for one in known}
            return _held(row["key_set"], rows, most, found, {})
    async with db.transaction() as connection:
        signer = await signers.of(connection, customer, phone.signers[0])
        return await _made(connection, phone, signer, settings, at)


async def _older(db: Statements, customer: int, rows: Sequence[Row]) -> list[Row]:
    """The lists that keys of these rows stand in, and that are not their boxes' newest."""
    places = {of_key(row) for row in rows} - {newest(row) for row in rows}
    return await db.fetch(LISTS, customer, *lists.columns(places)) if places else []


async def _made(connection: Connection, phone: Phone, signer: Signer, settings: Settings, now: datetime) -> Held:
    """The same after what is due was made, in the caller's transaction."""
    customer, most = phone.customer, settings.sdk_keys
    rows = (await connection.fetch(LOCKED, customer, phone.device, now, most + 1))[:most]
    due = [row for row in rows if is_due(row, phone, now)]
    taken = await take(connection, settings, customer, due)
    made = [(row, *taken.places[row["assignment_id"]]) for row in due if row["assignment_id"] in taken.places]
    if made:
        await _insert(connection, phone, signer, made, now)
    found = await connection.fetch(RIGHTS, customer, phone.device, now, most + 1)
    places = {newest(row) for row in found} | {of_key(row) for row in found if row["key_id"] is not None}
    signed = await lists.renew(connection, customer, places, signer, now)
    key_set: bytes = await connection.fetchval(KEY_SET, customer)
    return _held(key_set, found, most, signed, taken.refused)


async def _insert(
    connection: Connection, phone: Phone, signer: Signer, made: Sequence[tuple[Row, Place, int]], now: datetime
) -> None:
    """Sign these keys and keep them."""
    places = lists.columns(place for _, place, _ in made)
    rows = await connection.fetch(LISTS, phone.customer, *places)
    uris = {newest(row): row["uri"] for row in rows}
    ids = [secrets.token_bytes(16) for _ in made]
    lives = [life(row, now) for row, _, _ in made]
    tokens = [
        _signed(phone, signer, row, id, place, Status(index, uris[place]), now)
        for id, (row, place, index) in zip(ids, made, strict=True)
    ]
    of = [row for row, _, _ in made]
    await connection.execute(
        INSERT, phone.customer, phone.device, signer.id, phone.rights, now, [UUID(bytes=id) for id in ids], *places,
        [index for _, _, index in made], [row["assignment_id"] for row in of], [row["car_id"] for row in of],
        [row["user_id"] for row in of], [freshness(row, phone) for row in of], [row["lifetime"] for row in of],
        [begins for begins, _ in lives], [expires for _, expires in lives], tokens,
    )  # fmt: skip


def _signed(phone: Phone, signer: Signer, row: Row, id: bytes, place: Place, status: Status, now: datetime) -> bytes:
    begins, expires = life(row, now)
    claims = {
        "iss": issuer(phone.customer), "sub": str(phone.subject), "aud": box_name(place.product, place.epoch),
        "exp": int(expires.timestamp()), "nbf": int(begins.timestamp()), "iat": int(now.timestamp()), "cti": id,
        "cnf": phone.key, "status": status, "assignment": row["assignment_id"], "rights": phone.rights,
        "limit": freshness(row, phone),
    }  # fmt: skip
    return cose.sign(KEY, signer.kid, claims, signer.key.sign)


def _held(
    key_set: bytes, rows: Sequence[Row], most: int, found: Mapping[Place, bytes], withheld: Mapping[int, str]
) -> Held:
    told = rows[:most]
    keys = [
        Key(
            row["assignment_id"], row["car_id"], of_key(row), row["issued_at"], row["begins_at"], row["expires_at"],
            row["issued_at"] + timedelta(seconds=row["renewable_after"]), row["token"],
        )
        for row in told
        if row["key_id"] is not None
    ]  # fmt: skip
    receipts = {(row["product_id"], row["epoch"]): row["receipt"] for row in told if row["receipt"] is not None}
    return Held(key_set, keys, found, receipts, withheld, is_complete=len(rows) <= most)
