"""The page of a person: facts, bookings and openings, removal, and deletion of personal data."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.choices import of_user
from keyrack.console.failure_hints import failure_reason
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, key, refused, went
from keyrack.console.local_times import instant, utc
from keyrack.console.pages.user_app import app_of
from keyrack.console.pages.user_devices import phones_of
from keyrack.console.rendering import base, gettext, live_id, page
from keyrack.core.addresses import address_form
from keyrack.core.errors import Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "users"
CAR = "car($select=id,name,licensePlate)"
AHEAD, PAST, EVENTS, ASKED = 50, 10, 10, 10  # rows of each kind on the page
RECENT = timedelta(days=7)  # how long a failure is shown
SAID = (
    "added",
    "linked",
    "phone-approved",
    "phone-removed",
    "invited",
    "app-withdrawn",
)  # results of the previous action, from the address
NAMED = 5  # assignments that the confirmation names
ANONYMOUS = "anonymous"  # value of the preview: rows that stay without the person


@pages.get("/{customer}/users/{user}", permission=Permission.USERS_READ)
async def person(visit: Visit) -> Response:
    since = await live_id(visit)
    user = await _user(visit, **{"$expand": "groups($select=id,name;$orderby=name)"})
    now = utc(datetime.now(UTC))
    ahead, past, operations, events, phones, app = await asyncio.gather(
        _assignments(visit, user, f"(end eq null or end gt {now})", "start", AHEAD),
        _assignments(visit, user, f"end le {now}", "start desc", PAST),
        _open_operations(visit, user),
        _events(visit, user),
        phones_of(visit, user["id"]),
        app_of(visit, user["id"]),
    )
    return await page(
        visit, "user.html", section=SECTION, user=user, name=of_user(user).label, since=since, events=events.json,
        asked=operations, assignments=[_standing(visit, row, now) for row in [*ahead.json, *past.json]],
        more=ahead.total + past.total - len(ahead.json) - len(past.json), more_events=events.total - len(events.json),
        phones=phones, app=app, said=next((name for name in SAID if name in visit.query), ""),
    )  # fmt: skip


async def _user(visit: Visit, **query: str) -> dict[str, Any]:
    """Raises `NotFound`."""
    return (await visit.call("GET", "/users/{userId}", visit.ids["user"], query=query)).json


async def _assignments(visit: Visit, user: Mapping[str, Any], which: str, order: str, most: int) -> Any:
    query = {"$filter": f"userId eq {user['id']} and {which}", "$orderby": order, "$expand": CAR}
    return await visit.call("GET", "/assignments", query={**query, "$top": str(most), "$count": "true"})


async def _open_operations(visit: Visit, user: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The operations that are pending, or failed lately."""
    if not visit.may(Permission.OPERATIONS_READ):
        return []
    lately = utc(datetime.now(UTC) - RECENT)
    which = f"userId eq {user['id']} and (state eq 'Pending' or (state eq 'Failed' and requested ge {lately}))"
    query = {"$filter": which, "$orderby": "requested desc", "$expand": CAR, "$top": str(ASKED)}
    rows = (await visit.call("GET", "/operations", query=query)).json
    return [{**row, "reason": failure_reason(visit, row["errorCode"], row["errorMessage"])} for row in rows]


async def _events(visit: Visit, user: Mapping[str, Any]) -> Any:
    query = {"$filter": f"userId eq {user['id']}", "$orderby": "utcDateTime desc", "$expand": CAR}
    return await visit.call("GET", "/events", query={**query, "$top": str(EVENTS), "$count": "true"})


def _standing(visit: Visit, row: Mapping[str, Any], now: str) -> dict[str, Any]:
    """An assignment with its current state."""
    begun, ended = instant(row["start"]) <= instant(now), row["end"] is not None and row["end"] <= now
    states = {
        "over": {"kind": "idle", "word": gettext(visit, "Past")},
        "now": {"kind": "good", "word": gettext(visit, "Now")},
        "coming": {"kind": "note", "word": gettext(visit, "Upcoming")},
    }
    return {**row, "standing": states["over" if ended else "now" if begun else "coming"]}


@pages.get("/{customer}/users/{user}/remove", permission=Permission.USERS_WRITE)
async def remove_form(visit: Visit) -> Response:
    return await _remove_form(visit)


@pages.post("/{customer}/users/{user}/remove", permission=Permission.USERS_WRITE)
async def remove(visit: Visit) -> Response:
    user = await _user(visit)
    try:
        await visit.call("DELETE", "/users/assignments/customers", body={"userId": user["id"]})
    except SHOWN as refusal:
        return await _remove_form(visit, refused(visit, refusal))
    return went(visit, f"{base(visit)}/users/removed")


