"""Issuing of a phone's keys: returns valid keys, and signs due ones.

One statement without a lock finds what is due. Due keys of all phones of a customer that ask meanwhile are signed in
one transaction, with as many statements as for one phone. It locks the rows on which the keys depend: the assignment,
the box in its car, the service. A transaction that ends one of them waits, then finds the key and revokes it (migration
0038). If it comes first, no key is issued.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import LiteralString, NamedTuple
from uuid import UUID

from keyrack.core.settings import Settings
from keyrack.db.audit_context import Actor, acting
from keyrack.db.connection import Connection, Database, Row, Statements
from keyrack.db.encryption.cipher import CannotDecrypt, Encryption
from keyrack.db.group_commit import GroupCommitter
from keyrack.db.named_parameters import compile_statement
from keyrack.offline_keys import cose, status_lists
from keyrack.offline_keys.advertising_secrets import DayKey, EpochOfBox, Period, day_keys
from keyrack.offline_keys.entitlements import (
    LOCK,
    LOCK_OF_ONE,
    RIGHTS,
    RIGHTS_OF_ONE,
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
from keyrack.offline_keys.issuing_keys import (
    InconsistentKeys,
    IssuingKeySigner,
    IssuingKeySigners,
    box_name,
    hold,
    issuer,
    public,
)
from keyrack.offline_keys.message_fields import KEY, Status
from keyrack.offline_keys.public_key import PublicKey
from keyrack.offline_keys.status_list_slots import LIST_FULL, TOO_MANY, take
from keyrack.offline_keys.status_lists import StatusListId, place_of
from keyrack.offline_keys.timestamps import now

LISTS: LiteralString = """
select product_id, epoch, generation, uri, is_outdated, listed_at, list from status_generation
where customer_id = $1 and (product_id, epoch, generation) in (
  select * from unnest($2::integer[], $3::integer[], $4::integer[]))
"""
# The columns that all keys of a batch have in common, then those of `NewKeyRow` by name. The trigger that records the
# keys finds the actor of each phone in `keyrack.phone_actors` (migration 0084)
INSERT = compile_statement("""
insert into box_key (customer_id, rights, device_id, issuing_key_id, issued_at, key_id, product_id, epoch, generation,
  place, assignment_id, car_id, user_id, freshness, lifetime, begins_at, expires_at, token)
select :customer, :rights::smallint[], u.*
from (select set_config('keyrack.phone_actors', :actors, true) offset 0) s cross join unnest(
  :device_id::bytea[], :issuing_key_id::integer[], :issued_at::timestamptz[],
  :key_id::uuid[], :product_id::integer[], :epoch::integer[], :generation::integer[], :place::smallint[],
  :assignment_id::integer[], :car_id::integer[], :user_id::integer[], :freshness::integer[], :lifetime::integer[],
  :begins_at::timestamptz[], :expires_at::timestamptz[], :token::bytea[]) u
""")

AT_ONCE = 2  # batches of a customer at the same time: while one waits for the database, the other signs
PER_TURN = 16  # keys that are signed before other tasks run


class NewKeyRow(NamedTuple):
    """The columns of a newly signed key, named as in `INSERT`."""

    device_id: bytes
    issuing_key_id: int
    issued_at: datetime
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


class AskingPhone(NamedTuple):
    """A phone that asks for its keys."""

    subject: UUID  # of its user
    device: bytes  # the thumbprint of its key
    at: datetime


class DuePhone(NamedTuple):
    """A phone with due keys, or with boxes whose lists are due."""

    phone: AskingPhone
    assignments: frozenset[int]  # of its due keys
    actor: Actor | None


async def issue_keys(
    db: Database,
    batches: GroupCommitter,
    signers: IssuingKeySigners,
    settings: Settings,
    customer: int,
    subject: UUID,
    device: bytes,
) -> IssuedKeys:
    """The keys of a phone, and its messages for boxes.

    Issues due keys. Raises `NoDevice`, `NotApproved`, `CannotDecrypt`, `InconsistentKeys`.
    """
    phone = AskingPhone(subject, device, now())
    view = await _look(db, settings, customer, phone)
    if view is not None and not view.authority["services"]:
        async with db.transaction() as connection:
            await signers.upgrade(connection, customer)
        view = await _look(db, settings, customer, phone)
    if view is None:
        return IssuedKeys(None)
    await signers.check(db, customer, view.authority)
    due = frozenset(assignment for assignment, _ in map(right_of, view.due))
    if due or view.outdated:
        asked = DuePhone(phone, due, acting.get())
        return await batches.put(KeyIssuer(signers, settings), customer, [asked], at_once=AT_ONCE)
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
    def due(self) -> list[Row]:
        """The rights that need another key."""
        return [row for row in self.rights if needs_renewal(row, self.phone, self.at)]

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


async def _look(statements: Statements, settings: Settings, customer: int, phone: AskingPhone) -> _View | None:
    """The phone's rights; None if the customer has no authority.

    Raises `NoDevice`, `NotApproved`, `InconsistentKeys`.
    """
    (view,) = await _look_at_all(statements, settings, customer, [phone], has_counts=False)
    if isinstance(view, Exception):
        raise view
    return view


async def _look_at_all(
    statements: Statements, settings: Settings, customer: int, phones: Sequence[AskingPhone], *, has_counts: bool
) -> list[_View | Exception | None]:
    """The rights or the error of each phone, as of `_look`."""
    most = settings.sdk_keys + 1
    sql, columns = (RIGHTS_OF_ONE, phones[0]) if len(phones) == 1 else (RIGHTS, map(list, zip(*phones, strict=True)))
    rows_by_phone = defaultdict[int, list[Row]](list)
    for row in await statements.fetch(sql, customer, *columns, most, has_counts):
        rows_by_phone[row["n"]].append(row)
    older = {of_key(row) for rows in rows_by_phone.values() for row in rows if _has_older_list(row)}
    older_lists = {
        place_of(row): row
        for row in (await statements.fetch(LISTS, customer, *status_lists.columns(older)) if older else ())
    }
    return [
        _view_of(rows_by_phone[number], customer, phone, most, older_lists) for number, phone in enumerate(phones, 1)
    ]


def _has_older_list(row: Row) -> bool:
    """Whether the right's key is in an older list of its box."""
    return row["key_id"] is not None and row["key_generation"] != row["generation"]


