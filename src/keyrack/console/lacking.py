"""In charge of what somebody is told who has not the permission that something takes: what it is, and whom to ask."""

from __future__ import annotations

from keyrack.api.exchange import Answer
from keyrack.console.languages import N_
from keyrack.console.rendering import gettext, page
from keyrack.http.pages import BELOW, NotPermitted, Visit
from keyrack.model.permissions import MEANINGS, Permission, Role

NAMES = {
    Role.OWNER: N_("Owner"),
    Role.MANAGER: N_("Manager"),
    Role.DISPATCHER: N_("Dispatcher"),
    Role.TECHNICIAN: N_("Technician"),
    Role.AUDITOR: N_("Auditor"),
    Role.VIEWER: N_("Viewer"),
}
NOT_OF_ROLE = N_("Your role here is %(role)s. It does not include this: %(what)s")
ASK_OWNER = N_("Ask an owner of %(name)s for a role that includes it. What is given holds at once.")
NO_ROLE = N_("You act for %(name)s, but you have no role there yet. So there is nothing that you could see.")
ASK_PART = N_("Ask an owner of the customer for a role that includes it.")
ASK_ROLE = N_("Ask an owner of %(name)s to give you a role, then load this page again.")


async def lacking(visit: Visit, refusal: NotPermitted) -> Answer:
    """The page of somebody who is signed in, in place of one that a role does not include."""
    customers = (await visit.call("GET", "/customers", query={"$orderby": "name"})).json
    name = next((one["name"] for one in customers if one["id"] == str(visit.customer)), "")
    role = NAMES.get(visit.role) if visit.role else None
    others = [one for one in customers if one["id"] != str(visit.customer)]
    if role is None:
        title, told, remedy = N_("You have no role here"), gettext(visit, NO_ROLE, name=name), ASK_ROLE
    else:
        what = gettext(visit, MEANINGS[Permission(refusal.permission)])
        told = gettext(visit, NOT_OF_ROLE, role=gettext(visit, role), what=what)
        title, remedy, others = N_("Your role does not include this"), ASK_OWNER, []
    return await page(
        visit, "not_permitted.html", status=refusal.status, section=_section(visit),
        title=gettext(visit, title), told=told,
        remedy=gettext(visit, remedy, name=name), role=role or "", permission=refusal.permission, others=others,
        id=visit.id,
    )  # fmt: skip


def _section(visit: Visit) -> str:
    """The entry of the navigation that the address is below."""
    return visit.path.removeprefix(f"{BELOW}/{visit.customer}").strip("/").partition("/")[0]
