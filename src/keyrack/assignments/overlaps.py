"""In charge of overlaps: who else has a car within the time for which somebody asks for it.

The times of a car are those of its assignments, [start, end), as they are once everything is applied that was asked for
before; then what is asked for here changes them, in its order. Whoever calls holds the customer and has nothing pending
but that, so nobody else can ask for the same time meanwhile. An assignment of no length overlaps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

from keyrack.assignments import applying
from keyrack.assignments.asking import Wanted
from keyrack.assignments.rules import LIFETIME, Assignment
from keyrack.database.connection import Connection

# For each span the first assignments of its car that overlap it, without those that are to change
BESIDE: LiteralString = """
select w.place, a.assignment_id, a.user_id, to_char(a.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start,
  to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as end
from unnest($2::integer[], $3::integer[], $4::text[], $5::text[]) w (place, car_id, start, "end")
cross join lateral (
  select * from assignment a
  where a.customer_id = $1 and a.car_id = w.car_id and a.starts_at < coalesce(w."end"::timestamptz, 'infinity')
    and coalesce(a.ends_at, 'infinity') > greatest(w.start::timestamptz, a.starts_at)
    and (w."end" is null or w."end" > w.start)
    and a.assignment_id not in (select unnest($6::integer[]))
  order by a.starts_at, a.assignment_id limit $7) a
order by w.place, a.starts_at, a.assignment_id
"""

Told = Mapping[str, Any]  # {"assignmentId": ..} or {"item": ..}, with userId, start, end


@dataclass(frozen=True, slots=True)
class Span:
    """A time of a car; times are texts `yyyy-MM-ddTHH:mm:ssZ`, which sort as the times do."""

    car: int
    start: str
    end: str | None  # None: without end

    def lies_in(self, other: Span) -> bool:
        ends_in = other.end is None or (self.end is not None and self.end <= other.end)
        return self.car == other.car and self.start >= other.start and ends_in


def _span(assignment: Assignment) -> Span:
    return Span(assignment.car, assignment.start, assignment.end)


@dataclass(frozen=True, slots=True)
class Overlap:
    """With whom something overlaps, as far as it is told; whether there are more; whether that is why not to do it.

    What takes no time of a car that its assignment did not have is never refused: to take back must be possible.
    """

    told: Sequence[Told] = ()
    more: bool = False
    is_new: bool = False


NEVER = "~"  # behind every time


class _Book:
    """The times that change here, car by car: of assignments that are to change or to end, and of new ones."""

    def __init__(self, present: Mapping[int, Assignment]) -> None:
        self.present = dict(present)  # as it is by now
        self._cars: dict[int, dict[tuple[str, int], Assignment]] = {}
        for id, assignment in present.items():
            self._enter(("assignmentId", id), assignment)

    def meant(self, wanted: Wanted) -> Assignment | None:
        """The assignment as it would be; None where it is to end, or is not there any more."""
        if wanted.kind == "CreateAssignment":
            request, user = wanted.request, wanted.user or 0
            return Assignment(None, wanted.car or 0, user, request["start"], request["end"], LIFETIME, None)
        before = self.present.get(wanted.assignment or 0)
        return None if before is None or wanted.kind == "DeleteAssignment" else before.patched(wanted.request)

    def note(self, place: int, wanted: Wanted, meant: Assignment | None) -> None:
        """It is done."""
        who = _who(place, wanted)
        if (before := self.present.pop(wanted.assignment or 0, None)) is not None:
            self._cars[before.car].pop(who, None)
        if meant is not None:
            self._enter(who, meant)
        if meant is not None and wanted.assignment is not None:
            self.present[wanted.assignment] = meant

    def _enter(self, who: tuple[str, int], assignment: Assignment) -> None:
        there = self._cars.setdefault(assignment.car, {})
        if assignment.start < (assignment.end or NEVER):
            there[who] = assignment

    def overlapping(self, place: int, wanted: Wanted, span: Span) -> list[Told]:
        """What changes here, and overlaps."""
        own, start, end = _who(place, wanted), span.start, span.end or NEVER
        if start >= end:
            return []
        return [
            _told({name: number}, there.user, _span(there))
            for (name, number), there in self._cars.get(span.car, {}).items()
            if there.start < end and start < (there.end or NEVER) and (name, number) != own
        ]


def _who(place: int, wanted: Wanted) -> tuple[str, int]:
    """By what others are told of it."""
    return ("item", place) if wanted.assignment is None else ("assignmentId", wanted.assignment)


def _told(who: Mapping[str, int], user: int, span: Span) -> Told:
    return {**who, "userId": user, "start": span.start, "end": span.end}


async def find(
    connection: Connection, customer: int, wanted: Mapping[int, Wanted], most: int, *, refuse: bool
) -> dict[int, Overlap]:
    """With whom each of these overlaps, by its place in the batch, `most` told of each.

    With `refuse`, what takes a time anew that somebody else has is taken as not done by those behind it.
    """
    ids = {one.assignment for one in wanted.values() if one.assignment is not None}
    there = await applying.present(connection, [(customer, id) for id in sorted(ids)])
    book = _Book({id: assignment for (_, id), assignment in there.items()})
    foreseen = _foreseen(wanted, _Book(book.present))
    beside = await _beside(connection, customer, foreseen, ids, most + 1)
    found: dict[int, Overlap] = {}
    for place, one in wanted.items():
        meant, before = book.meant(one), book.present.get(one.assignment or 0)
        if meant is None:
            book.note(place, one, meant)
            continue
        span = _span(meant)
        if span != foreseen.get(place):  # what came before it was not done
            beside |= await _beside(connection, customer, {place: span}, ids, most + 1)
        told = [*beside.get(place, ()), *book.overlapping(place, one, span)]
        is_new = bool(told) and (before is None or not span.lies_in(_span(before)))
        found[place] = Overlap(told[:most], len(told) > most, is_new)
        if not (refuse and is_new):
            book.note(place, one, meant)
    return found


def _foreseen(wanted: Mapping[int, Wanted], book: _Book) -> dict[int, Span]:
    """The span of each, if all of them are done."""
    spans: dict[int, Span] = {}
    for place, one in wanted.items():
        meant = book.meant(one)
        if meant is not None:
            spans[place] = _span(meant)
        book.note(place, one, meant)
    return spans


async def _beside(
    connection: Connection, customer: int, spans: Mapping[int, Span], but: set[int], most: int
) -> dict[int, list[Told]]:
    """What overlaps each of the spans and does not change here."""
    rows = await connection.fetch(
        BESIDE, customer, list(spans), [span.car for span in spans.values()], [span.start for span in spans.values()],
        [span.end for span in spans.values()], sorted(but), most,
    )  # fmt: skip
    found: dict[int, list[Told]] = {place: [] for place in spans}
    for row in rows:
        span = Span(0, row["start"], row["end"])
        found[row["place"]].append(_told({"assignmentId": row["assignment_id"]}, row["user_id"], span))
    return found