def _view_of(
    rows: Sequence[Row], customer: int, phone: AskingPhone, most: int, older_lists: Mapping[StatusListId, Row]
) -> _View | Exception | None:
    """The view in a phone's rows of `RIGHTS`."""
    if not rows:
        return NoDevice()
    if not rows[0]["is_approved"]:
        return NotApproved()
    if rows[0]["key_set"] is None:
        return None
    rights = [row for row in rows[: most - 1] if row["assignment_id"] is not None]
    lists = {place_of(row): row for row in rights}
    lists |= {
        of_key(row): older_lists[of_key(row)] for row in rights if _has_older_list(row) and of_key(row) in older_lists
    }
    try:
        own = phone_of(rows[0], customer, phone.device)
    except InconsistentKeys as error:
        return error
    return _View(own, rows[0], rights, lists, phone.at, len(rows) < most)


class DueKey(NamedTuple):
    """A due key of a phone, without a place yet."""

    phone: Phone
    right: Row
    at: datetime


DueKeyId = tuple[bytes, Right]  # of the phone `device`


@dataclass(frozen=True, slots=True)
class KeyIssuer:
    """Signs what is due for several phones, in one transaction."""

    signers: IssuingKeySigners
    settings: Settings = field(compare=False)

    async def __call__(
        self, db: Database, customer: int, parts: Sequence[Sequence[DuePhone]]
    ) -> list[IssuedKeys | Exception]:
        """The keys of each phone, or its error. Raises `CannotDecrypt` if nothing can be signed."""
        asked = [phone for part in parts for phone in part]
        async with db.transaction() as connection:
            locked_assignments = await _lock(connection, customer, asked)
            looked = await _look_at_all(
                connection, self.settings, customer, [each.phone for each in asked], has_counts=True
            )
            views = [view for view in looked if isinstance(view, _View)]
            batch = _SignedBatch()
            due = batch.choose(views, locked_assignments, self.settings.keys_per_assignment)
            if views:
                await self._sign(connection, customer, views, due, batch)
            results = [await self._result(view, batch) for view in looked]
            # An error hits only its phone, which has no use for keys
            refused = {
                each.phone.device for each, result in zip(asked, results, strict=True) if isinstance(result, Exception)
            }
            rows = [row for row in batch.rows if row.device_id not in refused]
            if rows:
                await _store(connection, views[0].phone, rows, asked)
            return results

    async def _sign(
        self,
        connection: Connection,
        customer: int,
        views: Sequence[_View],
        due: Mapping[DueKeyId, DueKey],
        batch: _SignedBatch,
    ) -> None:
        """Sign the due keys, and the due lists of all views."""
        signer = await self.signers.of(connection, customer, views[0].phone.signers[0])
        outdated = {list_id for view in views for list_id in view.outdated}
        wanted = [box_of(key.right) for key in due.values()]
        boxes = {*wanted, *((list_id.product, list_id.epoch) for list_id in outdated)}
        locked = await status_lists.lock(connection, customer, boxes)
        slots = await take(connection, self.settings, customer, wanted, locked)
        uris = {**{place_of(row): row["uri"] for row in locked}, **slots.begun}
        for number, (id, place) in enumerate(zip(due, slots.places, strict=True), 1):
            batch.add(id, due[id], signer, place, uris)
            if not number % PER_TURN:
                await asyncio.sleep(0)
        if slots.begun:
            locked = await status_lists.lock(connection, customer, boxes)
        list_ids = {list_id for view in views for list_id in view.lists} | batch.list_ids
        rows = [row for row in locked if place_of(row) in list_ids]
        batch.lists |= await status_lists.renew(connection, customer, rows, signer, max(view.at for view in views))

    async def _result(self, view: _View | Exception | None, batch: _SignedBatch) -> IssuedKeys | Exception:
        if not isinstance(view, _View):
            return view or IssuedKeys(None)
        made = batch.keys.get(view.phone.device, {})
        # A list that was not signed yet may have been deleted meanwhile, with its box or epoch
        lists = {list_id: row["list"] for list_id, row in view.lists.items() if row["list"]}
        list_ids = view.lists.keys() | {key.place for key in made.values()}
        lists |= {list_id: batch.lists[list_id] for list_id in list_ids & batch.lists.keys()}
        try:
            return await view.held(self.signers.vault, made, lists, batch.withheld.get(view.phone.device, {}))
        except CannotDecrypt as error:
            return error


