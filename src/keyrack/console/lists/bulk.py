"""Bulk actions: the selected rows, the confirmation, and the result of each row.

An action runs in chunks of one request each. A page shows the progress and requests the next chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import uuid4

from markupsafe import Markup

from keyrack.api.exchange import Response
from keyrack.console import rendering
from keyrack.console.languages import translations
from keyrack.console.lists.cells import Cells
from keyrack.console.lists.definition import Action, BatchPlan, List, chosen, seen
from keyrack.console.lists.filter_errors import wrong
from keyrack.console.lists.query import many_of, options
from keyrack.console.lists.state import InvalidListState, ListState, read
from keyrack.console.lists.view import address
from keyrack.console.paged_fetch import rows_with
from keyrack.console.pages import batch_outcomes
from keyrack.console.rendering import clock, gettext, live_id, tongue, translate_error
from keyrack.core.error_codes import NOTHING_HERE, ErrorCode
from keyrack.core.errors import BadRequest, NotFound, NotImplemented, Refusal
from keyrack.core.text import N_
from keyrack.http.page_router import Visit

PIECE = 100  # rows of one chunk
NAMED = 10  # rows that the confirmation of a harmless action names
DIGITS = 19  # of an id

NOT_UNDERSTOOD = ErrorCode("selection-not-understood", "", "Go back to the list and select the rows again.")
NOTHING = N_("No rows are selected. Select rows of the list first.")
TOO_MANY = N_("%(rows)s rows are too many. At most %(most)s are possible at once. Narrow the list first.")
BROKEN = N_("The selection is not valid.")
NOT_CHOSEN = N_("Choose an entry first.")
ALL_DONE = N_("All %(num)s are done.")
ALL_ASKED = N_("All %(num)s are requested.")
SOME_DONE = N_("%(done)s of %(num)s are done, %(failed)s were rejected.")
SO_FAR = N_("%(num)s of %(all)s so far.")


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of one row: `refused` is the reason if it was rejected."""

    id: int
    name: str | Markup
    refused: str = ""


async def act(whole: List, visit: Visit) -> Response:
    """Run a button of the bulk bar: show the confirmation, then do the action.

    Raises `BadRequest` or `NotPermitted`.
    """
    listing = seen(whole, visit)
    action = next((candidate for candidate in whole.actions if candidate.name == visit.ids["action"]), None)
    if action is None:
        raise NotFound(NOTHING_HERE)
    for permission in action.wants:
        visit.require(permission)
    try:
        state = read(listing, visit)
    except InvalidListState as broken:
        _refuse(str(broken))
    ids = await _selected(visit, state)
    if visit.form_value("meant") and (action.choice is None or visit.form_value(action.choice.name)):
        return await _worked(visit, state, action, ids)
    return await _question(visit, state, action, ids)


def _refuse(text: str) -> NoReturn:
    raise BadRequest(NOT_UNDERSTOOD.with_text(text))


async def _selected(visit: Visit, state: ListState) -> list[int]:
    """The ids of the rows: the ticked ones, those of the previous chunk's page, or all that match."""
    most = visit.settings.console_bulk_max_rows
    if visit.form_value("all"):
        id = state.listing.id
        try:
            rows, total = await many_of(visit, state, [], most, **{"$select": id, "$count": "true"})
        except (BadRequest, NotImplemented) as refusal:
            raise type(refusal)(NOT_UNDERSTOOD.with_text(wrong(visit, state, refusal))) from None
        if total > most:
            _refuse(gettext(visit, TOO_MANY, rows=total, most=most))
        ids = [int(row[id]) for row in rows]
    else:
        raw_ids = [*visit.form.get("id", ()), *visit.form_value("ids").split(",")]
        texts = list(dict.fromkeys(text for text in raw_ids if text))
        if not all(text.isascii() and text.isdigit() and len(text) <= DIGITS for text in texts):
            _refuse(gettext(visit, BROKEN))
        ids = [int(text) for text in texts]
    if not ids:
        _refuse(gettext(visit, NOTHING))
    if len(ids) > most:
        _refuse(gettext(visit, TOO_MANY, rows=len(ids), most=most))
    return ids


async def _question(visit: Visit, state: ListState, action: Action, ids: Sequence[int]) -> Response:
    """The confirmation. Nothing is done yet."""
    say = translations(tongue(visit)).gettext
    named = ids if action.danger else ids[:NAMED]  # a destructive action lists all rows
    names = await _names(visit, state.listing, action, named)
    choice = None
    if action.choice is not None:
        wrong = say(NOT_CHOSEN) if visit.form_value("meant") else ""
        choice = {
            "name": action.choice.name,
            "label": say(action.choice.label),
            "options": [("", ""), *await action.choice.options(visit)],
            "wrong": wrong,
        }
    about: dict[str, Any] = {
        "bulk": {
            **_about(visit, state, action, len(ids)),
            "names": [names.get(id, f"{id}") for id in named],
            "others": len(ids) - len(named),
            "warning": say(action.warning) if action.warning else "",
            "says": await action.says(visit, ids) if action.says else [],
            "choice": choice,
            "ids": ",".join(map(str, ids)),
            "key": str(uuid4()),
        }
    }
    return await rendering.page(visit, "bulk.html", section=state.listing.section, **about)


