"""Pages of lists: the page, its part, the file, and errors."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from keyrack.api.exchange import Response
from keyrack.console import rendering
from keyrack.console.lists import bulk, export
from keyrack.console.lists.definition import List, seen, wanted
from keyrack.console.lists.filter_errors import wrong
from keyrack.console.lists.query import ListPage, fetch_page
from keyrack.console.lists.state import ROWS, InvalidListState, ListState, is_tidy, read
from keyrack.console.lists.view import ListError, address, shown
from keyrack.console.rendering import live_id, redirect
from keyrack.core.errors import BadRequest, Forbidden, NotImplemented, Refusal
from keyrack.http.page_router import ConsolePages, Visit

TEMPLATE = "list.html"
PART = "listing.html"


def pages_of(*lists: List) -> ConsolePages:
    """The pages of these lists: the page, the file and the bulk actions of each."""
    pages = ConsolePages()
    for listing in lists:
        pages.get(listing.path, permission=wanted(listing))(partial(_list, listing))
        pages.get(f"{listing.path}.csv", permission=wanted(listing))(partial(_file, listing))
        if listing.actions:
            pages.post(listing.path + "/bulk/{action}", permission=wanted(listing))(partial(bulk.act, listing))
    return pages


async def _file(whole: List, visit: Visit) -> Response:
    return await export.file(seen(whole, visit), visit)


async def _list(whole: List, visit: Visit) -> Response:
    listing = seen(whole, visit)
    draw = partial(_drawn, visit, "" if visit.is_partial else await live_id(visit))
    try:
        state = read(listing, visit)
    except InvalidListState as broken:
        return await draw(ListState(listing), None, ListError(str(broken)), status=400)
    here = address(visit, listing) + state.here
    if not is_tidy(visit) and not visit.is_partial:
        return redirect(here)
    try:
        list_page = await fetch_page(visit, state)
    except Forbidden:
        return await draw(state, None, status=403)
    except (BadRequest, NotImplemented) as refusal:
        return await draw(state, None, _wrong(visit, state, refusal), status=refusal.status)
    if not list_page.rows and listing.walked and (state.older or state.newer):
        return redirect(address(visit, listing) + state.address())
    if not list_page.rows and list_page.total:
        last = -(-list_page.total // ROWS)
        return redirect(address(visit, listing) + state.address(page=last))
    answer = await draw(state, list_page)
    return replace(answer, headers={**answer.headers, "HX-Replace-Url": here}) if visit.is_partial else answer


def _wrong(visit: Visit, state: ListState, refusal: Refusal) -> ListError:
    """The error of the endpoint. It is about the typed filter, if there is one: the rest of the query is generated."""
    text = wrong(visit, state, refusal)
    position = next((fault.position for fault in refusal.errors if fault.position is not None), None)
    return ListError(text, "" if state.own else refusal.reason.remedy, bool(state.own), position)


async def _drawn(
    visit: Visit,
    since: str,
    state: ListState,
    list_page: ListPage | None,
    amiss: ListError | None = None,
    *,
    status: int = 200,
) -> Response:
    """The page, or its part. `since` is the position of live updates."""
    about = {"list": await shown(visit, state, list_page, amiss)}
    if visit.is_partial:
        return await rendering.part(visit, PART, "listing", status=status, **about)
    section = state.listing.section
    return await rendering.page(visit, TEMPLATE, status=status, section=section, since=since, **about)
