"""Issuing of a phone's keys: returns valid keys, and signs due ones.

One statement without a lock finds what is due. A transaction that issues a key locks the rows on which the key depends:
the assignment, the box in its car, the service. A transaction that ends one of them waits, then finds the key and
revokes it (migration 0038). If it comes first, no key is issued.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple
from uuid import UUID

from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row, Statements
from keyrack.db.encryption.cipher import Encryption
from keyrack.db.named_parameters import compile_statement
from keyrack.offline_keys import cose, status_lists
from keyrack.offline_keys.advertising_secrets import DayKey, EpochOfBox, Period, day_keys
from keyrack.offline_keys.entitlements import (
    COUNTS,
    LOCK,
    RIGHTS,
    Phone,
    Right,
    box_of,
    freshness,
    life,
    needs_renewal,
    of_key,
    phone_of,
    right_of,
)
from keyrack.offline_keys.issuing_keys import IssuingKeySigner, IssuingKeySigners, box_name, hold, issuer, public
from keyrack.offline_keys.message_fields import KEY, Status
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.status_list_slots import TOO_MANY, SlotAllocation, take
from keyrack.offline_keys.status_lists import StatusListId, place_of
from keyrack.offline_keys.timestamps import now

LISTS: LiteralString = """
select product_id, epoch, generation, uri, is_outdated, listed_at, list from status_generation
where customer_id = $1 and (product_id, epoch, generation) in (
  select * from unnest($2::integer[], $3::integer[], $4::integer[]))
"""
# The columns that all keys of a phone have in common, then those of `NewKeyRow` by name
INSERT = compile_statement("""
insert into box_key (customer_id, device_id, issuing_key_id, rights, issued_at, key_id, product_id, epoch, generation,
  place, assignment_id, car_id, user_id, freshness, lifetime, begins_at, expires_at, token)
select :customer, :device_id, :issuing_key_id, :rights::smallint[], :issued_at, u.* from unnest(
  :key_id::uuid[], :product_id::integer[], :epoch::integer[], :generation::integer[], :place::smallint[],
  :assignment_id::integer[], :car_id::integer[], :user_id::integer[], :freshness::integer[], :lifetime::integer[],
  :begins_at::timestamptz[], :expires_at::timestamptz[], :token::bytea[]) u
""")


class NewKeyRow(NamedTuple):
    """The columns of a newly signed key, named as in `INSERT`."""

    key_id: UUID
    product_id: int
    epoch: int
    generation: int
    place: int
    assignment_id: int
    car_id: int
    user_id: int
    freshness: int
    lifetime: int
    begins_at: datetime
    expires_at: datetime
    token: bytes


class NoDevice(Exception):
    """The user has no phone with this thumbprint."""


class NotApproved(Exception):
    """A manager must approve the phone before it gets keys."""


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key as a phone gets it."""

    assignment: int
    car: int
    place: StatusListId
    issued: datetime
    begins: datetime
    expires: datetime
    renew: datetime  # from then on there is a new key
    token: bytes

    @property
    def box(self) -> EpochOfBox:
        return self.place.product, self.place.epoch


@dataclass(frozen=True, slots=True)
class IssuedKeys:
    """The keys of a phone, and the messages that it carries."""

    key_set: bytes | None  # None: the customer has no authority
    roots: Sequence[bytes] = ()  # new roots of the authority, the oldest first
    keys: Sequence[IssuedKey] = ()
    lists: Mapping[StatusListId, bytes] = field(default_factory=dict[StatusListId, bytes])
    box_keys: Mapping[EpochOfBox, PublicKey] = field(default_factory=dict[EpochOfBox, PublicKey])
    receipts: Mapping[EpochOfBox, bytes] = field(default_factory=dict[EpochOfBox, bytes])
    names: Mapping[EpochOfBox, Sequence[DayKey]] = field(default_factory=dict[EpochOfBox, Sequence[DayKey]])
    withheld: Mapping[int, str] = field(default_factory=dict[int, str])  # assignment -> reason why there is no new key
    is_complete: bool = True  # False if the user has more assignments than returned


