"""Filters of lists: the choices for people, and their OData."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Protocol, Self

from keyrack.api.permissions import Permission
from keyrack.console.local_times import midnight, utc
from keyrack.console.rendering import clock, gettext
from keyrack.http.page_router import Visit

OFFERED = 200  # options of a filter; others are reached by their own page or by the address
LONGEST = 250  # characters of a text
May = Callable[[Permission | None], bool]  # whether the visit has a permission


class ListFilter(Protocol):
    """One filter of a list. `name` is its parameter in the address."""

    @property
    def name(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def input(self) -> str:
        """The kind of its field: select, choices (search-as-you-type), date, text, or "" for addresses only."""
        ...

    @property
    def permission(self) -> Permission | None:
        """The permission in addition to that of the list."""
        ...

    def within(self, may: May) -> ListFilter:
        """The filter with the options that the visit may use."""
        ...

    def odata(self, zone: tzinfo, value: str) -> str:
        """The condition, with days of the zone. Raises `ValueError` for an invalid value."""
        ...

    async def shown(self, visit: Visit, value: str) -> str:
        """The value in words. Raises the `Refusal` of the object that it names."""
        ...

    async def options(self, visit: Visit) -> Sequence[tuple[str, str]]:
        """The options: values and their words."""
        ...


@dataclass(frozen=True, slots=True)
class FilterOption:
    """One value of a filter. `odata` may have the placeholders `{now}` and `{ago}`.

    `{ago}` is the time `days` and `hours` ago, or ahead if these are negative.
    """

    value: str
    label: str
    odata: str
    days: int = 0
    permission: Permission | None = None
    hours: int = 0


@dataclass(frozen=True, slots=True)
class OneOf:
    """A filter with a few options."""

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
    """A filter with permission for all of its options, or none."""

    __slots__ = ()

    def within(self, may: May) -> Self:
        return self


@dataclass(frozen=True, slots=True)
class Thing(UnrestrictedFilter):
    """A filter by a row of another list. `all` is the endpoint of the options, "" if there are too many."""

    name: str
    label: str
    condition: str  # with the placeholder {id}
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
    """A filter by the exact text of a field.

    `all` is the endpoint of common values; the page `choices` searches them.
    """

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
    """A filter by a free text. `condition` has the placeholder {text}."""

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
    """A filter by a day of the person's calendar: from its beginning on, or with `through` up to its end.

    `stored` is a field that is never earlier than the other one, and by which rows are stored.
    """

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
    """A text as an OData literal."""
    return "'" + text.replace("'", "''") + "'"
