"""Overlap detection: other assignments of a car within a requested period.

The periods of a car are those of its assignments, [start, end), after all earlier requests were applied. The requests
of the batch then change them, in order. An assignment of zero length overlaps nothing.

The caller has locked the customer, and nothing else is pending. So the later of two batches that look for overlaps sees
the requests of the earlier one. A request that does not look, such as a single one, may still take the same period
during the batch or afterwards.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, LiteralString

from keyrack.assignments import apply
from keyrack.assignments.rules import LIFETIME, Assignment
from keyrack.assignments.submission import OperationRequest
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest
from keyrack.db.connection import Connection, Row

COMPARED = 50_000  # assignments that a batch is compared with, at most
BREATH = 25  # items after which control returns to the event loop
READ = 1_000  # rows after which control returns to the event loop
BLOCK = 64  # assignments in a block of a car, whose latest end is stored
TOO_MANY = ErrorCode(
    "too-many-overlaps",
    "Couldn't carry out the batch. Its cars have more than {most} assignments"
    " between its first start and its last end.",
    "Send fewer cars, or a shorter time range, in one batch.",
)

# The assignments of each car that overlap a period, except those that the batch changes or ends
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

OverlapEntry = Mapping[str, Any]  # {"assignmentId": ..} or {"item": ..}, with userId, start, end


@dataclass(frozen=True, slots=True)
class CarPeriod:
    """A period of a car. Times are texts `yyyy-MM-ddTHH:mm:ssZ`, which sort chronologically."""

    car: int
    start: str
    end: str | None  # None: without end

    def with_(self, other: CarPeriod) -> CarPeriod:
        """The period from the earlier start to the later end of both."""
        end = None if self.end is None or other.end is None else max(self.end, other.end)
        return CarPeriod(self.car, min(self.start, other.start), end)

    def lies_in(self, other: CarPeriod) -> bool:
        ends_in = other.end is None or (self.end is not None and self.end <= other.end)
        return self.car == other.car and self.start >= other.start and ends_in


def _span(assignment: Assignment) -> CarPeriod:
    return CarPeriod(assignment.car, assignment.start, assignment.end)


@dataclass(frozen=True, slots=True)
class OverlapReport:
    """The overlaps of a request: the listed ones, whether there are more, and whether `refuse` rejects it.

    A change that keeps the car, within the period that its assignment already had, is never rejected: a caller must
    always be able to give time back.
    """

    entries: Sequence[OverlapEntry] = ()
    has_more: bool = False
    is_new: bool = False


NEVER = "~"  # sorts after every time


class _ChangedPeriods:
    """The periods that the batch changes, by car: of assignments that it changes or ends, and of new ones."""

    def __init__(self, present: Mapping[int, Assignment]) -> None:
        self.present = dict(present)  # their state after the items so far
        self._cars: dict[int, dict[tuple[str, int], Assignment]] = {}
        for id, assignment in present.items():
            self._enter(("assignmentId", id), assignment)

    def resulting(self, operation: OperationRequest) -> Assignment | None:
        """The assignment after the operation; None if it ends or no longer exists."""
        if operation.kind == "CreateAssignment":
            request, user = operation.request, operation.user or 0
            return Assignment(None, operation.car or 0, user, request["start"], request["end"], LIFETIME, None)
        before = self.present.get(operation.assignment or 0)
        return None if before is None or operation.kind == "DeleteAssignment" else before.patched(operation.request)

    def note(self, place: int, request: OperationRequest, assignment: Assignment | None) -> None:
        """Apply the operation to the periods."""
        reference = _reference(place, request)
        if (before := self.present.pop(request.assignment or 0, None)) is not None:
            self._cars[before.car].pop(reference, None)
        if assignment is not None:
            self._enter(reference, assignment)
        if assignment is not None and request.assignment is not None:
            self.present[request.assignment] = assignment

    def _enter(self, reference: tuple[str, int], assignment: Assignment) -> None:
        there = self._cars.setdefault(assignment.car, {})
        if assignment.start < (assignment.end or NEVER):
            there[reference] = assignment

    def overlapping(self, place: int, request: OperationRequest, span: CarPeriod) -> Iterator[OverlapEntry]:
        """The overlapping entries among the changed ones, found lazily."""
        own, start, end = _reference(place, request), span.start, span.end or NEVER
        if start >= end:
            return
        for reference, there in self._cars.get(span.car, {}).items():
            if there.start < end and start < (there.end or NEVER) and reference != own:
                yield _entry(reference, there.user, _span(there))


def _reference(place: int, request: OperationRequest) -> tuple[str, int]:
    """The member and number by which a report names the assignment."""
    return ("item", place) if request.assignment is None else ("assignmentId", request.assignment)


def _entry(reference: tuple[str, int], user: int, span: CarPeriod) -> OverlapEntry:
    name, number = reference
    return {name: number, "userId": user, "start": span.start, "end": span.end}


async def find(
    connection: Connection, customer: int, requests: Mapping[int, OperationRequest], max_entries: int, *, refuse: bool
) -> dict[int, OverlapReport]:
    """The overlaps of each request, by its place in the batch.

    A report lists at most `max_entries`. An end, and a change of an assignment that no longer exists, have no report.
    With `refuse`, a request that newly overlaps counts as not done for the requests after it.

    Raises `BadRequest` if there are too many assignments to compare with.
    """
    ids = {request.assignment for request in requests.values() if request.assignment is not None}
    present = await apply.present(connection, [(customer, id) for id in sorted(ids)])
    book = _ChangedPeriods({id: assignment for (_, id), assignment in present.items()})
    foreseen = await _foreseen(requests, _ChangedPeriods(book.present))
    unchanged = _UnchangedPeriods(connection, customer, ids)
    await unchanged.read(foreseen.values())
    reports: dict[int, OverlapReport] = {}
    async for place, request in _breathing(requests):
        resulting, before = book.resulting(request), book.present.get(request.assignment or 0)
        if resulting is None:
            book.note(place, request, resulting)
            continue
        span = _span(resulting)
        if span != foreseen.get(place):  # a request before it was rejected
            await unchanged.read([span])
        conflicts = list(
            islice(chain(unchanged.overlapping(span), book.overlapping(place, request, span)), max_entries + 1)
        )
        is_new = bool(conflicts) and (before is None or not span.lies_in(_span(before)))
        reports[place] = OverlapReport(conflicts[:max_entries], len(conflicts) > max_entries, is_new)
        if not (refuse and is_new):
            book.note(place, request, resulting)
    return reports


async def _breathing(requests: Mapping[int, OperationRequest]) -> AsyncIterator[tuple[int, OperationRequest]]:
    """Each request by its place. Returns control to the event loop every `BREATH` items."""
    for number, placed in enumerate(requests.items(), 1):
        yield placed
        if not number % BREATH:
            await asyncio.sleep(0)


async def _foreseen(requests: Mapping[int, OperationRequest], book: _ChangedPeriods) -> dict[int, CarPeriod]:
    """The period of each request if all of them succeed."""
    spans: dict[int, CarPeriod] = {}
    async for place, request in _breathing(requests):
        assignment = book.resulting(request)
        if assignment is not None:
            spans[place] = _span(assignment)
        book.note(place, request, assignment)
    return spans


class _UnchangedPeriods:
    """Assignments that the batch leaves unchanged, by car, as far as they overlap the periods read so far."""

    def __init__(self, connection: Connection, customer: int, but: set[int]) -> None:
        self._connection, self._customer, self._but = connection, customer, sorted(but)
        self._times: dict[int, CarPeriod] = {}  # of each car, from the first start to the last end
        self._cars: dict[int, _Car] = {}

    async def read(self, spans: Iterable[CarPeriod]) -> None:
        """Read what overlaps these periods, unless it was read before.

        Raises `BadRequest` if there are more than `COMPARED` assignments.
        """
        wider: dict[int, CarPeriod] = {}
        for span in spans:
            period = wider.get(span.car) or self._times.get(span.car)
            if period is None or not span.lies_in(period):
                wider[span.car] = span if period is None else period.with_(span)
        if not wider:
            return
        rows = await self._connection.fetch(
            BESIDE, self._customer, list(wider), [span.start for span in wider.values()],
            [span.end for span in wider.values()], self._but, COMPARED + 1,
        )  # fmt: skip
        if len(rows) > COMPARED:
            raise BadRequest(TOO_MANY.format(most=COMPARED))
        self._times |= wider
        self._cars |= {car: _Car() for car in wider}
        for first in range(0, len(rows), READ):
            for row in rows[first : first + READ]:
                self._cars[row["car_id"]].enter(row)
            await asyncio.sleep(0)

    def overlapping(self, span: CarPeriod) -> Iterator[OverlapEntry]:
        return self._cars[span.car].overlapping(span)


class _Car:
    """A car's assignments by start, in blocks whose latest end is known.

    A search skips each block that ends no later than the searched period starts.
    """

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._starts: list[str] = []
        self._last: list[str] = []  # the latest end of each block

    def enter(self, row: Row) -> None:
        """Append an assignment. Calls come in ascending order of the start."""
        end = row["end"] or NEVER
        if len(self._rows) % BLOCK:
            self._last[-1] = max(self._last[-1], end)
        else:
            self._last.append(end)
        self._rows.append(row)
        self._starts.append(row["start"])

    def overlapping(self, span: CarPeriod) -> Iterator[OverlapEntry]:
        """The overlapping entries by their start, found lazily."""
        if span.start >= (span.end or NEVER):
            return
        until = bisect_left(self._starts, span.end or NEVER)
        for block, first in enumerate(range(0, until, BLOCK)):
            if self._last[block] <= span.start:
                continue
            for row in self._rows[first : min(first + BLOCK, until)]:
                if (row["end"] or NEVER) > span.start:
                    there = CarPeriod(span.car, row["start"], row["end"])
                    yield _entry(("assignmentId", row["assignment_id"]), row["user_id"], there)