async def issue_keys(
    db: Database, signers: IssuingKeySigners, settings: Settings, customer: int, subject: UUID, device: bytes
) -> IssuedKeys:
    """The keys of a phone, and its messages for boxes.

    Issues due keys. Raises `NoDevice`, `NotApproved`, `CannotDecrypt`, `InconsistentKeys`.
    """
    arguments = (customer, subject, device, now(), settings.sdk_keys + 1)
    view = await _look(db, arguments)
    if view is not None and not view.authority["services"]:
        async with db.transaction() as connection:
            await signers.upgrade(connection, customer)
        view = await _look(db, arguments)
    if view is None:
        return IssuedKeys(None)
    await signers.check(db, customer, view.authority)
    if view.due or view.outdated:
        async with db.transaction() as connection:
            return await _made(connection, signers, settings, arguments, view.due)
    return await view.held(signers.vault, {}, {place: row["list"] for place, row in view.lists.items()}, {})


@dataclass(frozen=True, slots=True)
class _View:
    """A phone's rights at one moment."""

    phone: Phone
    authority: Row  # with the columns of `AUTHORITY`
    rights: Sequence[Row]
    lists: Mapping[StatusListId, Row]  # lists that contain the keys, or will
    at: datetime
    is_complete: bool

    @property
    def due(self) -> list[Right]:
        """The rights that need another key."""
        return [right_of(row) for row in self.rights if needs_renewal(row, self.phone, self.at)]

    @property
    def outdated(self) -> set[StatusListId]:
        return {place for place, row in self.lists.items() if status_lists.is_due(row, self.at)}

    async def held(
        self,
        vault: Encryption,
        made: Mapping[Right, IssuedKey],
        lists: Mapping[StatusListId, bytes],
        withheld: Mapping[int, str],
    ) -> IssuedKeys:
        """The new keys, and the existing keys of the other rights. Raises `CannotDecrypt`."""
        keys = [
            made.get(right_of(row)) or _known(row)
            for row in self.rights
            if row["key_id"] is not None or right_of(row) in made
        ]
        box_keys = {box_of(row): public(row["box_key"]) for row in self.rights}
        receipts = {box_of(row): row["receipt"] for row in self.rights if row["receipt"] is not None}
        key_set, roots = self.authority["key_set"], self.authority["roots"]
        names = await self._names(vault, keys)
        return IssuedKeys(key_set, roots, keys, lists, box_keys, receipts, names, withheld, self.is_complete)

    async def _names(self, vault: Encryption, keys: Sequence[IssuedKey]) -> dict[EpochOfBox, Sequence[DayKey]]:
        """The day keys of each box for these keys."""
        periods: dict[EpochOfBox, list[Period]] = {}
        for key in keys:
            periods.setdefault(key.box, []).append((key.begins, key.expires))
        sealed = {box_of(row): row["advertising"] for row in self.rights}
        return {box: await day_keys(vault, self.phone.customer, box, sealed[box], periods[box]) for box in periods}


async def _look(statements: Statements, arguments: tuple[int, UUID, bytes, datetime, int]) -> _View | None:
    """The phone's rights; None if the customer has no authority.

    Raises `NoDevice`, `NotApproved`.
    """
    customer, _, device, at, most = arguments
    rows = await statements.fetch(RIGHTS, *arguments)
    if not rows:
        raise NoDevice
    if not rows[0]["is_approved"]:
        raise NotApproved
    if rows[0]["key_set"] is None:
        return None
    rights = [row for row in rows[: most - 1] if row["assignment_id"] is not None]
    rights_by_place = {place_of(row): row for row in rights}
    if older := {of_key(row) for row in rights if row["key_id"] is not None} - rights_by_place.keys():
        rights_by_place |= {
            place_of(row): row for row in await statements.fetch(LISTS, customer, *status_lists.columns(older))
        }
    return _View(phone_of(rows[0], customer, device), rows[0], rights, rights_by_place, at, len(rows) < most)


