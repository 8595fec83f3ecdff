"""The access history: assignments, and the parts in cars, recorded as changes get numbers.

Each version of an assignment is a period with two times. Valid time: it was in force from `since` until `until`.
Transaction time: it was known from the write of its change until the change that ended it got a number.

Both ends of the transaction time are wide. A change is written before its commit, and gets a number after it. For that
moment the old and the new version both count, so no answer names less than could be opened.

The place of a part, a box in a car or a service on a box, has only the transaction time. docs/access-history.md
describes the use of the history. `access_queries` reads it, and `access_baseline` writes the state before the first
change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, LiteralString

import structlog

from keyrack.changelog import access_baseline
from keyrack.changelog.record_format import loads
from keyrack.core.settings import Settings
from keyrack.db.connection import Connection, Database, Row
from keyrack.db.row_batches import run_in_batches

log = structlog.get_logger("keyrack.access_history")

# Resource -> the kind of part, and the member that names its place
PLACES: Mapping[str, tuple[str, str]] = {"product": ("box", "carId"), "service": ("service", "productId")}
RESOURCES = {"assignment", *PLACES}
VERSIONED_MEMBERS = {"carId", "userId", "start", "end"}  # members that make a new version of an assignment

KNOWN: LiteralString = """
select c.stretch_id, c.customer_id, c.assignment_id, c.car_id, c.user_id, c.since, c.known_from,
  nullif(c.until, 'infinity') as until
from unnest($1::integer[], $2::integer[]) k (customer_id, assignment_id)
join custody c using (customer_id, assignment_id) where c.known_until = 'infinity'
"""
FITTED: LiteralString = """
select f.fitting_id, f.customer_id, f.kind, f.part_id, f.place_id, f.known_from
from unnest($1::integer[], $2::text[], $3::integer[]) k (customer_id, kind, part_id)
join fitting f using (customer_id, kind, part_id) where f.known_until = 'infinity'
"""
CLOSE: LiteralString = """
update custody c set known_until = u.at from unnest($1::integer[], $2::bigint[], $3::timestamptz[])
  u (customer_id, stretch_id, at)
where c.customer_id = u.customer_id and c.stretch_id = u.stretch_id
"""
REMOVE: LiteralString = """
update fitting f set known_until = u.at from unnest($1::integer[], $2::bigint[], $3::timestamptz[])
  u (customer_id, fitting_id, at)
where f.customer_id = u.customer_id and f.fitting_id = u.fitting_id
"""
OPEN: LiteralString = """
insert into custody (customer_id, assignment_id, car_id, user_id, since, until, known_from, known_until)
select customer_id, assignment_id, car_id, user_id, since, coalesce(until, 'infinity'), known_from,
  coalesce(known_until, 'infinity')
from unnest($1::integer[], $2::integer[], $3::integer[], $4::integer[], $5::timestamptz[], $6::timestamptz[],
  $7::timestamptz[], $8::timestamptz[])
  u (customer_id, assignment_id, car_id, user_id, since, until, known_from, known_until)
"""
FIT: LiteralString = """
insert into fitting (customer_id, kind, part_id, place_id, known_from, known_until)
select customer_id, kind, part_id, place_id, known_from, coalesce(known_until, 'infinity')
from unnest($1::integer[], $2::text[], $3::integer[], $4::integer[], $5::timestamptz[], $6::timestamptz[])
  u (customer_id, kind, part_id, place_id, known_from, known_until)
"""
# Raises the oldest available time first, so that no answer lacks rows that are deleted next
RAISE: LiteralString = """
update custody_log l set since = $2 where l.since < $2
  and coalesce((select c.class from change_log c where c.customer_id = l.customer_id), 2) = $1
