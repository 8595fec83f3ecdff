"""In charge of overlaps: who else has a car within the time for which somebody asks for it.

The times of a car are those of its assignments, [start, end), as they are once everything is applied that was asked for
before; then what is asked for here changes them, in its order. Whoever calls holds the customer and has nothing pending
but that, so nobody else can ask for the same time meanwhile. An assignment of no length overlaps nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, LiteralString

from keyrack.assignments import applying
from keyrack.assignments.asking import Wanted
from keyrack.assignments.rules import LIFETIME, Assignment
from keyrack.database.connection import Connection, Row
from keyrack.errors import BadRequest
from keyrack.reasons import Reason

COMPARED = 50_000  # assignments that a batch is compared with, at most
TOO_MANY = Reason(
    "too-many-overlaps",
    "Couldn't carry out the batch. Its cars have more than {most} assignments"
    " between its first start and its last end.",
    "Send fewer cars, or times that lie closer together, in one batch.",
)

# The assignments of each car that overlap a time, without those that are to change
BESIDE: LiteralString = """
select w.car_id, a.assignment_id, a.user_id, to_char(a.starts_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as start,
  to_char(a.ends_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') as end
from unnest($2::integer[], $3::text[], $4::text[]) w (car_id, start, "end")
cross join lateral (
  select * from assignment a
  where a.customer_id = $1 and a.car_id = w.car_id and a.starts_at < coalesce(w."end"::timestamptz, 'infinity')
    and coalesce(a.ends_at, 'infinity') > greatest(w.start::timestamptz, a.starts_at)
    and a.assignment_id not in (select unnest($5::integer[]))
  order by a.starts_at, a.assignment_id) a
order by w.car_id, a.starts_at, a.assignment_id limit $6
"""

Told = Mapping[str, Any]  # {"assignmentId": ..} or {"item": ..}, with userId, start, end


@dataclass(frozen=True, slots=True)
class Span:
    """A time of a car; times are texts `yyyy-MM-ddTHH:mm:ssZ`, which sort as the times do."""

    car: int
    start: str
    end: str | None  # None: without end

    def with_(self, other: Span) -> Span:
        """From the first start to the last end of both."""
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return Span(self.car, min(self.start, other.start), end)

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
    beside = _Beside(connection, customer, ids)
    await beside.read(foreseen.values())
    found: dict[int, Overlap] = {}
    for place, one in wanted.items():
        meant, before = book.meant(one), book.present.get(one.assignment or 0)
        if meant is None:
            book.note(place, one, meant)
            continue
        span = _span(meant)
        if span != foreseen.get(place):  # what came before it was not done
            await beside.read([span])
        told = [*beside.overlapping(span, most + 1), *book.overlapping(place, one, span)]
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


class _Beside:
    """The assignments that do not change here, car by car, as far as they overlap the times that were read."""

    def __init__(self, connection: Connection, customer: int, but: set[int]) -> None:
        self._connection, self._customer, self._but = connection, customer, sorted(but)
        self._times: dict[int, Span] = {}  # of each car, from the first start to the last end
        self._cars: dict[int, _Car] = {}

    async def read(self, spans: Iterable[Span]) -> None:
        """Read what overlaps these, unless it has been read. Raises `BadRequest` where that is too much."""
        wider: dict[int, Span] = {}
        for span in spans:
            known = wider.get(span.car) or self._times.get(span.car)
            if known is None or not span.lies_in(known):
                wider[span.car] = span if known is None else known.with_(span)
        if not wider:
            return
        rows = await self._connection.fetch(
            BESIDE, self._customer, list(wider), [span.start for span in wider.values()],
            [span.end for span in wider.values()], self._but, COMPARED + 1,
        )  # fmt: skip
        if len(rows) > COMPARED:
            raise BadRequest(TOO_MANY.format(most=COMPARED))
        self._times |= wider
        found = {car: list(its) for car, its in groupby(rows, key=itemgetter("car_id"))}
        self._cars |= {car: _Car(found.get(car, [])) for car in wider}

    def overlapping(self, span: Span, most: int) -> list[Told]:
        return self._cars[span.car].overlapping(span, most)


class _Car:
    """The assignments of a car in the order of their starts, and a tree of the last ends among them: so what overlaps a
    time is found without looking at the others, however many there are."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._starts: list[str] = [row["start"] for row in rows]
        self._leaves = 1 << max(0, len(rows) - 1).bit_length()
        self._last = [""] * self._leaves + [row["end"] or NEVER for row in rows]
        self._last += [""] * (2 * self._leaves - len(self._last))
        for node in range(self._leaves - 1, 0, -1):
            self._last[node] = max(self._last[2 * node], self._last[2 * node + 1])

    def overlapping(self, span: Span, most: int) -> list[Told]:
        """The first `most` that overlap."""
        if span.start >= (span.end or NEVER):
            return []
        until = bisect_left(self._starts, span.end or NEVER)
        rows = (self._rows[place] for place in islice(self._ending_after(span.start, until, 1, 0, self._leaves), most))
        return [
            _told({"assignmentId": row["assignment_id"]}, row["user_id"], Span(span.car, row["start"], row["end"]))
            for row in rows
        ]

    def _ending_after(self, time: str, until: int, node: int, first: int, behind: int) -> Iterator[int]:
        """The places below a node, before `until`, whose assignments end after the time."""
        if first >= until or self._last[node] <= time:
            return
        if behind - first == 1:
            yield first
            return
        middle = (first + behind) // 2
        yield from self._ending_after(time, until, 2 * node, first, middle)
        yield from self._ending_after(time, until, 2 * node + 1, middle, behind)