async def _made(
    connection: Connection,
    signers: IssuingKeySigners,
    settings: Settings,
    arguments: tuple[int, UUID, bytes, datetime, int],
    wanted: Sequence[Right],
) -> IssuedKeys:
    """Sign what is due in the caller's transaction, and return all keys.

    `wanted` are the rights that need a key. Raises `NoDevice`, `NotApproved`, `CannotDecrypt`.
    """
    customer, _, device, at, _ = arguments
    await hold(connection, customer)
    assignments = list({assignment for assignment, _ in wanted})
    rows = await connection.fetch(LOCK, customer, device, assignments) if wanted else []
    locked_assignments = {row["assignment_id"] for row in rows}
    counts = await connection.fetch(COUNTS, customer, assignments) if wanted else []
    many = {right_of(row) for row in counts if row["keys"] >= settings.keys_per_assignment}
    view = await _look(connection, arguments)
    if view is None:
        return IssuedKeys(None)
    signer = await signers.of(connection, customer, view.phone.signers[0])
    wanting = {right for right in view.due if right[0] in locked_assignments}
    many &= wanting
    due = [row for row in view.rights if right_of(row) in wanting - many]
    boxes = {box_of(row) for row in due} | {(place.product, place.epoch) for place in view.outdated}
    locked = await status_lists.lock(connection, customer, boxes)
    taken = await take(connection, settings, customer, due, locked)
    made = await _make(connection, view.phone, signer, due, taken, {place_of(row): row["uri"] for row in locked}, at)
    if taken.begun:
        locked = await status_lists.lock(connection, customer, boxes)
    list_ids = view.lists.keys() | {key.place for key in made.values()}
    signed = await status_lists.renew(
        connection, customer, [row for row in locked if place_of(row) in list_ids], signer, at
    )
    # A list that was not signed yet may have been deleted meanwhile, with its box or epoch
    others = {place: row["list"] for place, row in view.lists.items() if place not in signed and row["list"]}
    withheld = {assignment: TOO_MANY for assignment, _ in many}
    withheld |= {right[0]: reason for right, reason in taken.refused.items()}
    return await view.held(signers.vault, made, others | signed, withheld)


async def _make(
    connection: Connection,
    phone: Phone,
    signer: IssuingKeySigner,
    due: Sequence[Row],
    taken: SlotAllocation,
    uris: Mapping[StatusListId, str],
    at: datetime,
) -> dict[Right, IssuedKey]:
    """Sign and store a key for each right with a place."""
    uris = {**uris, **taken.begun}
    keys: list[IssuedKey] = []
    rows: list[NewKeyRow] = []
    for row in due:
        if right_of(row) not in taken.places:
            continue
        list_id, index = taken.places[right_of(row)]
        id = secrets.token_bytes(16)
        key = _signed(phone, signer, row, id, list_id, Status(index, uris[list_id]), at)
        keys.append(key)
        row_of_key = NewKeyRow(
            key_id=UUID(bytes=id), product_id=list_id.product, epoch=list_id.epoch, generation=list_id.generation,
            place=index, assignment_id=key.assignment, car_id=key.car, user_id=row["user_id"],
            freshness=freshness(row, phone), lifetime=row["lifetime"], begins_at=key.begins, expires_at=key.expires,
            token=key.token,
        )  # fmt: skip
        rows.append(row_of_key)
    if rows:
        columns = dict(zip(NewKeyRow._fields, map(list, zip(*rows, strict=True)), strict=True))
        arguments = INSERT.arguments(
            customer=phone.customer,
            device_id=phone.device,
            issuing_key_id=signer.id,
            rights=phone.rights,
            issued_at=at,
            **columns,
        )
        await connection.execute(INSERT.sql, *arguments)
    return {(key.assignment, key.place.epoch): key for key in keys}


def _signed(
    phone: Phone, signer: IssuingKeySigner, row: Row, id: bytes, place: StatusListId, status: Status, at: datetime
) -> IssuedKey:
    begins, expires = life(row, at)
    claims = {
        "iss": issuer(phone.customer), "sub": str(phone.subject), "aud": box_name(place.product, place.epoch),
        "exp": int(expires.timestamp()), "nbf": int(begins.timestamp()), "iat": int(at.timestamp()), "cti": id,
        "cnf": phone.key, "status": status, "assignment": row["assignment_id"], "rights": phone.rights,
        "limit": freshness(row, phone),
    }  # fmt: skip
    token = cose.sign(KEY, signer.kid, claims, signer.key.sign)
    return IssuedKey(row["assignment_id"], row["car_id"], place, at, begins, expires, _renewed(row, at), token)


def _known(row: Row) -> IssuedKey:
    """The existing key of a right."""
    return IssuedKey(
        row["assignment_id"], row["car_id"], of_key(row), row["issued_at"], row["begins_at"], row["expires_at"],
        _renewed(row, row["issued_at"]), row["token"],
    )  # fmt: skip


def _renewed(row: Row, issued: datetime) -> datetime:
    return issued + timedelta(seconds=row["renewable_after"])