async def _remove_form(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    """The confirmation of a removal, with its effects."""
    user = await _user(visit, **{"$expand": "groups/$count"})
    ending = await _ending(visit, user)
    return await page(
        visit, "user_remove.html", status=wrong.status, section=SECTION, back=_page(visit, user), user=user,
        name=of_user(user).label, ending=ending, groups=user["groups@odata.count"], wrong=wrong,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class EndingAssignments:
    """The assignments of a removed person: the number that end, the first of these, and the number of past ones."""

    first: list[dict[str, Any]]
    count: int
    past: int


async def _ending(visit: Visit, user: Mapping[str, Any]) -> EndingAssignments:
    now = utc(datetime.now(UTC))
    ends, past = await asyncio.gather(
        _assignments(visit, user, f"(end eq null or end gt {now})", "start", NAMED),
        _assignments(visit, user, f"end le {now}", "start", 0),
    )
    return EndingAssignments(ends.json, ends.total, past.total)


@pages.get("/{customer}/users/removed", permission=Permission.USERS_READ)
async def removed(visit: Visit) -> Response:
    return await page(visit, "user_gone.html", section=SECTION, erased=False)


@pages.get("/{customer}/users/{user}/erase", permission=Permission.ERASURE_WRITE)
async def erase_form(visit: Visit) -> Response:
    return await _erase_form(visit)


@pages.post("/{customer}/users/{user}/erase", permission=Permission.ERASURE_WRITE)
async def erase(visit: Visit) -> Response:
    """Delete the personal data, after the name or the address was typed."""
    user = await _user(visit)
    typed = visit.form_value("name")
    is_address = address_form(typed.strip()) == address_form(user["emailAddress"])
    if not is_address and _plain(typed) != _plain(of_user(user).label):
        text = gettext(visit, "This is neither the name nor the e-mail address. Nothing was deleted.")
        return await _erase_form(visit, invalid([("name", text)]))
    try:
        await visit.call("POST", "/users/{userId}/erase", user["id"], key=visit.form_value("key") or None)
    except SHOWN as refusal:
        return await _erase_form(visit, refused(visit, refusal), refusal)
    return went(visit, f"{base(visit)}/users/erased")


def _plain(text: str) -> str:
    """The typed text without case and blanks."""
    return " ".join(text.split()).casefold()


async def _erase_form(visit: Visit, wrong: FormErrors = RIGHT, refusal: Refusal | None = None) -> Response:
    user = await _user(visit)
    ending = await _ending(visit, user)
    preview = (await visit.call("GET", "/users/{userId}/erasure", user["id"])).json
    rows = [row for row in preview["goes"] if row["count"]]
    return await page(
        visit, "user_erase.html", status=wrong.status, section=SECTION, back=_page(visit, user), user=user,
        name=of_user(user).label, wrong=wrong, key=key(visit, refusal),
        typed=visit.form_value("name"), goes=_goes(rows, ending),
        anonymous=[row for row in rows if row["how"] == ANONYMOUS],
        stays=_stays(visit, preview["stays"]), others=preview["customers"],
    )  # fmt: skip


def _goes(rows: Iterable[Mapping[str, Any]], ending: EndingAssignments) -> list[Mapping[str, Any]]:
    """The deleted rows of the preview. Ending assignments are counted like in the dialog of a removal."""
    assignments = [
        {"kind": "assignments", "how": "ended", "count": ending.count},
        {"kind": "past", "how": "told", "count": ending.past},
    ]
    goes = [row for row in rows if row["kind"] != "assignments" and row["how"] != ANONYMOUS]
    return [*goes, *(row for row in assignments if row["count"])]


def _stays(visit: Visit, stays: Iterable[Mapping[str, str]]) -> list[str]:
    """The kept rows and the reasons, in the console's own words if there are any."""
    days, hours = visit.settings.orphaned_person_retention_days, visit.settings.idempotency_hours
    texts_by_code = {
        "shared-or-left-lately": gettext(
            visit,
            "Name, e-mail address and password are deleted within minutes. They are kept for another customer"
                " if the person belongs to one. If a customer removed the person within the last %(days)s days,"
                " they are deleted when this time has passed.",
            days=days,
        ),
        "until-forgotten": gettext(
            visit, "Stored answers to repeated requests are encrypted, and deleted after %(hours)s hours at the"
                " latest.",
            hours=hours,
        ),
        "was-sent": gettext(visit, "Messages that webhooks already received stay with their receivers."),
    }  # fmt: skip
    return [texts_by_code.get(stay["code"]) or stay["text"] for stay in stays]


@pages.get("/{customer}/users/erased", permission=Permission.USERS_READ)
async def erased(visit: Visit) -> Response:
    return await page(visit, "user_gone.html", section=SECTION, erased=True)


def _page(visit: Visit, user: Mapping[str, Any]) -> str:
    return f"{base(visit)}/users/{user['id']}"
