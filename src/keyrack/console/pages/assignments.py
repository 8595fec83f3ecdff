"""Pages that book a car, change a booking, and end it.

Each request leads to the page of its operation, which shows the result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import find_cars, find_users, free, of_car, of_user
from keyrack.console.form_errors import key
from keyrack.console.local_times import utc
from keyrack.console.pages.assignment_checks import Check, check, preview
from keyrack.console.pages.assignment_forms import (
    FIELDS,
    TEXTS,
    FormValues,
    ParsedAssignmentForm,
    filled,
    of_assignment,
    read,
)
from keyrack.console.pages.assignment_moves import move
from keyrack.console.pages.assignment_requests import requests_of_booking
from keyrack.console.rendering import base, clock, gettext, page, part, redirect, translate_error
from keyrack.core.errors import (
    BadRequest,
    Conflict,
    NotFound,
    PreconditionFailed,
    Refusal,
    TooManyRequests,
    Unavailable,
    Unprocessable,
)
from keyrack.http.page_router import ConsolePages, InternalResponse, Visit

pages = ConsolePages()

SECTION = "assignments"
SHOWN = {"$expand": "car,user"}
REFUSALS = (BadRequest, Conflict, NotFound, PreconditionFailed, TooManyRequests, Unavailable, Unprocessable)


@dataclass(frozen=True)
class Task:
    """The purpose of a form: its address, its request, and the assignment that it changes."""

    title: str
    save: str
    action: str
    item: Callable[[ParsedAssignmentForm], Mapping[str, Any] | None]  # an item of a batch; None if nothing changes
    ask: Callable[[ParsedAssignmentForm], Awaitable[InternalResponse]]
    present: Mapping[str, Any] | None = None
    tag: str = ""


@pages.get("/{customer}/assignments", permission=Permission.ASSIGNMENTS_READ)
async def assignments(visit: Visit) -> Response:
    """The list of bookings, with the query of the address."""
    return redirect(f"{_back(visit)}/list" + (f"?{visit.query_string}" if visit.query_string else ""))


@pages.get("/{customer}/assignments/new", permission=Permission.ASSIGNMENTS_WRITE)
async def new(visit: Visit) -> Response:
    return await _form(visit, _creation(visit), await _looked_up(visit, _begun(visit)))


@pages.post("/{customer}/assignments/new", permission=Permission.ASSIGNMENTS_WRITE)
async def create(visit: Visit) -> Response:
    return await _sent(visit, _creation(visit))


@pages.get("/{customer}/assignments/new/check", permission=Permission.ASSIGNMENTS_WRITE)
async def check_new(visit: Visit) -> Response:
    return await _preview_response(visit, _creation(visit))


@pages.get("/{customer}/assignments/{assignment}", permission=Permission.ASSIGNMENTS_READ)
async def one(visit: Visit) -> Response:
    """One booking, with its actions."""
    reply = await visit.call("GET", "/assignments/{assignmentId}", visit.ids["assignment"], query=SHOWN)
    requests = await requests_of_booking(visit, reply.json["id"])
    return await page(
        visit, "assignment.html", section=SECTION, back=_back(visit), requests=requests, **_shown(reply.json)
    )


@pages.get("/{customer}/assignments/{assignment}/change", permission=Permission.ASSIGNMENTS_WRITE)
async def change(visit: Visit) -> Response:
    task = await _change(visit)
    assert task.present is not None  # noqa: S101 - it is a change
    form = of_assignment(visit, task.present)
    proposal: dict[str, Any] = {name: visit.query_value(name) for name in TEXTS if name in visit.query}
    if proposal:  # the plan proposes other times or another car
        form = replace(form, **proposal, no_end="no_end" in visit.query or (form.no_end and not proposal.get("end")))
    return await _form(visit, task, await _looked_up(visit, form))


@pages.post("/{customer}/assignments/{assignment}/change", permission=Permission.ASSIGNMENTS_WRITE)
async def save(visit: Visit) -> Response:
    return await _sent(visit, await _change(visit))


@pages.get("/{customer}/assignments/{assignment}/change/check", permission=Permission.ASSIGNMENTS_WRITE)
async def check_change(visit: Visit) -> Response:
    return await _preview_response(visit, await _change(visit))


@pages.get("/{customer}/assignments/{assignment}/end", permission=Permission.ASSIGNMENTS_WRITE)
async def ending(visit: Visit) -> Response:
    return await _confirm(visit)


@pages.post("/{customer}/assignments/{assignment}/end", permission=Permission.ASSIGNMENTS_WRITE)
async def end(visit: Visit) -> Response:
    """End a booking now if it is in force, so that it stays in the history; otherwise delete it."""
    id, more = (
        visit.ids["assignment"],
        {"if_match": visit.form_value("tag") or None, "key": visit.form_value("key") or None},
    )
    try:
        if visit.form_value("now"):
            patch = [{"op": "replace", "path": "/end", "value": utc(datetime.now(UTC))}]
            reply = await visit.call("PATCH", "/assignments/{assignmentId}", id, body=patch, **more)
        else:
            reply = await visit.call("DELETE", "/assignments/{assignmentId}", id, **more)
    except REFUSALS as refusal:
        return await _confirm(visit, refusal)
    return _to_outcome(visit, reply)


async def _confirm(visit: Visit, refusal: Refusal | None = None) -> Response:
    """The confirmation. Raises `NotFound`."""
    reply = await visit.call("GET", "/assignments/{assignmentId}", visit.ids["assignment"], query=SHOWN)
    plain = await visit.call("GET", "/assignments/{assignmentId}", visit.ids["assignment"])
    return await page(
        visit, "assignment_end.html", status=refusal.status if refusal else 200, section=SECTION, back=_back(visit),
        key=key(visit, refusal), tag=plain.tag, error=_words(visit, refusal) if refusal else "", **_shown(reply.json),
    )  # fmt: skip


def _creation(visit: Visit) -> Task:
    def item(draft: ParsedAssignmentForm) -> Mapping[str, Any]:
        return {"op": "create", "body": draft.members}

    async def ask(draft: ParsedAssignmentForm) -> InternalResponse:
        return await visit.call("PUT", "/assignments", body=draft.members, key=visit.form_value("key") or None)

    title = gettext(visit, "New booking")
    return Task(title, gettext(visit, "Book"), f"{base(visit)}/assignments/new", item, ask)


async def _change(visit: Visit) -> Task:
    """Raises `NotFound`."""
    id = visit.ids["assignment"]
    reply = await visit.call("GET", "/assignments/{assignmentId}", id)
    present = reply.json

    def item(draft: ParsedAssignmentForm) -> Mapping[str, Any] | None:
        patch = _patch(visit, present, draft)
        return {"op": "change", "id": present["id"], "patch": patch} if patch else None

    async def ask(draft: ParsedAssignmentForm) -> InternalResponse:
        more = {"if_match": visit.form_value("tag") or None, "key": visit.form_value("key") or None}
        return await visit.call(
            "PATCH", "/assignments/{assignmentId}", id, body=_patch(visit, present, draft), **more
        )  # fmt: skip

    action = f"{base(visit)}/assignments/{present['id']}/change"
    return Task(
        gettext(visit, "Change booking"), gettext(visit, "Save"), action, item, ask, present, reply.tag
    )  # fmt: skip


def _patch(visit: Visit, present: Mapping[str, Any], draft: ParsedAssignmentForm) -> list[dict[str, Any]]:
    """The changes of the form. They compare fields, because a field may show less than the stored value."""
    before, after = of_assignment(visit, present), draft.filled
    patch: list[dict[str, Any]] = []
    for member, name in FIELDS.items():
        value = draft.members[member]
        if member in ("start", "end"):
            is_same = value == present[member]
        else:
            is_same = getattr(before, name) == getattr(after, name)
        if is_same:
            continue
        change = {"op": "remove"} if value is None else {"op": "replace", "value": value}
        patch.append({**change, "path": f"/{member}"})
    return patch


def _begun(visit: Visit) -> FormValues:
    """A new form with the values of the address. The default start is the next full hour."""
    form = filled(visit.query)
    return replace(form, start=form.start or clock(visit).next_hour())


async def _looked_up(visit: Visit, form: FormValues) -> ParsedAssignmentForm:
    """A form that was not sent yet, with the names of its values and without errors."""
    draft = await read(visit, form)
    draft.errors.clear()
    return draft


async def _preview_response(visit: Visit, task: Task) -> Response:
    draft = await read(visit, filled(visit.query))
    form_check = await preview(visit, draft, None if draft.errors else task.item(draft))
    return await part(
        visit, "assignment_checks.html", "checks", check=form_check, told=draft, agreed=visit.query_value("anyway"),
        move=await move(visit, task.present, draft),
    )  # fmt: skip


async def _sent(visit: Visit, task: Task) -> Response:
    """Send the request, unless the form is invalid or has an overlap that the person has not seen."""
    form = filled(visit.form)
    if visit.form_value("find"):  # without a script: a search for cars or people
        return await _form(visit, task, await _looked_up(visit, form))
    draft = await read(visit, form)
    if draft.errors:
        return await _form(visit, task, draft, status=422)
    form_check = Check()
    try:
        item = task.item(draft)
        if item is None:
            return await _form(visit, task, draft, is_unchanged=True)
        form_check = await check(visit, draft, item)
        if not form_check.agreed(visit.form_value("anyway")):
            return await _form(visit, task, draft, status=409, form_check=form_check)
        return _to_outcome(visit, await task.ask(draft))
    except REFUSALS as refusal:
        for fault in refusal.errors:
            member = (fault.pointer or "").rpartition("/")[2]
            if member in FIELDS:
                draft.errors[FIELDS[member]] = gettext(visit, fault.detail)
        return await _form(visit, task, draft, status=refusal.status, form_check=form_check, refusal=refusal)


async def _form(
    visit: Visit, task: Task, draft: ParsedAssignmentForm, *, status: int = 200, form_check: Check | None = None,
    refusal: Refusal | None = None, is_unchanged: bool = False,
) -> Response:  # fmt: skip
    cars, users = await _options(visit, draft)
    now = task.present if isinstance(refusal, PreconditionFailed) else None
    # The old tag stays until the person has seen the change
    tag = task.tag if now or not visit.form_value("tag") else visit.form_value("tag")
    return await page(
        visit, "assignment_form.html", status=status, section=SECTION, back=_back(visit), task=task, told=draft,
        tag=tag, form=draft.filled, cars=cars, users=users, check=form_check or Check(), agreed="",
        key=key(visit, refusal), free="free" in visit.form or "free" in visit.query, searched=visit.form,
        refused=status == 409,
        unchanged=is_unchanged, move=await move(visit, task.present, draft),
        error=_words(visit, refusal) if refusal else "", now=now and await _present(visit, now),
    )  # fmt: skip


async def _options(visit: Visit, draft: ParsedAssignmentForm) -> tuple[list[Any], list[Any]]:
    """The chosen options; without a script also the found ones."""
    cars, users = [draft.car] if draft.car else [], [draft.user] if draft.user else []
    if visit.form_value("find") == "car":
        cars += (await find_cars(visit, visit.form_value("search_car"), free(visit, visit.form))).options
    if visit.form_value("find") == "user":
        users += (await find_users(visit, visit.form_value("search_user"))).options
    return cars, users


async def _present(visit: Visit, assignment: Mapping[str, Any]) -> dict[str, Any]:
    """The current state, beside the form."""
    reply = await visit.call("GET", "/assignments/{assignmentId}", assignment["id"], query=SHOWN)
    return _shown(reply.json)


def _words(visit: Visit, refusal: Refusal) -> str:
    if isinstance(refusal, PreconditionFailed):
        return gettext(
            visit, "Another person changed the booking in the meantime. Check the current state, then decide again."
        )
    return translate_error(visit, refusal.reason)


def _to_outcome(visit: Visit, reply: InternalResponse) -> Response:
    """Redirect to the page of the operation, which its own caller may always see."""
    return redirect(f"{base(visit)}/operations/{reply.headers['Operation-Id']}")


def _back(visit: Visit) -> str:
    return f"{base(visit)}/assignments"


def _shown(assignment: Mapping[str, Any]) -> dict[str, Any]:
    """An assignment with its car and user, for templates."""
    car, user = assignment.get("car"), assignment.get("user")
    return {
        "assignment": assignment,
        "car": of_car(car) if car else None,
        "user": of_user(user) if user else None,
        "state": state(assignment["start"], assignment["end"]),
    }


def state(start: str, end: str | None) -> str:
    """`past`, `in-force` or `coming`."""
    now = utc(datetime.now(UTC))
    if end is not None and end <= now:
        return "past"
    return "in-force" if start <= now else "coming"
