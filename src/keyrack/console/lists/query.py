"""Requests for a list's rows: its state as OData."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Any

from keyrack.console.lists.definition import OF_RELATION, List, ListColumn
from keyrack.console.lists.filters import quoted
from keyrack.console.lists.state import ROWS, ListState
from keyrack.console.paged_fetch import rows_of
from keyrack.console.rendering import clock
from keyrack.console.searches import BEST_FIRST, search_query
from keyrack.http.page_router import InternalResponse, Visit

_WORDS = re.compile(r'"([^"]+)"?|([^\s"]+)')  # a phrase in quotation marks, or a word
OWN_ALIAS = "@own"  # the alias of the typed filter, which is parsed on its own


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list.

    A paged log has no total: it has `newer` and `older` rows, and the number of the `oldest` kept one.
    """

    rows: list[dict[str, Any]]
    total: int
    newer: bool = False
    older: bool = False
    oldest: int = 1


def condition(zone: tzinfo, state: ListState, own: str = "", also: str = "") -> str:
    """$filter, with the days of the zone. `own` is the typed filter, `also` a further condition."""
    by_name = {list_filter.name: list_filter for list_filter in state.listing.filters}
    parts = [by_name[name].odata(zone, value) for name, value in state.filters]
    if state.own:
        parts.insert(0, own)
    if also:
        parts.append(also)
    if state.listing.words:
        parts += [_any_of(state.listing.words, word) for word in words(state.q)]
    return " and ".join(f"({part})" if " or " in part else part for part in parts)


def _any_of(expressions: tuple[str, ...], word: str) -> str:
    return " or ".join(
        f"searchmatches({expression},{quoted(word)})"
        if expression in OF_RELATION
        else f"contains(tolower({expression}),{quoted(word.lower())})"
        for expression in expressions
    )


def words(text: str) -> list[str]:
    """The searched words, and phrases in quotation marks."""
    return [phrase or word for phrase, word in _WORDS.findall(text)]


def search(state: ListState) -> str:
    """$search for all of the words."""
    return "" if state.listing.words else search_query(words(state.q))


def order(listing: List, by: str) -> str:
    """$orderby."""
    column = listing.column(by.removeprefix("-"))
    if column is None:
        return ""
    direction = " desc" if by.startswith("-") else ""
    empty = [f"{column.sort} eq null"] if column.is_empty_last else []
    return ",".join([*empty, *(expression + direction for expression in column.sort.split(","))])


def _total(listing: List, by: str) -> str:
    """$orderby with a unique order.

    Equal rows of a descending order are newest first, as an index read backwards has them.
    """
    return f"{order(listing, by)},{listing.id} desc" if by.startswith("-") else order(listing, by)


def _best_first(state: ListState) -> str:
    """The whole order. A search has the best match first, unless a column is chosen."""
    by = _total(state.listing, state.order)
    return f"{BEST_FIRST},{by}" if search(state) and not state.sort else by


def options(zone: tzinfo, state: ListState, columns: list[ListColumn], also: str = "") -> dict[str, str]:
    """The query options for all rows of the state, with the data of these columns. `also` is a further condition."""
    query_options = {
        "$filter": condition(zone, state, OWN_ALIAS, also),
        OWN_ALIAS: state.own,
        "$search": search(state),
        "$orderby": _best_first(state),
        "$select": state.listing.select,
        "$expand": ",".join(dict.fromkeys(column.expand for column in columns if column.expand)),
    }
    return {name: text for name, text in query_options.items() if text}


def written(visit: Visit, state: ListState) -> str:
    """The request as a caller would send it to the API."""
    query_options = {
        "$filter": condition(clock(visit).zone, state, f"({state.own})"),
        "$search": search(state),
        "$orderby": order(state.listing, state.sort) if state.sort else "",
    }
    return "&".join(f"{name}={text}" for name, text in query_options.items() if text)


async def fetch_page(visit: Visit, state: ListState) -> ListPage:
    """The rows of the state's page. Raises the `Refusal` of the endpoint."""
    if state.listing.walked:
        list_page = await _walk(visit, state)
    else:
        query = options(clock(visit).zone, state, state.shown) | {"$count": "true"}
        list_page = ListPage(*await rows_of(visit, state.listing.rows, query, ROWS, (state.page - 1) * ROWS))
    return replace(list_page, rows=await complete_rows(visit, state.listing, list_page.rows))


async def complete_rows(visit: Visit, listing: List, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their additional data."""
    return await listing.add_details(visit, rows) if listing.add_details and rows else rows


async def _walk(visit: Visit, state: ListState) -> ListPage:
    """The page before or after a row, and whether there are more. It reads one row more than it shows."""
    listing, parts = state.listing, list[str]()
    if state.newer:  # not `gt`: the log of changes reads it as a cursor, which must exist
        parts = [f"{listing.id} ge {state.newer + 1}"]
    elif state.older:
        parts = [f"{listing.id} lt {state.older}"]
    query = {**options(clock(visit).zone, state, state.shown, " and ".join(parts)), "$top": str(ROWS + 1)}
    if state.newer:
        query["$orderby"] = listing.id
    reply = await visit.call("GET", listing.rows, query=query)
    rows: list[dict[str, Any]] = reply.json[:ROWS]
    more = len(reply.json) > ROWS
    oldest = int(reply.headers.get("Changes-Oldest", 1))
    if state.newer:
        return ListPage(rows[::-1], len(rows), more, True, oldest)
    return ListPage(rows, len(rows), state.older > 0, more, oldest)


async def many_of(
    visit: Visit, state: ListState, columns: list[ListColumn], most: int, also: str = "", **more: str
) -> tuple[list[dict[str, Any]], int]:
    """The first rows that match the state and `also`, and the total if `more` asks for it.

    `more` are further query options. Raises the `Refusal` of the endpoint.
    """
    query = {**options(clock(visit).zone, state, columns, also), **more}
    return await rows_of(visit, state.listing.rows, query, most)


async def all_of(
    visit: Visit, state: ListState, columns: list[ListColumn], also: str = "", **more: str
) -> InternalResponse:
    """All rows that match the state and `also`. Raises the `Refusal` of the endpoint."""
    query = {**options(clock(visit).zone, state, columns, also), **more}
    return await visit.call("GET", state.listing.rows, query=query)


async def pieces_of(
    visit: Visit, state: ListState, columns: list[ListColumn], also: str = "", **more: str
) -> InternalResponse:
    """The same rows, with a streamed answer if there are many."""
    query = {**options(clock(visit).zone, state, columns, also), **more}
    return await visit.call("GET", state.listing.rows, query=query, pieces=True)
