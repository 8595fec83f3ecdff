"""The 'permission missing' page: which permission, and who can grant it."""

from __future__ import annotations

from keyrack.api.exchange import Response
from keyrack.api.permissions import MEANINGS, Permission, Role
from keyrack.console.rendering import gettext, page
from keyrack.core.text import N_
from keyrack.http.page_router import BELOW, NotPermitted, Visit

NAMES = {
    Role.OWNER: N_("Owner"),
    Role.MANAGER: N_("Manager"),
    Role.DISPATCHER: N_("Dispatcher"),
    Role.TECHNICIAN: N_("Technician"),
    Role.AUDITOR: N_("Auditor"),
    Role.VIEWER: N_("Viewer"),
}
ASK_PART = N_("Ask an owner of the customer for a role that includes it.")


async def lacking(visit: Visit, refusal: NotPermitted) -> Response:
    """The page that replaces one for which the role lacks the permission."""
    return await page(
        visit, "not_permitted.html", status=refusal.status, section=_section(visit), id=visit.id,
        role=gettext(visit, NAMES[visit.role]) if visit.role else "", permission=refusal.permission,
        what=gettext(visit, MEANINGS[Permission(refusal.permission)]),
    )  # fmt: skip


def _section(visit: Visit) -> str:
    """The entry of the navigation to which the address belongs."""
    return visit.path.removeprefix(f"{BELOW}/{visit.customer}").strip("/").partition("/")[0]