def _about(visit: Visit, state: ListState, action: Action, count: int) -> dict[str, Any]:
    here, say = address(visit, state.listing), translations(tongue(visit)).gettext
    text = say(action.question_for_one if count == 1 else action.question_for_many) % {"num": count}
    return {
        "title": text,
        "list": {"href": here + state.address(page=state.page), "text": say(state.listing.title)},
        "action": f"{here}/bulk/{action.name}{state.address(page=state.page)}",
        "danger": action.danger,
        "asks": action.asks,
    }


async def _worked(visit: Visit, state: ListState, action: Action, ids: Sequence[int]) -> Response:
    """Run the action on the next rows, and show their results."""
    piece, rest = ids[:PIECE], ids[PIECE:]
    since = "" if visit.is_partial else await live_id(visit)
    names = await _names(visit, state.listing, action, piece)
    if action.batch:
        refused, operation_ids = await _batch(visit, action, piece)
    else:
        refused, operation_ids = await _each(visit, action, piece), []
    outcome_ids = refused if action.asks else piece
    done, failed = _number(visit, "done"), _number(visit, "failed")
    failed += len(refused)
    done += len(piece) - len(refused)
    about: dict[str, Any] = {
        "bulk": {
            **_about(visit, state, action, done + failed + len(rest)),
            "outcomes": [RowResult(id, names.get(id, f"{id}"), refused.get(id, "")) for id in outcome_ids],
            "asked": await batch_outcomes.of(visit, operation_ids) if operation_ids else None,
            "done": done,
            "failed": failed,
            "rest": len(rest),
            "carried": {
                "ids": ",".join(map(str, rest)),
                "key": visit.form_value("key"),
                "meant": "true",
                "done": done,
                "failed": failed,
                **({action.choice.name: visit.form_value(action.choice.name)} if action.choice else {}),
            },
            "said": _said(visit, action, done, failed, len(rest)),
        }
    }
    if visit.is_partial:
        return await rendering.part(visit, "bulk_done.html", "outcomes", **about)
    return await rendering.page(visit, "bulk_done.html", section=state.listing.section, since=since, **about)


def _number(visit: Visit, name: str) -> int:
    """A count of the previous chunk's page. It is only shown again."""
    text = visit.form_value(name)
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else 0


def _said(visit: Visit, action: Action, done: int, failed: int, rest: int) -> str:
    if rest:
        return gettext(visit, SO_FAR, num=done + failed, all=done + failed + rest)
    if failed:
        return gettext(visit, SOME_DONE, done=done, num=done + failed, failed=failed)
    return gettext(visit, ALL_ASKED if action.asks else ALL_DONE, num=done)


async def _names(visit: Visit, listing: List, action: Action, ids: Sequence[int]) -> dict[int, Markup]:
    """The names of the existing rows."""
    columns, cells = chosen(listing, action.named) or [listing.columns[0]], Cells(visit)
    query = options(clock(visit).zone, ListState(listing), columns)
    rows = await rows_with(visit, listing.rows, ids, query, listing.id)
    return {int(row[listing.id]): cells.named(columns, row) for row in rows}


async def _batch(visit: Visit, action: Action, ids: Sequence[int]) -> tuple[Mapping[int, str], list[str]]:
    """Run the action as one batch. Returns the rejections by id, and the ids of requested operations."""
    plan = await action.plan(visit, ids) if action.plan else BatchPlan({id: {"op": "end", "id": id} for id in ids}, {})
    if not plan.items:
        return plan.refusals, []
    body = {"kind": action.batch, "items": list(plan.items.values())}
    try:
        key = f"{visit.form_value('key')}-{ids[0]}" if visit.form_value("key") else None
        results = (await visit.call("POST", "/batch", body=body, key=key)).json["results"]
    except Refusal as refusal:
        return {**plan.refusals, **dict.fromkeys(plan.items, translate_error(visit, refusal.reason))}, []
    in_words = translations(tongue(visit)).gettext
    pairs = zip(plan.items, results, strict=True)
    refused = {id: in_words(result["detail"]) for id, result in pairs if result["status"] >= 400}
    return {**plan.refusals, **refused}, [result["operationId"] for result in results if "operationId" in result]


async def _each(visit: Visit, action: Action, ids: Sequence[int]) -> Mapping[int, str]:
    """Run the action row by row. Returns the rejections by id."""
    assert action.each is not None  # noqa: S101 - an action has either
    chosen = visit.form_value(action.choice.name) if action.choice else ""
    if action.choice is not None and not chosen.isdigit():
        _refuse(gettext(visit, BROKEN))
    refused: dict[int, str] = {}
    for id in ids:
        try:
            await action.each(visit, id, chosen)
        except Refusal as refusal:
            refused[id] = translate_error(visit, refusal.reason)
    return refused
