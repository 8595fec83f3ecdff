"""Settings: language, zone and theme, password, sessions, and data retention."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console.languages import LANGUAGES
from keyrack.console.rendering import SYSTEM, base, gettext, page, redirect, translate_error
from keyrack.core.errors import Refusal, Unauthorized
from keyrack.core.text import N_
from keyrack.core.user_agents import parts, shortened
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "settings"
NOT_PLACES = ("Etc/", "SystemV/", "US/")  # zones that are not places

COUNTS = {  # kind of data -> the start of its retention
    "operations": N_("after their completion"),
    "deliveries": N_("after the last attempt"),
    "changes": N_("after the recording"),
    "positions": N_("after the time at the position"),
    "odometer": N_("after the reading"),
    "series": N_("after the reading"),
    "answers": N_("after the first request"),
    "people": N_("after leaving the last customer"),
    "sessions": N_("after the sign-in"),
}


@cache
def zones() -> list[tuple[str, str]]:
    """The time zones to choose from, with their labels: those named after places, and UTC."""
    places = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(NOT_PLACES))
    return [("UTC", "UTC"), *((zone, zone.replace("_", " ")) for zone in places)]


@pages.get("/{customer}/settings")
async def settings(visit: Visit) -> Response:
    return await _settings(visit)


async def _settings(visit: Visit, wrong: Refusal | None = None) -> Response:
    me = (await visit.call("GET", "/me")).json
    sessions = (await visit.call("GET", "/sessions", query={"$orderby": "lastSeen desc"})).json
    may_know = visit.may(Permission.CUSTOMER_READ)
    kept: Any = (await visit.call("GET", "/retention")).json if may_know else None
    browsers = {session["id"]: browser_name(visit, session["userAgent"]) for session in sessions}
    return await page(
        visit, "settings.html", status=wrong.status if wrong else 200, section=SECTION, me=me, sessions=sessions,
        browsers=browsers, kept=kept, own=visit.person.session.id, zones=zones(), languages=LANGUAGES, counts=COUNTS,
        wrong=_wrong(visit, wrong), saved=visit.query_value("saved"),
    )  # fmt: skip


def browser_name(visit: Visit, agent: str) -> str:
    """The label of a session's browser."""
    browser, system = parts(agent)
    if browser and system:
        return gettext(visit, "%(browser)s on %(system)s", browser=browser, system=system)
    return browser or shortened(agent) or gettext(visit, "Unknown")


def _wrong(visit: Visit, wrong: Refusal | None) -> dict[str, str]:
    """Field of the password's form -> its error."""
    if wrong is None:
        return {}
    if wrong.reason.code == "invalid-members":
        return {"new_password": gettext(visit, "The new password must have 8 to 1,000 characters.")}
    return {"current_password": translate_error(visit, wrong.reason)}


@pages.post("/{customer}/settings/preferences")
async def prefer(visit: Visit) -> Response:
    wanted = {
        "language": visit.form_value("language"),
        "timeZone": visit.form_value("time_zone"),
        "theme": visit.form_value("theme"),
    }
    body = {name: None if value == SYSTEM else value for name, value in wanted.items()}
    await visit.call("PUT", "/me/preferences", body=body)
    return redirect(f"{base(visit)}/settings?saved=preferences")


@pages.post("/{customer}/settings/password")
async def change_password(visit: Visit) -> Response:
    """Change the password. All sessions end, and that of this browser starts again."""
    current, new = (visit.form.get(name, [""])[-1] for name in ("current_password", "new_password"))
    try:
        await visit.call("PUT", "/me/password", body={"currentPassword": current, "newPassword": new})
    except Unauthorized:
        raise
    except Refusal as refusal:
        return await _settings(visit, refusal)
    session = visit.person.session
    signed_in = await visit.sign_in(session.username, new)
    await visit.begin_session(replace(signed_in, amr=session.amr), session.browser_zone)
    return redirect(f"{base(visit)}/settings?saved=password")


@pages.post("/{customer}/settings/sessions")
async def end_sessions(visit: Visit) -> Response:
    """End one session, or all of them."""
    if ended := visit.form_value("session"):
        await visit.call("DELETE", "/sessions/{sessionId}", ended)
        return redirect(f"{base(visit)}/settings?saved=session")
    await visit.call("DELETE", "/sessions")
    return redirect(f"{base(visit)}/settings")
