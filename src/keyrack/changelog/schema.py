"""In charge of the log of changes as part of the model: what one change is."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import Complex, Field, GroupScope, Resource, date_time, int64, opaque, string

ACTOR: tuple[LiteralString, ...] = ("type", "id", "name")


def _content(side: LiteralString) -> LiteralString:
    """The members of one side, the personal ones among them, as far as either was not erased."""
    own: LiteralString = "{t}." + side
    personal: LiteralString = "nullif({t}.person->'" + side + "', 'null')"
    return "coalesce(" + own + " || " + personal + ", " + own + ", " + personal + ")"


def _told(member: LiteralString) -> Field:
    """A member of what is known of who did it."""
    return string("{t}.who->>'" + member + "'", nullable=True)


CHANGE = Resource(
    "Change",
    "change {t}",
    "{t}.customer_id = $1",
    {
        "id": int64("{t}.change_id"),
        "time": date_time("{t}.at"),
        "recordedTime": date_time("{t}.recorded_at"),
        "kind": string("{t}.kind"),
        "resource": string("{t}.resource"),
        "resourceId": string("{t}.resource_id"),
        "actor": Complex({name: _told(name) for name in ACTOR}),
        "onBehalfOf": Complex(
            {name: string("{t}.who->'onBehalfOf'->>'" + name + "'", nullable=True) for name in ACTOR},
            there="jsonb_typeof({t}.who->'onBehalfOf') = 'object'",
        ),
        "address": _told("address"),
        "requestId": _told("requestId"),
        "operationId": _told("operationId"),
        "groups": opaque("to_jsonb({t}.groups)"),
        "before": opaque(_content("before")),
        "after": opaque(_content("after")),
    },
    limit=GroupScope("", "{t}.groups && (select s.groups from scope s where s.customer_id = $1 and s.scope_id = $2)"),
    permission=Permission.CHANGES_READ,
)
