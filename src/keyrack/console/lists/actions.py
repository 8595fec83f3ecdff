"""In charge of what can be done with many rows of a list: by a batch, or row by row."""

from __future__ import annotations

from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.languages import N_
from keyrack.console.lists.definition import Action
from keyrack.console.lists.filters import Thing
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.http.page_router import Visit

GROUP = Thing("group", N_("Group"), "", "/groups/{groupId}", lambda row: row["name"], "/groups")
FORGOTTEN = ErrorCode("delivery-forgotten", N_("It is not kept any more."), "Send what was told since then again.")


def delete(kind: str, singular: str, many: str, warning: str, text: str = N_("Delete")) -> Action:
    """The end of rows of a kind of batches."""
    permission = Permission(f"{kind}:write")
    return Action("delete", text, "delete", singular, many, warning, permission, batch=kind, danger=True)


def add_to_group(row: str, member: str, singular: str, many: str) -> Action:
    """Putting rows into a group, by this row of the endpoints' table with the id as this member."""

    async def add(visit: Visit, id: int, group: str) -> Any:
        return await visit.call("PUT", row, group, body={member: id})

    return Action(
        "group", N_("Add to group"), "groups", singular, many, "", Permission.GROUPS_WRITE, each=add, choice=GROUP
    )


def replay() -> Action:
    """Sending deliveries again, each by the webhook that it belongs to."""

    async def again(visit: Visit, id: int, _choice: str) -> Any:
        query = {"$filter": f"id eq {id}", "$select": "webhookId"}
        rows = (await visit.call("GET", "/deliveries", query=query)).json
        if not rows:
            raise NotFound(FORGOTTEN)
        webhook = rows[0]["webhookId"]
        return await visit.call("POST", "/webhooks/{webhookId}/deliveries/{deliveryId}/replay", webhook, id)

    return Action(
        "replay",
        N_("Replay"),
        "replay",
        N_("Send %(num)s delivery again"),
        N_("Send %(num)s deliveries again"),
        N_("The webhooks are told the same once more, and know by its message's number that it is the same."),
        Permission.WEBHOOKS_WRITE,
        each=again,
    )
