"""In charge of custody: which assignments were in force when, and what was in the cars, kept as changes are numbered.

Each form that an assignment has had is a stretch with two times. It was in force from `since` until `until`; and it was
known so from when its change was written until what ended it had its number. Both ends are the wide ones: a change
is written before it is committed and numbered after that, so for that moment the old and the new form both count, and
no answer names less than could be opened. What was in what, a box in a car and a service on a box, has the second time
alone. docs/access-history.md says what is made of it; `access_queries` answers, `access_baseline` writes what was there
before.
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

# Resource -> the kind of fitting, and the member that says where it is
PLACES: Mapping[str, tuple[str, str]] = {"product": ("box", "carId"), "service": ("service", "productId")}
RESOURCES = {"assignment", *PLACES}
TOLD = {"carId", "userId", "start", "end"}  # what makes another form of an assignment

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
# First the oldest time that can be answered, so that no answer misses what goes then
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
    """What an assignment is, as of one change of it."""

    car: int
    user: int
    since: datetime
    until: datetime | None  # None: without an end
    known_from: datetime
    row_number: int | None = None  # its row; None where it has none yet

    @classmethod
    def created(cls, at: datetime, members: Mapping[str, Any]) -> AccessPeriod:
        """As it is created, with all of its members."""
        since = max(_start(members, at), at)
        return cls(members["carId"], members["userId"], since, _end(members.get("end")), at)

    def changed(self, at: datetime, members: Mapping[str, Any]) -> AccessPeriod:
        """As a change makes it that names these members.

        It comes into force when it is changed, if its start is past by then; if it is in force already, and stays with
        the same car and user, it is so since it was.
        """
        car, user = members.get("carId", self.car), members.get("userId", self.user)
        goes_on = self.since <= at and (self.until is None or at < self.until) and (car, user) == (self.car, self.user)
        start = _start(members, at) if "start" in members else self.since
        since = start if start > at else self.since if goes_on else at
        until = _end(members["end"]) if "end" in members else self.until
        return AccessPeriod(car, user, since, until, at)


@dataclass(frozen=True, slots=True)
class InstalledPart:
    """A part in its place."""

    place: int
    known_from: datetime
    fitting: int | None = None  # its row; None where it has none yet


Key = tuple[int, int]  # customer, assignment
Part = tuple[int, str, int]  # customer, kind, product or service


@dataclass(slots=True)
class AccessHistoryChanges:
    """What is known now of the things that some changes are about, and what these changes make of it."""

    periods: dict[Key, AccessPeriod] = field(default_factory=dict[Key, AccessPeriod])
    parts: dict[Part, InstalledPart] = field(default_factory=dict[Part, InstalledPart])
    # What ended, and until when it was known
    ended_periods: list[tuple[Key, AccessPeriod, datetime]] = field(
        default_factory=list[tuple[Key, AccessPeriod, datetime]]
    )
    removed_parts: list[tuple[Part, InstalledPart, datetime]] = field(
        default_factory=list[tuple[Part, InstalledPart, datetime]]
    )

    def take(self, row: Row, recorded_at: datetime) -> None:
        """One change, in the order of the numbers; a clock that was put back does not let it be known too late."""
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
        if word == "updated" and members is not None and not TOLD & members.keys():
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
    """Whether this change of a product, which puts it into a car, is one of a box that was in none."""
    return kind == "box.installed" or members.get("type") == "Box"


async def record_periods(connection: Connection, rows: Sequence[Row], recorded: Mapping[int, datetime]) -> None:
    """Keep what these changes make of custody: rows of the inbox, in their order, while they are there, and for each
    customer when they are recorded."""
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
    """What ended first: of each thing one row is known now."""
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
    """Forget what was known up to a time only, of the customers of a class of retention: nothing is answered of times
    before it any more."""
    await db.execute(RAISE, retention, before)
    for sql in (FORGET, FORGET_FITTED):
        await run_in_batches(db, settings.housekeeping_rows, sql, retention, before)


def _columns(rows: Iterable[tuple[object, ...]]) -> list[list[object]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _start(members: Mapping[str, Any], at: datetime) -> datetime:
    """What is no time of Python's, such as an infinite one that was written by SQL, is as early and as late as may be:
    no row that somebody has written keeps the changes of others from their numbers."""
    try:
        return datetime.fromisoformat(members["start"])
    except (KeyError, TypeError, ValueError):
        return at


def _end(text: str | None) -> datetime | None:
    try:
        return None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
