"""In charge of times on the pages: shown in the person's zone, and read back from what the person typed in it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel.dates import format_date, format_datetime, format_skeleton, format_time, get_timezone_gmt
from babel.units import format_unit
from markupsafe import Markup

END_OF_CALENDAR = datetime.max.replace(microsecond=0, tzinfo=UTC)
UNKNOWN = "UTC"  # the zone of somebody who never said one
THIS_YEAR = "MMMd"  # what is shown of such a day, as CLDR names it


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
        """A time as `<time>`, "" for none; `format` is `short`, to the minute and without this year, or one of
        Babel's: `medium`, `long`."""
        if not time:
            return Markup("")
        then = instant(time)
        there = self.local(then)
        if format == "short" and there.year == datetime.now(self.zone).year:
            format = THIS_YEAR
        return _moment(then, there, format, self.locale)

    def local(self, time: str | datetime) -> datetime:
        """A time as the clock shows it.

        Beyond the years 1 to 9999 no clock of Python shows anything, so the first or last time of the calendar stands
        for the time: 9999-12-31T23:59:59Z, the "unlimited" of other systems, lies in the year 10000 east of Greenwich.
        """
        then = instant(time)
        try:
            return then.astimezone(self.zone)
        except OverflowError:
            end = datetime.min.replace(tzinfo=UTC) if then.year == 1 else datetime.max.replace(tzinfo=UTC)
            return end.replace(tzinfo=self.zone)

    def end_of(self, day: date) -> datetime:
        """When a day of this clock is over, in UTC, at most in whole seconds the last time of the calendar."""
        try:
            return datetime.combine(day + timedelta(days=1), time(), self.zone).astimezone(UTC)
        except OverflowError:  # an early day ends in year 1 in any case
            return END_OF_CALENDAR

    def day(self, time: str | datetime, format: str = "medium") -> str:
        """The day of a time, in words."""
        return format_date(self.local(time), format, locale=self.locale)

    def duration(self, text: str) -> str:
        """Days or hours of ISO 8601, such as `P90D` or `PT24H`, in words."""
        unit = "duration-hour" if text.endswith("H") else "duration-day"
        return format_unit(int(text.strip("PTDH")), unit, locale=self.locale)

    def field(self, time: str | datetime | None) -> str:
        """A time as the value of a `datetime-local`: `2026-11-22T08:00`, "" for none."""
        return self.local(time).replace(tzinfo=None).isoformat(timespec="minutes") if time else ""

    def next_hour(self) -> str:
        """The next full hour that the clock shows, as `field` has it: not everywhere is it that of UTC."""
        now = datetime.now(self.zone)
        begun = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
        return self.field(now.astimezone(UTC) - begun + timedelta(hours=1))

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

    def comes_twice(self, text: str) -> bool:
        """Whether what was typed is a time of the hour that comes twice, as the clocks are put back."""
        try:
            typed = datetime.fromisoformat(text).replace(tzinfo=self.zone)
            first, second = typed.replace(fold=0).astimezone(UTC), typed.replace(fold=1).astimezone(UTC)
        except (ValueError, OverflowError):
            return False
        return first < second


@lru_cache(maxsize=10_000)
def _moment(time: datetime, local: datetime, format: str, locale: str) -> Markup:
    """A list that is loaded again shows nearly the same times again, and each takes Babel some 50 µs."""
    if format in ("short", THIS_YEAR):  # the day as in longer forms; Babel's own is in digits
        is_whole = format == "short"
        day = format_date(local, "medium", locale) if is_whole else format_skeleton(format, local, locale=locale)
        shown = f"{day}, {format_time(local, 'short', locale=locale)}"
    else:
        shown = format_datetime(local, format, locale=locale)
    return Markup('<time datetime="{}">{}</time>').format(utc(time), shown)


def instant(time: str | datetime) -> datetime:
    """A time of an answer (RFC 3339)."""
    return datetime.fromisoformat(time) if isinstance(time, str) else time


def utc(time: datetime) -> str:
    """RFC 3339 in UTC, in whole seconds."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
