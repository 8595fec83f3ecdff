"""Accounts: people with access to the customer, their roles, and invitations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import ROLES, Permission, Role
from keyrack.console import group_scope_field
from keyrack.console.forbidden import NAMES
from keyrack.console.form_errors import RIGHT, SHOWN, FormErrors, invalid, key, refused
from keyrack.console.group_scope_field import FleetPart
from keyrack.console.rendering import base, gettext, page, redirect
from keyrack.core.text import N_
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "settings"
DONE = {
    "role": N_("The role is changed. The change takes effect at once."),
    "groups": N_("The group scope is changed. The change takes effect at once, also in open pages."),
    "removed": N_("The account no longer has access to this customer."),
    "withdrawn": N_("The invitation is withdrawn. Its link is no longer valid."),
}
NO_ADDRESS = N_("Enter an e-mail address, for example kim@example.com.")
NO_ROLE = N_("Choose a role.")
WORDS = {"/emailAddress": ("address", NO_ADDRESS), "/role": ("role", NO_ROLE)}


@pages.get("/{customer}/settings/managers", permission=Permission.MANAGERS_READ)
async def managers(visit: Visit) -> Response:
    return await _managers(visit)


async def _managers(visit: Visit, wrong: FormErrors = RIGHT) -> Response:
    rows = (await visit.call("GET", "/managers", query={"$orderby": "username"})).json
    invited = (await visit.call("GET", "/invitations", query={"$orderby": "created desc"})).json
    return await page(
        visit, "managers.html", status=wrong.status, section=SECTION, rows=rows, invited=invited, wrong=wrong,
        roles=_roles(visit), names={str(role): name for role, name in NAMES.items()}, own=visit.person.manager.id,
        done=DONE.get(visit.query_value("done"), ""), groups=await group_scope_field.names(visit, [*rows, *invited]),
    )  # fmt: skip


def _roles(visit: Visit) -> list[tuple[str, str]]:
    """The roles to choose from, with their descriptions."""
    return [(str(role), f"{gettext(visit, NAMES[role])}: {gettext(visit, ROLES[role])}") for role in Role]


@pages.get("/{customer}/settings/managers/invite", permission=Permission.MANAGERS_WRITE)
async def form(visit: Visit) -> Response:
    return await _form(visit, {"address": "", "role": ""}, RIGHT, await group_scope_field.of_groups(visit, None))


async def _form(visit: Visit, typed: dict[str, str], wrong: FormErrors, part: FleetPart) -> Response:
    return await page(
        visit, "manager_invite.html", status=wrong.status, section=SECTION, typed=typed, wrong=wrong,
        roles=_roles(visit), back=f"{base(visit)}/settings/managers", key=key(visit),
        mails=visit.settings.sends_mail, part=part,
    )  # fmt: skip


@pages.post("/{customer}/settings/managers/invite", has_secret=True, permission=Permission.MANAGERS_WRITE)
async def invite(visit: Visit) -> Response:
    typed = {"address": visit.form_value("address"), "role": visit.form_value("role")}
    part = await group_scope_field.sent(visit)
    no_role = "" if typed["role"] else gettext(visit, NO_ROLE)
    if wrong := invalid((("role", no_role), ("groups", group_scope_field.wrong(visit, part)))).texts:
        return await _form(visit, typed, invalid(wrong), part)
    body = {"emailAddress": typed["address"], "role": typed["role"], "groups": part.value}
    words = {pointer: (field, gettext(visit, text)) for pointer, (field, text) in WORDS.items()}
    try:
        made: Any = (await visit.call("PUT", "/managers", body=body, key=visit.form_value("key") or None)).json
    except SHOWN as refusal:
        return await _form(visit, typed, refused(visit, refusal, words), part)
    return await page(
        visit, "manager_link.html", status=201, section=SECTION, invitation=made, address=typed["address"]
    )


@pages.post("/{customer}/settings/managers/{manager}/role", permission=Permission.MANAGERS_WRITE)
async def change(visit: Visit) -> Response:
    await visit.call("GET", "/managers/{managerId}", visit.ids["manager"])
    step = {"op": "replace", "path": "/role", "value": visit.form_value("role")}
    return await _done(visit, "role", "PATCH", "/managers/{managerId}", visit.ids["manager"], body=[step])


@pages.get("/{customer}/settings/managers/{manager}/groups", permission=Permission.MANAGERS_WRITE)
async def limits(visit: Visit) -> Response:
    manager = (await visit.call("GET", "/managers/{managerId}", visit.ids["manager"])).json
    return await _limit(visit, manager, await group_scope_field.of_groups(visit, manager["groups"]), RIGHT)


async def _limit(visit: Visit, manager: Mapping[str, Any], part: FleetPart, wrong: FormErrors) -> Response:
    return await page(
        visit, "manager_groups.html", status=wrong.status, section=SECTION, manager=manager, part=part, wrong=wrong,
        back=f"{base(visit)}/settings/managers",
    )  # fmt: skip


@pages.post("/{customer}/settings/managers/{manager}/groups", permission=Permission.MANAGERS_WRITE)
async def limit(visit: Visit) -> Response:
    manager = (await visit.call("GET", "/managers/{managerId}", visit.ids["manager"])).json
    part = await group_scope_field.sent(visit)
    if wrong := invalid([("groups", group_scope_field.wrong(visit, part))]).texts:
        return await _limit(visit, manager, part, invalid(wrong))
    step = {"op": "remove", "path": "/groups"}
    if part.value is not None:
        step = {"op": "replace", "path": "/groups", "value": part.value}
    return await _done(visit, "groups", "PATCH", "/managers/{managerId}", manager["id"], body=[step])


@pages.get("/{customer}/settings/managers/{manager}/remove", permission=Permission.MANAGERS_WRITE)
async def confirm(visit: Visit) -> Response:
    manager = (await visit.call("GET", "/managers/{managerId}", visit.ids["manager"])).json
    own = manager["id"] == visit.person.manager.id
    return await page(
        visit, "manager_remove.html", section=SECTION, manager=manager, own=own, back=f"{base(visit)}/settings/managers"
    )


@pages.post("/{customer}/settings/managers/{manager}/remove", permission=Permission.MANAGERS_WRITE)
async def remove(visit: Visit) -> Response:
    return await _done(visit, "removed", "DELETE", "/managers/{managerId}", visit.ids["manager"])


@pages.post("/{customer}/settings/invitations/withdraw", permission=Permission.MANAGERS_WRITE)
async def withdraw(visit: Visit) -> Response:
    return await _done(visit, "withdrawn", "DELETE", "/invitations/{invitationId}", visit.form_value("invitation"))


async def _done(visit: Visit, done: str, method: str, path: str, *ids: object, **more: Any) -> Response:
    """Do an action and return to the list, with an error if it was rejected."""
    own = ids and str(ids[0]) == str(visit.person.manager.id) and method != "PATCH"
    try:
        await visit.call(method, path, *ids, **more)
    except SHOWN as refusal:
        return await _managers(visit, refused(visit, refusal))
    return redirect(f"{base(visit)}/settings" if own else f"{base(visit)}/settings/managers?done={done}")