@dataclass(slots=True)
class _SignedBatch:
    """The keys, lists and rejections of a transaction, by phone."""

    keys: dict[bytes, dict[Right, IssuedKey]] = field(default_factory=dict[bytes, dict[Right, IssuedKey]])
    withheld: dict[bytes, dict[int, str]] = field(default_factory=dict[bytes, dict[int, str]])
    rows: list[NewKeyRow] = field(default_factory=list[NewKeyRow])
    lists: dict[StatusListId, bytes] = field(default_factory=dict[StatusListId, bytes])

    @property
    def list_ids(self) -> set[StatusListId]:
        """The lists that contain the new keys."""
        return {key.place for keys in self.keys.values() for key in keys.values()}

    def choose(self, views: Iterable[_View], locked_assignments: Container[int], most: int) -> dict[DueKeyId, DueKey]:
        """The due keys of these views, each once.

        Keys beyond the limit of an assignment are withheld.
        """
        due: dict[DueKeyId, DueKey] = {}
        new = Counter[Right]()
        for view in views:
            for row in view.due:
                right, id = right_of(row), (view.phone.device, right_of(row))
                if right[0] not in locked_assignments or id in due:
                    continue
                if row["keys"] + new[right] >= most:
                    self._withhold(id, TOO_MANY)
                    continue
                new[right] += 1
                due[id] = DueKey(view.phone, row, view.at)
        return due

    def add(
        self,
        id: DueKeyId,
        due: DueKey,
        signer: IssuingKeySigner,
        place: tuple[StatusListId, int] | None,
        uris: Mapping[StatusListId, str],
    ) -> None:
        """Sign a key for its place; without one it is withheld."""
        if place is None:
            self._withhold(id, LIST_FULL)
            return
        (list_id, index), (phone, right, at) = place, due
        key_id = secrets.token_bytes(16)
        key = _signed(phone, signer, right, key_id, list_id, Status(index, uris[list_id]), at)
        self.keys.setdefault(phone.device, {})[right_of(right)] = key
        row = NewKeyRow(
            device_id=phone.device, issuing_key_id=signer.id, issued_at=at, key_id=UUID(bytes=key_id),
            product_id=list_id.product, epoch=list_id.epoch, generation=list_id.generation, place=index,
            assignment_id=key.assignment, car_id=key.car, user_id=right["user_id"], freshness=freshness(right, phone),
            lifetime=right["lifetime"], begins_at=key.begins, expires_at=key.expires, token=key.token,
        )  # fmt: skip
        self.rows.append(row)

    def _withhold(self, id: DueKeyId, reason: str) -> None:
        device, (assignment, _) = id
        self.withheld.setdefault(device, {})[assignment] = reason


async def _lock(connection: Connection, customer: int, asked: Sequence[DuePhone]) -> set[int]:
    """Lock what due keys depend on. Returns the locked assignments."""
    assignments = list(frozenset[int]().union(*(each.assignments for each in asked)))
    if not assignments:
        await hold(connection, customer)
        return set()
    devices = [each.phone.device for each in asked if each.assignments]
    if len(devices) == len(assignments) == 1:
        rows = await connection.fetch(LOCK_OF_ONE, customer, *devices, *assignments)
    else:
        rows = await connection.fetch(LOCK, customer, devices, assignments)
    return {row["assignment_id"] for row in rows}


async def _store(connection: Connection, phone: Phone, rows: Sequence[NewKeyRow], asked: Iterable[DuePhone]) -> None:
    """Insert the new keys. `phone` has the rights that all of the customer's phones have."""
    actors = "".join(f":{each.phone.device.hex()} {each.actor.encoded}" for each in asked if each.actor is not None)
    columns = dict(zip(NewKeyRow._fields, map(list, zip(*rows, strict=True)), strict=True))
    arguments = INSERT.arguments(customer=phone.customer, rights=phone.rights, actors=actors, **columns)
    await connection.execute(INSERT.sql, *arguments)


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
