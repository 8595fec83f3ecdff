"""Exclusive bookings: two exclusive assignments of one car never overlap.

A shared assignment blocks no booking.

A booking blocks its car from its start until its end and the gap of its car, [start, end + gap). A booking without an
end blocks the car for ever. A booking of no length blocks nothing.

Nothing here accesses the database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from keyrack.api.schema.request_body import format_timestamp

NEVER = "~"  # sorts after every time
LISTED = 10  # bookings that a rejection lists, at most
LONGEST_GAP = 86_400  # seconds


@dataclass(frozen=True, slots=True)
class BookingPolicy:
    """The default of a car's new assignments, and the gap in seconds."""

    is_exclusive: bool = False
    gap: int = 0


# An assignment by its id, or by its index among the created ones
BookingReference = tuple[str, int]


def of_assignment(id: int) -> BookingReference:
    return ("assignment", id)


def of_created(index: int) -> BookingReference:
    return ("created", index)


@dataclass(frozen=True, slots=True)
class Booking:
    """The time for which an exclusive assignment blocks its car. Times are texts that sort chronologically."""

    reference: BookingReference
    start: str
    end: str | None  # None: no end
    until: str  # the end and the gap

    @property
    def is_empty(self) -> bool:
        return self.start >= self.until

    def overlaps(self, other: Booking) -> bool:
        return self.start < other.until and other.start < self.until

    def lies_in(self, other: Booking) -> bool:
        return self.start >= other.start and self.until <= other.until


def booking(reference: BookingReference, start: str, end: str | None, gap: int) -> Booking:
    """The booking of an exclusive assignment with this gap."""
    if end is None:
        return Booking(reference, start, None, NEVER)
    return Booking(reference, start, end, start if end <= start else blocked_until(end, gap))


def blocked_until(end: str, gap: int) -> str:
    """The end and the gap, as a text.

    >>> blocked_until("2030-01-01T10:00:00Z", 1800)
    '2030-01-01T10:30:00Z'
    """
    if not gap:
        return end
    try:
        return format_timestamp(datetime.fromisoformat(end).astimezone(UTC) + timedelta(seconds=gap))
    except OverflowError:  # beyond the year 9999
        return NEVER


class CarBookings:
    """The bookings of one car by their start. They do not overlap, so their ends have the same order."""

    __slots__ = ("_bookings", "_starts")

    def __init__(self, bookings: Iterable[Booking] = ()) -> None:
        self._bookings = sorted((one for one in bookings if not one.is_empty), key=lambda one: one.start)
        self._starts = [one.start for one in self._bookings]

    def copy(self) -> CarBookings:
        return CarBookings(self._bookings)

    def overlapping(self, wanted: Booking) -> Sequence[Booking]:
        """The bookings that overlap this one, by start; not its own."""
        if wanted.is_empty:
            return ()
        overlaps: list[Booking] = []
        for place in range(bisect_left(self._starts, wanted.until) - 1, -1, -1):
            other = self._bookings[place]
            if other.until <= wanted.start:
                break
            if other.reference != wanted.reference:
                overlaps.append(other)
        return overlaps[::-1]

    def add(self, new: Booking) -> None:
        """Add a booking that overlaps no other one."""
        if not new.is_empty:
            place = bisect_left(self._starts, new.start)
            self._starts.insert(place, new.start)
            self._bookings.insert(place, new)

    def remove(self, old: Booking) -> None:
        """Remove a booking, if it is there."""
        for place in range(bisect_left(self._starts, old.start), len(self._starts)):
            if self._starts[place] != old.start:
                return
            if self._bookings[place].reference == old.reference:
                del self._starts[place], self._bookings[place]
                return