"""
_OF_CLASS: LiteralString = """
select l.customer_id from custody_log l left join change_log c using (customer_id) where coalesce(c.class, 2) = $1
"""
FORGET: LiteralString = (
    "with gone as (delete from custody where (customer_id, stretch_id) in (select customer_id, stretch_id from custody"
    " where customer_id = any(array(" + _OF_CLASS + ")) and known_until < $2 and known_until < 'infinity' limit $3)"
    " returning 1) select count(*)::integer from gone"
)
FORGET_FITTED: LiteralString = (
    "with gone as (delete from fitting where (customer_id, fitting_id) in (select customer_id, fitting_id from fitting"
    " where customer_id = any(array(" + _OF_CLASS + ")) and known_until < $2 and known_until < 'infinity' limit $3)"
    " returning 1) select count(*)::integer from gone"
)


@dataclass(frozen=True, slots=True)
class AccessPeriod:
    """One version of an assignment."""

    car: int
    user: int
    since: datetime
    until: datetime | None  # None: no end
    known_from: datetime
    row_number: int | None = None  # the row's id; None if it is not stored yet

    @classmethod
    def created(cls, at: datetime, members: Mapping[str, Any]) -> AccessPeriod:
        """The first version, from a creation with all members."""
        since = max(_start(members, at), at)
        return cls(members["carId"], members["userId"], since, _end(members.get("end")), at)

    def changed(self, at: datetime, members: Mapping[str, Any]) -> AccessPeriod:
        """The next version, from a change of these members.

        It comes into force at the change if its start is past by then. If it is in force already, and keeps its car and
        user, `since` stays.
        """
        car, user = members.get("carId", self.car), members.get("userId", self.user)
        goes_on = self.since <= at and (self.until is None or at < self.until) and (car, user) == (self.car, self.user)
        start = _start(members, at) if "start" in members else self.since
        since = start if start > at else self.since if goes_on else at
        until = _end(members["end"]) if "end" in members else self.until
        return AccessPeriod(car, user, since, until, at)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A part in its place: a box in a car, or a service on a box."""

    place: int
    known_from: datetime
    fitting: int | None = None  # the row's id; None if it is not stored yet


Key = tuple[int, int]  # customer, assignment
Part = tuple[int, str, int]  # customer, kind, product or service


@dataclass(slots=True)
class AccessHistoryChanges:
    """The current versions of some resources, and the effect of changes on them."""

    periods: dict[Key, AccessPeriod] = field(default_factory=dict[Key, AccessPeriod])
    parts: dict[Part, InstalledPart] = field(default_factory=dict[Part, InstalledPart])
    # Ended versions, and the ends of their transaction time
    ended_periods: list[tuple[Key, AccessPeriod, datetime]] = field(
        default_factory=list[tuple[Key, AccessPeriod, datetime]]
    )
    removed_parts: list[tuple[Part, InstalledPart, datetime]] = field(
        default_factory=list[tuple[Part, InstalledPart, datetime]]
    )

    def take(self, row: Row, recorded_at: datetime) -> None:
        """Apply one change, in the order of the numbers.

        If the clock was set back, `known_from` is not later than the recording.
        """
        at = min(row["at"], recorded_at)
        word = row["kind"].rpartition(".")[2]
        members: Mapping[str, Any] | None = None if row["after"] is None else loads(row["after"])
        if row["resource"] == "assignment":
            self._assignment((row["customer_id"], int(row["resource_id"])), word, members, at, recorded_at)
        else:
            self._part(row, word, members, at, recorded_at)

    def _assignment(
        self, key: Key, word: str, members: Mapping[str, Any] | None, at: datetime, recorded_at: datetime
    ) -> None:
        before = self.periods.get(key)
        if word == "updated" and before is None:
            log.error("access history of a changed assignment missing", customer=key[0], assignment=key[1])
            return
        if word == "updated" and members is not None and not VERSIONED_MEMBERS & members.keys():
            return
        if before is not None:
            self.ended_periods.append((key, before, recorded_at))
            del self.periods[key]
        if members is not None:
            self.periods[key] = AccessPeriod.created(at, members) if before is None else before.changed(at, members)

    def _part(
        self, row: Row, word: str, members: Mapping[str, Any] | None, at: datetime, recorded_at: datetime
    ) -> None:
        kind, member = PLACES[row["resource"]]
        part: Part = (row["customer_id"], kind, int(row["resource_id"]))
        before = self.parts.get(part)
        if members is not None and member not in members:
            return
        if before is not None:
            self.removed_parts.append((part, before, recorded_at))
            del self.parts[part]
        place = None if members is None else members[member]
        if place is not None and (kind == "service" or before is not None or _is_box(row["kind"], members or {})):
            self.parts[part] = InstalledPart(place, at)


