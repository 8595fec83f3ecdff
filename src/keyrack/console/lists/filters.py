"""In charge of filters: what somebody chooses in words, and the OData that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Protocol, Self

from keyrack.api.permissions import Permission
from keyrack.console.local_times import midnight, utc
from keyrack.console.rendering import clock, gettext
from keyrack.http.page_router import Visit

OFFERED = 200  # things that a filter offers; any other is reached by its own page, or by the address
LONGEST = 250  # characters of a text
May = Callable[[Permission | None], bool]  # whether somebody has what something wants


class ListFilter(Protocol):
    """One filter of a list; `name` is its parameter in the address."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def input(self) -> str:
        """How it is asked for: select, choices (many to select from, by typing), date, text, or "" for one that only
        addresses have."""
        ...

    @property
    def permission(self) -> Permission | None:
        """What it wants beside that of the list."""
        ...

    def within(self, may: May) -> ListFilter:
        """The filter with what may be chosen."""
        ...

    def odata(self, zone: tzinfo, value: str) -> str:
        """The condition, whose days are those of the zone. Raises `ValueError` for what is no value of it."""
        ...

    async def shown(self, visit: Visit, value: str) -> str:
        """The value in words. Raises the `Refusal` of what it names."""
        ...

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        """What can be chosen: values and their words."""
        ...


@dataclass(frozen=True, slots=True)
class FilterOption:
    """One value of a filter. `odata` may have the places `{now}` and `{ago}`.

    `{ago}` is the time that is `days` and `hours` back, or ahead if these are negative.
    """

    value: str
    label: str
    odata: str
    days: int = 0
    permission: Permission | None = None
    hours: int = 0


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of few."""

    name: str
    label: str
    of: tuple[FilterOption, ...]
    input: str = "select"
    permission: Permission | None = None

    def within(self, may: May) -> OneOf:
        return replace(self, of=tuple(option for option in self.of if may(option.permission)))

    def odata(self, zone: tzinfo, value: str) -> str:
        option, now = self._option(value), datetime.now(UTC)
        return option.odata.format(now=utc(now), ago=utc(now - timedelta(days=option.days, hours=option.hours)))

    async def shown(self, visit: Visit, value: str) -> str:
        return gettext(visit, self._option(value).label)

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        return [(option.value, gettext(visit, option.label)) for option in self.of]

    def _option(self, value: str) -> FilterOption:
        for option in self.of:
            if option.value == value:
                return option
        raise ValueError(value)


class UnrestrictedFilter:
    """A filter of which everything may be chosen, or nothing."""

    __slots__ = ()

    def within(self, may: May) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class Thing(UnrestrictedFilter):
    """A row of another list, by its id. `all` lists those to choose from, "" where they would be too many."""

    name: str
    label: str
    condition: str  # with a place {id}
    row: str
    title: Callable[[Mapping[str, Any]], str]
    all: str = ""
    order: str = "name"
    permission: Permission | None = None

    @property
    def input(self) -> str:
        return "select" if self.all else ""

    def odata(self, zone: tzinfo, value: str) -> str:
        if not (value.isascii() and value.isdigit() and len(value) <= 10):
            raise ValueError(value)
        return self.condition.format(id=int(value))

    async def shown(self, visit: Visit, value: str) -> str:
        return self.title((await visit.call("GET", self.row, value)).json)

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        if not self.all:
            return ()
        response = await visit.call("GET", self.all, query={"$orderby": self.order, "$top": str(OFFERED)})
        return [(str(row["id"]), self.title(row)) for row in response.json]


@dataclass(frozen=True, slots=True)
class TextFilter(UnrestrictedFilter):
    """A text that a field must have as it stands; `all` lists those that are often meant, and the page `choices` finds
    them by what is typed."""

    name: str
    label: str
    field: str
    all: str
    choices: str
    input: str = "choices"
    permission: Permission | None = Permission.KEYS_READ

    def odata(self, zone: tzinfo, value: str) -> str:
        if len(value) > LONGEST or not value.isprintable():
            raise ValueError(value)
        return f"{self.field} eq {quoted(value)}"

    async def shown(self, visit: Visit, value: str) -> str:
        return value

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        response = await visit.call("GET", self.all, query={"$top": str(OFFERED), "$orderby": "$it"})
        return [(text, text) for text in response.json]


@dataclass(frozen=True, slots=True)
class WordFilter(UnrestrictedFilter):
    """A text that nobody can list; `condition` has a place {text}."""

    name: str
    label: str
    condition: str
    input: str = "text"
    permission: Permission | None = None

    def odata(self, zone: tzinfo, value: str) -> str:
        if len(value) > LONGEST or not value.isprintable():
            raise ValueError(value)
        return self.condition.format(text=quoted(value))

    async def shown(self, visit: Visit, value: str) -> str:
        return value

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        return ()


@dataclass(frozen=True, slots=True)
class DayFilter(UnrestrictedFilter):
    """A day of the person's calendar: what is from its beginning on, or with `through` up to its end. `stored` is a
    field that is never before the other, and by which rows are stored."""

    name: str
    label: str
    field: str
    through: bool = False
    stored: str = ""
    input: str = "date"
    permission: Permission | None = None

    def odata(self, zone: tzinfo, value: str) -> str:
        day = date.fromisoformat(value)
        if not 1970 <= day.year <= 9000:
            raise ValueError(value)
        begin = midnight(day + timedelta(days=self.through), zone)
        if self.through:
            return f"{self.field} lt {utc(begin)}"
        return " and ".join(f"{field} ge {utc(begin)}" for field in (self.field, self.stored) if field)

    async def shown(self, visit: Visit, value: str) -> str:
        return clock(visit).day(midnight(date.fromisoformat(value), clock(visit).zone))

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        return ()


def quoted(text: str) -> str:
    """A text as OData writes it."""
    return "'" + text.replace("'", "''") + "'"
