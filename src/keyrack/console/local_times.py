"""Times in the person's zone: shown on pages, and read from form fields."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel.dates import format_date, format_skeleton, format_time, get_timezone_gmt
from babel.units import format_unit
from markupsafe import Markup

START_OF_CALENDAR = datetime.min.replace(tzinfo=UTC)
END_OF_CALENDAR = datetime.max.replace(microsecond=0, tzinfo=UTC)
UNKNOWN = "UTC"  # the zone if the browser sent none
DAY, DAY_OF_THIS_YEAR = "yMMMEd", "MMMEd"  # with the weekday; names of CLDR skeletons


class NoSuchTime(ValueError):
    """A time that does not exist in the zone, because the clocks skip it in spring."""


@dataclass(frozen=True)
class Clock:
    """A person's clock: the name of the zone (IANA) and the locale (Babel)."""

    name: str
    locale: str

    @cached_property
    def zone(self) -> ZoneInfo:
        try:
            return ZoneInfo(self.name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return ZoneInfo(UNKNOWN)

    @property
    def shown(self) -> str:
        """The zone for people, for example `Europe/Berlin (+01:00)`."""
        offset = get_timezone_gmt(datetime.now(self.zone), "iso8601", locale=self.locale)
        return UNKNOWN if self.zone.key == UNKNOWN else f"{self.zone.key} ({offset})"

    def moment(self, time: str | datetime | None, format: str = "medium") -> Markup:
        """A time with its weekday as `<time>`, "" for None.

        `format` is `short` (to the minute, without the current year), `minute`, `medium` (to the second), or `long`
        (with the zone, in full words).

        A time outside the years 1 to 9999 of this clock is shown in UTC, with the zone. For example,
        9999-12-31T23:59:59Z, the "unlimited" of other systems, is in the year 10000 east of Greenwich.
        """
        if not time:
            return Markup("")
        then = instant(time)
        there = self._exact(then)
        if there is None:
            return _moment(then, then, format, self.locale, UNKNOWN)
        if format == "short":
            format = DAY_OF_THIS_YEAR if there.year == datetime.now(self.zone).year else "minute"
        return _moment(then, there, format, self.locale)

    def local(self, time: str | datetime) -> datetime:
        """A time on this clock, for fields and for places in a row. The order of times is kept.

        Python has no local time outside the years 1 to 9999. A time outside becomes the first or the last time of
        these years.
        """
        then = instant(time)
        return self._exact(then) or _nearest_end(then).replace(tzinfo=self.zone)

    def _exact(self, then: datetime) -> datetime | None:
        """A time on this clock, None outside the years 1 to 9999."""
        try:
            return then.astimezone(self.zone)
        except OverflowError:
            return None

    def text(self, time: str | datetime) -> str:
        """A time for files: `2026-11-22 08:00:00`. Outside the years 1 to 9999 it is in UTC, with a `Z`."""
        then = instant(time)
        there = self._exact(then)
        return f"{(there or then).replace(tzinfo=None).isoformat(' ', 'seconds')}{'' if there else 'Z'}"

    def end_of(self, day: date) -> datetime:
        """The end of a day of this clock, in UTC. It is at most the last time of the calendar in whole seconds."""
        return END_OF_CALENDAR if day == date.max else midnight(day + timedelta(days=1), self.zone)

    def day(self, time: str | datetime, format: str = DAY) -> str:
        """The day of a time, with its weekday unless `format` is another format of Babel."""
        return _day(self.local(time), format, self.locale)

    def calendar_date(self, time: str | datetime) -> date:
        """The calendar date of a stored time, for example of a contract's end.

        Dates are stored as midnight UTC, which is the day before west of Greenwich. Any other time is read on this
        clock.
        """
        then = in_utc(instant(time))
        return then.date() if then == midnight(then.date(), UTC) else self.local(time).date()

    def calendar_date_shown(self, time: str | datetime | None) -> str:
        """The calendar date in words, with its weekday; "" for None."""
        return _day(self.calendar_date(time), DAY, self.locale) if time else ""

    def duration(self, text: str) -> str:
        """Days or hours of ISO 8601, for example `P90D` or `PT24H`, in words."""
        unit = "duration-hour" if text.endswith("H") else "duration-day"
        return format_unit(int(text.strip("PTDH")), unit, locale=self.locale)

    def field(self, time: str | datetime | None) -> str:
        """A time as the value of a `datetime-local` field: `2026-11-22T08:00`, "" for None."""
        return self.local(time).replace(tzinfo=None).isoformat(timespec="minutes") if time else ""

    def last_day(self, end: str | datetime) -> date:
        """The last day of this clock before `end`, the inverse of `end_of`."""
        there = self.local(end)
        is_midnight = there.time() == time() and there.date() != date.min
        return there.date() - timedelta(days=is_midnight)

    def next_hour(self) -> str:
        """The next full hour of this clock, as the value of a field. It is not a full hour of UTC in every zone."""
        now = datetime.now(self.zone)
        begun = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
        return self.field(in_utc(now) - begun + timedelta(hours=1))

    def read(self, text: str) -> str:
        """The time of a `datetime-local` field, as RFC 3339 in UTC. Raises `ValueError` if it is invalid.

        An hour occurs twice when the clocks are put back: the first one is used. An hour is missing when they are put
        forward: raises `NoSuchTime`, because a guess would move the start or the end of an access.
        """
        typed = datetime.fromisoformat(text)
        if typed.tzinfo is not None:
            raise ValueError("a local time has no offset")
        there = typed.replace(tzinfo=self.zone, fold=0)
        moment = there.astimezone(UTC)
        if moment.astimezone(self.zone).replace(tzinfo=None) != typed:
            raise NoSuchTime(text)
        return utc(moment)

    def read_field(self, text: str, exact: str) -> str:
        """The time of a `datetime-local` field that first showed the time `exact` ("" for None).

        Returns `exact`, with its seconds, if the field still shows it; otherwise the typed time. Raises `ValueError`.
        """
        return utc(instant(exact)) if exact and text == self.field(exact) else self.read(text)

    def comes_twice(self, text: str) -> bool:
        """Whether the typed time is in the hour that occurs twice, when the clocks are put back."""
        try:
            typed = datetime.fromisoformat(text).replace(tzinfo=self.zone)
            first, second = typed.replace(fold=0).astimezone(UTC), typed.replace(fold=1).astimezone(UTC)
        except (ValueError, OverflowError):
            return False
        return first < second


@lru_cache(maxsize=10_000)
def _moment(time: datetime, local: datetime, format: str, locale: str, zone: str = "") -> Markup:
    """The markup of `Clock.moment`, cached: a list repeats many times, and each takes Babel about 50 µs.

    `zone` is the name of a zone other than the clock's, else empty.
    """
    if format == "long":
        shown = f"{format_date(local, 'full', locale)}, {format_time(local, 'long', locale=locale)}"
    else:
        day = _day(local, DAY_OF_THIS_YEAR if format == DAY_OF_THIS_YEAR else DAY, locale)
        shown = f"{day}, {format_time(local, 'medium' if format == 'medium' else 'short', locale=locale)}"
    if zone and zone not in shown:  # longer formats contain the zone
        shown = f"{shown} {zone}"
    return Markup('<time datetime="{}">{}</time>').format(utc(time), shown)


def _day(day: date, format: str, locale: str) -> str:
    if format in (DAY, DAY_OF_THIS_YEAR):
        return format_skeleton(format, day, locale=locale)
    return format_date(day, format, locale)


def instant(time: str | datetime) -> datetime:
    """A time of an API answer (RFC 3339)."""
    return datetime.fromisoformat(time) if isinstance(time, str) else time


def utc(time: datetime) -> str:
    """A time as RFC 3339 in UTC, in whole seconds."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def in_utc(time: datetime) -> datetime:
    """A time of any zone in UTC. Outside the years 1 to 9999 it becomes the first or the last time of these years."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return _nearest_end(time)


def midnight(day: date, zone: tzinfo) -> datetime:
    """The beginning of a day in a zone, in UTC."""
    return in_utc(datetime.combine(day, time(), zone))


def _nearest_end(time: datetime) -> datetime:
    """The first time of the calendar for a time of year 1, otherwise the last one. In whole seconds."""
    return START_OF_CALENDAR if time.year == 1 else END_OF_CALENDAR