def _is_box(kind: str, members: Mapping[str, Any]) -> bool:
    """Whether a change that installs a product is one of a box."""
    return kind == "box.installed" or members.get("type") == "Box"


async def record_periods(connection: Connection, rows: Sequence[Row], recorded: Mapping[int, datetime]) -> None:
    """Record the effect of changes on the access history.

    `rows` are those of the outbox in their order, before they are deleted. `recorded` has the recording time of each
    customer.
    """
    await access_baseline.begin(connection, [customer for customer in recorded if customer])
    relevant_rows = [row for row in rows if row["customer_id"] and row["resource"] in RESOURCES]
    if not relevant_rows:
        return
    custody = await _load(connection, relevant_rows)
    for row in relevant_rows:
        custody.take(row, recorded[row["customer_id"]])
    await _write(connection, custody)


async def _load(connection: Connection, rows: Sequence[Row]) -> AccessHistoryChanges:
    custody = AccessHistoryChanges()
    made = {"assignment.created", "product.created", "service.created"}
    keys = sorted({(row["customer_id"], row["resource"], int(row["resource_id"])) for row in rows
                   if row["kind"] not in made})  # fmt: skip
    assignments = [(customer, id) for customer, resource, id in keys if resource == "assignment"]
    parts = [(customer, PLACES[resource][0], id) for customer, resource, id in keys if resource in PLACES]
    if assignments:
        for row in await connection.fetch(KNOWN, *_columns(assignments)):
            custody.periods[row["customer_id"], row["assignment_id"]] = AccessPeriod(
                row["car_id"], row["user_id"], row["since"], row["until"], row["known_from"], row["stretch_id"]
            )
    if parts:
        for row in await connection.fetch(FITTED, *_columns(parts)):
            part = (row["customer_id"], row["kind"], row["part_id"])
            custody.parts[part] = InstalledPart(row["place_id"], row["known_from"], row["fitting_id"])
    return custody


async def _write(connection: Connection, custody: AccessHistoryChanges) -> None:
    """Write ended versions first: an assignment or part has at most one current row."""
    if ended := [
        (key[0], form.row_number, at) for key, form, at in custody.ended_periods if form.row_number is not None
    ]:
        await connection.execute(CLOSE, *_columns(ended))
    if gone := [
        (part[0], installed_part.fitting, at)
        for part, installed_part, at in custody.removed_parts
        if installed_part.fitting is not None
    ]:
        await connection.execute(REMOVE, *_columns(gone))
    forms = [*custody.ended_periods, *((key, form, None) for key, form in custody.periods.items())]
    if new := [
        (*key, form.car, form.user, form.since, form.until, form.known_from, at)
        for key, form, at in forms
        if form.row_number is None
    ]:
        await connection.execute(OPEN, *_columns(new))
    fitted = [*custody.removed_parts, *((part, installed_part, None) for part, installed_part in custody.parts.items())]
    if put := [
        (*part, installed_part.place, installed_part.known_from, at)
        for part, installed_part, at in fitted
        if installed_part.fitting is None
    ]:
        await connection.execute(FIT, *_columns(put))


async def prune_periods(db: Database, settings: Settings, retention: int, before: datetime) -> None:
    """Delete versions that were known only before `before`.

    It affects the customers of a retention class. Queries of earlier times are rejected from then on.
    """
    await db.execute(RAISE, retention, before)
    for sql in (FORGET, FORGET_FITTED):
        await run_in_batches(db, settings.housekeeping_rows, sql, retention, before)


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _start(members: Mapping[str, Any], at: datetime) -> datetime:
    """The start of an assignment; `at` if it is no valid time of Python, such as an infinite one from SQL.

    An invalid row must not keep other changes from their numbers, so it gets the widest period.
    """
    try:
        return datetime.fromisoformat(members["start"])
    except (KeyError, TypeError, ValueError):
        return at


def _end(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
