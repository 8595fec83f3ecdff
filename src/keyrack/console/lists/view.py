"""Template data of a list: headings, rows of cells, chips, and addresses of all choices."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from babel.numbers import format_decimal

from keyrack.console.languages import translations
from keyrack.console.lists.cells import Cells
from keyrack.console.lists.definition import List
from keyrack.console.lists.filters import ListFilter, TextFilter
from keyrack.console.lists.query import ListPage, search, written
from keyrack.console.lists.state import ROWS, ListState
from keyrack.console.rendering import base, clock, gettext, tongue
from keyrack.core.errors import Refusal
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

BEGINS = N_("There are no older changes.")
OUTSIDE = N_("Nothing in your groups")
OUTSIDE_TEXT = N_("You see the content of your groups. A colleague with access to the whole fleet decides on it.")
KEPT = N_("There are no older changes: those before number %(num)s are no longer kept.")


@dataclass(frozen=True, slots=True)
class ListError:
    """Why there are no rows. `position` counts the characters of the typed filter from 0."""

    text: str
    remedy: str = ""
    of_filter: bool = False
    position: int | None = None


def address(visit: Visit, listing: List) -> str:
    """The path of the list's page."""
    return base(visit) + listing.path.removeprefix("/{customer}")


async def shown(
    visit: Visit, state: ListState, list_page: ListPage | None, wrong: ListError | None = None
) -> dict[str, Any]:
    """The template's `list`. `list_page` is None if the rows are not permitted, or if the address is `wrong`."""
    listing, here, say = state.listing, address(visit, state.listing), translations(tongue(visit)).gettext
    chips, inputs = await asyncio.gather(_chips(visit, state, here), _inputs(visit, state))
    return {
        "name": listing.name,
        "title": say(listing.title),
        "lead": say(listing.lead),
        "search": say(listing.search),
        "sign": listing.section,
        "address": here,
        "here": here + state.here,
        "back": {"href": base(visit) + listing.back[0], "text": say(listing.back[1])} if listing.back else None,
        "state": _standing(state, list_page, wrong),
        "wrong": wrong,
        "q": state.q,
        "own": state.own,
        "kept": list(state.parts("q", "page")),
        "kept_by_filters": list(_kept(state)),
        "kept_by_columns": list(state.parts("columns", "rows", "page")),
        "whole": here + ListState(listing, sort=state.sort, columns=state.columns, rows=state.rows).address(),
        "compact": bool(state.rows),
        "walked": listing.walked,
        "chips": chips,
        "inputs": inputs,
        "odata": f"{listing.rows}?{written(visit, state)}",
        "all_columns": [
            {"key": column.key, "label": say(column.label), "shown": column in state.shown}
            for column in listing.columns
        ],
        "csv": f"{here}.csv{state.address()}",
        "never": _empty(visit, listing),
        "adds": [{"text": say(add.text), "href": base(visit) + add.path, "sign": add.sign} for add in listing.adds],
        "actions": [
            {
                "text": say(action.text),
                "action": f"{here}/bulk/{action.name}{state.address()}",
                "sign": action.sign,
                "kind": "danger" if action.danger else "",
            }
            for action in listing.actions
        ],
        "topics": listing.topics.split(),
        **(_table(visit, state, list_page, here) if list_page else {}),
    }


def _standing(state: ListState, list_page: ListPage | None, wrong: ListError | None) -> str:
    if wrong:
        return "wrong"
    if list_page is None:
        return "forbidden"
    if list_page.total:
        return "rows"
    return "none" if state.narrowed else "never"


def _empty(visit: Visit, listing: List) -> dict[str, str]:
    """The title and the text of a list without rows.

    A group-limited account may have rows outside its groups.
    """
    title, text = (OUTSIDE, OUTSIDE_TEXT) if visit.is_limited else (listing.never.title, listing.never.text)
    return {"title": gettext(visit, title), "text": gettext(visit, text)}


def _kept(state: ListState) -> list[tuple[str, str]]:
    """The hidden fields of the form of filters: parameters without a field."""
    fields = ["filter", "page", *(list_filter.name for list_filter in state.listing.filters if list_filter.input)]
    return list(state.parts(*fields))


