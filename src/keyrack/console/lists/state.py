"""The state of a list in its address: search, filters, order and columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from keyrack.console.lists.definition import List, ListColumn, chosen
from keyrack.console.rendering import clock, gettext
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

ROWS = 50  # of a page
LAST = 1_000_000  # the last page
DIGITS = 18  # of the number of a row
LONGEST = 200  # characters of a search
WORDS = 10  # of a search
LONGEST_FILTER = 2_000  # characters of a typed filter
OWN = ("q", "filter", "sort", "page", "columns", "rows")
WALKED = ("q", "filter", "older", "newer", "columns", "rows")  # parameters of a list that is paged by number
COMPACT = "compact"  # a value of `rows`

UNKNOWN = N_("This list has no parameter %(name)s. It has: %(known)s.")
TWICE = N_("The address has %(name)s more than once.")
NO_VALUE = N_("%(value)s is not a valid value of %(name)s.")
NO_SORT = N_("The list cannot be sorted by %(value)s.")
NO_COLUMN = N_("The list has no column %(value)s.")
TOO_LONG = N_("The search is too long: at most %(most)s characters and %(words)s words.")
FILTER_TOO_LONG = N_("The filter is too long: at most %(most)s characters.")


class InvalidListState(ValueError):
    """An invalid list address, with a translated text."""

    def __init__(self, visit: Visit, text: str, **values: object) -> None:
        super().__init__(gettext(visit, text, **values))


@dataclass(frozen=True, slots=True)
class ListState:
    """The state of a list.

    `filters` are the active ones, by name; `own` is a typed OData filter. A list that is paged by number has the rows
    before the number `older`, or after `newer`.
    """

    listing: List
    q: str = ""
    own: str = ""
    filters: tuple[tuple[str, str], ...] = ()
    sort: str = ""
    page: int = 1
    columns: tuple[str, ...] = ()
    rows: str = ""
    older: int = 0
    newer: int = 0

    @property
    def order(self) -> str:
        """The order: a column's key, with "-" descending."""
        return self.sort or self.listing.order

    @property
    def shown(self) -> list[ListColumn]:
        return chosen(self.listing, self.columns or self.listing.usual)

    @property
    def narrowed(self) -> bool:
        return bool(self.q or self.own or self.filters)

    def parts(self, *without: str) -> Iterator[tuple[str, str]]:
        """The parameters of the address in their order, without defaults and without these names."""
        pairs = [
            ("q", self.q),
            *self.filters,
            ("filter", self.own),
            ("sort", self.sort),
            ("columns", ",".join(self.columns)),
            ("rows", self.rows),
        ]
        pairs.append(("page", str(self.page) if self.page > 1 else ""))
        pairs += [("older", str(self.older or "")), ("newer", str(self.newer or ""))]
        yield from ((name, value) for name, value in pairs if value and name not in without)

    @property
    def here(self) -> str:
        """The query of this state."""
        return self.address(page=self.page, older=self.older, newer=self.newer)

    def address(self, *without: str, **change: Any) -> str:
        """The query with its "?", "" if it is empty. Changed parameters start at the first page."""
        changed = replace(self, **{"page": 1, "older": 0, "newer": 0, **change})
        query = urlencode(list(changed.parts(*without)), safe=",:")
        return f"?{query}" if query else ""


def read(listing: List, visit: Visit) -> ListState:
    """The state of the address. Raises `InvalidListState`."""
    given = {name: [value.strip() for value in values] for name, values in visit.query.items()}
    parameter_names = [*(WALKED if listing.walked else OWN), *(list_filter.name for list_filter in listing.filters)]
    for name, values in given.items():
        if name not in (*parameter_names, "column"):
            raise InvalidListState(visit, UNKNOWN, name=name, known=", ".join(parameter_names))
        if len(values) > 1 and name != "column":
            raise InvalidListState(visit, TWICE, name=name)
    said = {name: values[0] for name, values in given.items() if values[0]}
    return ListState(
        listing,
        _searched(visit, said.get("q", "")),
        _own(visit, said.get("filter", "")),
        _filters(visit, listing, said),
        _sort(visit, listing, said.get("sort", ""), is_search="q" in said),
        _page(visit, said.get("page", "1")),
        _columns(visit, listing, given.get("column") or said.get("columns", "").split(",")),
        _rows(visit, said.get("rows", "")),
        _number(visit, said, "older"),
        0 if "older" in said else _number(visit, said, "newer"),
    )


def is_tidy(visit: Visit) -> bool:
    """Whether the address is in the list's own form. Forms send empty fields, and check boxes one by one."""
    return "column" not in visit.query and all(values[-1].strip() for values in visit.query.values())


def _searched(visit: Visit, text: str) -> str:
    if len(text) > LONGEST or len(text.split()) > WORDS or "\0" in text:
        raise InvalidListState(visit, TOO_LONG, most=LONGEST, words=WORDS)
    return text


def _own(visit: Visit, text: str) -> str:
    if len(text) > LONGEST_FILTER:
        raise InvalidListState(visit, FILTER_TOO_LONG, most=LONGEST_FILTER)
    return text


def _filters(visit: Visit, listing: List, said: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    filters: list[tuple[str, str]] = []
    for list_filter in listing.filters:
        if value := said.get(list_filter.name):
            try:
                list_filter.odata(clock(visit).zone, value)
            except ValueError:
                raise InvalidListState(visit, NO_VALUE, value=value, name=gettext(visit, list_filter.label)) from None
            filters.append((list_filter.name, value))
    return tuple(filters)


def _sort(visit: Visit, listing: List, text: str, *, is_search: bool) -> str:
    """The chosen order.

    A search without a choice has the best match first, so there the default order is a choice as well.
    """
    if text and not ((column := listing.column(text.removeprefix("-"))) and column.sort):
        raise InvalidListState(visit, NO_SORT, value=text)
    return "" if text == listing.order and not is_search else text


def _page(visit: Visit, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 7 and 1 <= int(text) <= LAST):
        raise InvalidListState(visit, NO_VALUE, value=text, name="page")
    return int(text)


def _number(visit: Visit, said: Mapping[str, str], name: str) -> int:
    text = said.get(name, "0")
    if not (text.isascii() and text.isdigit() and len(text) <= DIGITS):
        raise InvalidListState(visit, NO_VALUE, value=text, name=name)
    return int(text)


def _rows(visit: Visit, text: str) -> str:
    if text not in ("", COMPACT):
        raise InvalidListState(visit, NO_VALUE, value=text, name="rows")
    return text


def _columns(visit: Visit, listing: List, keys: list[str]) -> tuple[str, ...]:
    wanted = [key for key in keys if key]
    for key in wanted:
        if listing.column(key) is None:
            raise InvalidListState(visit, NO_COLUMN, value=key)
    ordered_keys = tuple(column.key for column in listing.columns if column.key in wanted)
    return () if ordered_keys == listing.usual else ordered_keys
