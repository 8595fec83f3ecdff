"""In charge of times on the pages: shown in the person's zone, and read back from what the person typed in it."""

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
UNKNOWN = "UTC"  # the zone of somebody who never said one
DAY, DAY_OF_THIS_YEAR = "yMMMEd", "MMMEd"  # with the weekday, as CLDR names what is shown


class NoSuchTime(ValueError):
    """A time that the clocks of the zone never show, as they are put forward over it."""


@dataclass(frozen=True)
class Clock:
    """How a person's clock shows times: the zone's name (IANA) and the locale, as Babel names it."""

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
        """The zone for people, such as `Europe/Berlin (+01:00)`."""
        offset = get_timezone_gmt(datetime.now(self.zone), "iso8601", locale=self.locale)
        return UNKNOWN if self.zone.key == UNKNOWN else f"{self.zone.key} ({offset})"

    def moment(self, time: str | datetime | None, format: str = "medium") -> Markup:
        """A time with its weekday as `<time>`, "" for none.

        `format` is `short` (to the minute, without this year), `minute`, `medium` (to the second), or `long` (in whole
        words, with the zone).

        A time that lies beyond the years 1 to 9999 on this clock is shown in UTC, and names it: 9999-12-31T23:59:59Z,
        the "unlimited" of other systems, lies in the year 10000 east of Greenwich.
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
        """A time as the clock shows it, for fields and places in a row; the order of times stays.

        Beyond the years 1 to 9999 no clock of Python shows anything: the first or last time of these years stands for
        the time.
        """
        then = instant(time)
        return self._exact(then) or _nearest_end(then).replace(tzinfo=self.zone)

    def _exact(self, then: datetime) -> datetime | None:
        """A time as the clock shows it, None beyond the years 1 to 9999."""
        try:
            return then.astimezone(self.zone)
        except OverflowError:
            return None

    def text(self, time: str | datetime) -> str:
        """A time as files have it: `2026-11-22 08:00:00`. Beyond the years 1 to 9999 it is that of UTC, with a `Z`."""
        then = instant(time)
        there = self._exact(then)
        return f"{(there or then).replace(tzinfo=None).isoformat(' ', 'seconds')}{'' if there else 'Z'}"

    def end_of(self, day: date) -> datetime:
        """When a day of this clock is over, in UTC, at most in whole seconds the last time of the calendar."""
        return END_OF_CALENDAR if day == date.max else midnight(day + timedelta(days=1), self.zone)

    def day(self, time: str | datetime, format: str = DAY) -> str:
        """The day of a time, in words: with its weekday, unless `format` is another one of Babel's."""
        return _day(self.local(time), format, self.locale)

    def calendar_date(self, time: str | datetime) -> date:
        """The calendar date that a stored time stands for, such as a contract's end.

        Dates are stored as midnight of UTC, which is the day before west of Greenwich. Any other time is of this clock.
        """
        then = in_utc(instant(time))
        return then.date() if then == midnight(then.date(), UTC) else self.local(time).date()

    def calendar_date_shown(self, time: str | datetime | None) -> str:
        """The same in words, with its weekday; "" for none."""
        return _day(self.calendar_date(time), DAY, self.locale) if time else ""

    def duration(self, text: str) -> str:
        """Days or hours of ISO 8601, such as `P90D` or `PT24H`, in words."""
        unit = "duration-hour" if text.endswith("H") else "duration-day"
        return format_unit(int(text.strip("PTDH")), unit, locale=self.locale)

    def field(self, time: str | datetime | None) -> str:
        """A time as the value of a `datetime-local`: `2026-11-22T08:00`, "" for none."""
        return self.local(time).replace(tzinfo=None).isoformat(timespec="minutes") if time else ""

    def last_day(self, end: str | datetime) -> date:
        """The last day of this clock before `end`, whose end is `end_of`."""
        there = self.local(end)
        is_midnight = there.time() == time() and there.date() != date.min
        return there.date() - timedelta(days=is_midnight)

    def next_hour(self) -> str:
        """The next full hour that the clock shows, as `field` has it: not everywhere is it that of UTC."""
        now = datetime.now(self.zone)
        begun = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
        return self.field(in_utc(now) - begun + timedelta(hours=1))

    def read(self, text: str) -> str:
        """What was typed into a `datetime-local`, as RFC 3339 in UTC. Raises `ValueError`.

        Where the clocks are put back an hour comes twice: the first is meant. Where they are put forward an hour is
        missing: `NoSuchTime`, for to guess would move the begin or the end of somebody's access.
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
        """The time of a `datetime-local` field that showed the time `exact` first ("" for none).

        It is `exact`, with its seconds, if the field still shows that; otherwise the typed time. Raises `ValueError`.
        """
        return utc(instant(exact)) if exact and text == self.field(exact) else self.read(text)

    def comes_twice(self, text: str) -> bool:
        """Whether what was typed is a time of the hour that comes twice, as the clocks are put back."""
        try:
            typed = datetime.fromisoformat(text).replace(tzinfo=self.zone)
            first, second = typed.replace(fold=0).astimezone(UTC), typed.replace(fold=1).astimezone(UTC)
        except (ValueError, OverflowError):
            return False
        return first < second


@lru_cache(maxsize=10_000)
def _moment(time: datetime, local: datetime, format: str, locale: str, zone: str = "") -> Markup:
    """A time as `Clock.moment` shows it, remembered: a list shows many times again, and each takes Babel some 50 µs.

    `zone` is the name of a zone that is not the clock's own, else empty.
    """
    if format == "long":
        shown = f"{format_date(local, 'full', locale)}, {format_time(local, 'long', locale=locale)}"
    else:
        day = _day(local, DAY_OF_THIS_YEAR if format == DAY_OF_THIS_YEAR else DAY, locale)
        shown = f"{day}, {format_time(local, 'medium' if format == 'medium' else 'short', locale=locale)}"
    if zone and zone not in shown:  # longer forms name it
        shown = f"{shown} {zone}"
    return Markup('<time datetime="{}">{}</time>').format(utc(time), shown)


def _day(day: date, format: str, locale: str) -> str:
    if format in (DAY, DAY_OF_THIS_YEAR):
        return format_skeleton(format, day, locale=locale)
    return format_date(day, format, locale)


def instant(time: str | datetime) -> datetime:
    """A time of an answer (RFC 3339)."""
    return datetime.fromisoformat(time) if isinstance(time, str) else time


def utc(time: datetime) -> str:
    """RFC 3339 in UTC, in whole seconds."""
    return in_utc(time).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def in_utc(time: datetime) -> datetime:
    """A time of any zone in UTC. Beyond the years 1 to 9999 it is the first or last time of these years."""
    try:
        return time.astimezone(UTC)
    except OverflowError:
        return _nearest_end(time)


def midnight(day: date, zone: tzinfo) -> datetime:
    """When a day begins in a zone, in UTC."""
    return in_utc(datetime.combine(day, time(), zone))


def _nearest_end(time: datetime) -> datetime:
    """The first time of the calendar for a time of year 1; otherwise the last one. In whole seconds."""
    return START_OF_CALENDAR if time.year == 1 else END_OF_CALENDAR