async def _chips(visit: Visit, state: ListState, here: str) -> list[dict[str, str]]:
    by_name = {list_filter.name: list_filter for list_filter in state.listing.filters}
    say = translations(tongue(visit)).gettext

    async def chip(name: str, value: str) -> dict[str, str]:
        rest = tuple(part for part in state.filters if part[0] != name)
        text = f"{say(by_name[name].label)}: {await _words(visit, by_name[name], value)}"
        return {"text": text, "remove": here + state.address(filters=rest)}

    chips = list(await asyncio.gather(*(chip(name, value) for name, value in state.filters)))
    if state.own:
        chips.append({"text": state.own, "remove": here + state.address(own="")})
    return chips


async def _words(visit: Visit, list_filter: ListFilter, value: str) -> str:
    """The value in words, or unchanged if it names a missing object."""
    try:
        return await list_filter.shown(visit, value)
    except Refusal:
        return value


async def _inputs(visit: Visit, state: ListState) -> list[dict[str, Any]]:
    """The fields of the form of filters."""
    say, values = translations(tongue(visit)).gettext, dict(state.filters)
    filters = [field for field in state.listing.filters if field.input]
    options = await asyncio.gather(*(field.options(visit) for field in filters))
    inputs: list[dict[str, Any]] = []
    for field, choices in zip(filters, options, strict=True):
        value, offered = values.get(field.name, ""), list(choices)
        if value and field.input in ("select", "choices") and value not in dict(offered):
            offered.append((value, await _words(visit, field, value)))
        source = base(visit) + field.choices if isinstance(field, TextFilter) else ""
        inputs.append(
            {"name": field.name, "label": say(field.label), "input": field.input, "value": value, "options": offered,
             "source": source}
        )  # fmt: skip
    return inputs


def _table(visit: Visit, state: ListState, list_page: ListPage, here: str) -> dict[str, Any]:
    cells, columns, listing = Cells(visit), state.shown, state.listing
    say, root = translations(tongue(visit)).gettext, base(visit)
    rows = [
        {
            "id": row[listing.id],
            "href": root + listing.href(row) if listing.href else "",
            "name": cells.written(listing.columns[0], row),
            "cells": {column.key: cells.shown(column, row) for column in columns},
        }
        for row in list_page.rows
    ]
    before = (state.page - 1) * ROWS
    first, last, total = (
        format_decimal(n, locale=clock(visit).locale) for n in (before + 1, before + len(rows), list_page.total)
    )
    paging: dict[str, str] = {
        "shown": gettext(visit, "%(first)s to %(last)s of %(total)s", first=first, last=last, total=total),
        "matching": gettext(visit, "All %(total)s that match", total=total) if list_page.total > len(rows) else "",
        "previous": here + state.address(page=state.page - 1) if state.page > 1 else "",
        "next": here + state.address(page=state.page + 1) if before + len(rows) < list_page.total else "",
        "ends": "",
    }
    return {
        "columns": [
            {
                "key": column.key,
                "label": say(column.label),
                "kind": column.kind,
                "priority": column.priority,
                **_sorting(state, column.key, bool(column.sort) and not listing.walked, here),
            }
            for column in columns
        ],
        "rows": rows,
        **(_walking(visit, state, list_page, here) if listing.walked else paging),
    }


def _walking(visit: Visit, state: ListState, list_page: ListPage, here: str) -> dict[str, str]:
    """The foot of a list that is paged by number."""
    if not list_page.rows:
        return {"shown": "", "matching": "", "previous": "", "next": "", "ends": ""}
    newest, last = (list_page.rows[place][state.listing.id] for place in (0, -1))
    numbers = {"newest": format_decimal(newest, locale=clock(visit).locale)}
    numbers["last"] = format_decimal(last, locale=clock(visit).locale)
    ends = "" if list_page.older else gettext(visit, BEGINS)
    if not list_page.older and 1 < list_page.oldest <= last:
        ends = gettext(visit, KEPT, num=format_decimal(list_page.oldest, locale=clock(visit).locale))
    return {
        "shown": gettext(visit, "Number %(newest)s to %(last)s", **numbers),
        "matching": "",
        "previous": here + state.address(newer=newest) if list_page.newer else "",
        "next": here + state.address(older=last) if list_page.older else "",
        "ends": ends,
    }


def _sorting(state: ListState, key: str, can: bool, here: str) -> Mapping[str, str]:
    """The link of a heading, and the current order by its column."""
    if not can:
        return {"sort": "", "sorted": ""}
    order = state.sort if search(state) else state.order
    up, down = order == key, order == f"-{key}"
    other = f"-{key}" if up else key
    address = here + state.address(sort="" if other == state.listing.order and not state.q else other)
    return {"sort": address, "sorted": "ascending" if up else "descending" if down else ""}
