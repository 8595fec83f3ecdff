"""The `Change` resource: the API's view of the change log."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.permissions import Permission
from keyrack.api.schema.fields import Complex, Field, GroupScope, Resource, date_time, int64, opaque, string
from keyrack.api.schema.group_scope import in_scope_sql
from keyrack.fleet.schema import product_in_scope_sql

ACTOR: tuple[LiteralString, ...] = ("type", "id", "name")


def _content(side: LiteralString) -> LiteralString:
    """One side of a change, including its personal members, unless erased."""
    own: LiteralString = "{t}." + side
    personal: LiteralString = "nullif({t}.person->'" + side + "', 'null')"
    return "coalesce(" + own + " || " + personal + ", " + own + ", " + personal + ")"


def _member_field(member: LiteralString) -> Field:
    """A member of `who`: the actor, its address and its request."""
    return string("{t}.who->>'" + member + "'", nullable=True)


# The groups of a group-limited caller
_SCOPE_GROUPS: LiteralString = "(select s.groups from scope s where s.customer_id = :customer and s.scope_id = :scope)"
# Changes of an assignment or a key name a car and a user: both must be in scope. Without `group_sets` they are hidden
_IN_SCOPE: LiteralString = (
    "{t}.groups && " + _SCOPE_GROUPS + " and case when {t}.group_sets is null then"
    " {t}.resource not in ('assignment', 'key') else not exists (select from jsonb_array_elements({t}.group_sets) g"
    " where not g.value ?| " + _SCOPE_GROUPS + "::text[]) end"
)  # fmt: skip
_OWN_GROUPS: LiteralString = (
    "(select coalesce(jsonb_agg(g.id order by g.id), '[]') from unnest({t}.groups) g (id)"
    " where g.id = any(" + _SCOPE_GROUPS + "::integer[]))"
)


def _scoped_content(side: LiteralString) -> LiteralString:
    """One side for a group-limited caller: a car or a box out of scope now is null."""
    return (
        "(select c.content || case"
        " when {t}.resource = 'product' and c.content ? 'carId' and not "
        + in_scope_sql("car", "(c.content->>'carId')::integer") + " then jsonb_build_object('carId', null)"
        " when {t}.resource in ('service', 'key') and c.content ? 'productId' and not "
        + product_in_scope_sql("(c.content->>'productId')::integer") + " then jsonb_build_object('productId', null)"
        " else jsonb_build_object() end from (select " + _content(side) + " as content) c)"
    )  # fmt: skip


def _scoped_actor(member: LiteralString) -> Field:
    """The same member for a group-limited caller.

    It is null if a user acted who is out of scope now.

    A driver is recorded by the user's id, the app of a user by its subject.
    """
    user: LiteralString = (
        "coalesce(({t}.who->>'id')::integer, (select s.user_id from app_subject s"
        " where s.customer_id = :customer and s.subject = ({t}.who->>'name')::uuid))"
    )
    return string(
        "case when {t}.who->>'type' is distinct from 'user' then {t}.who->>'" + member + "'"
        " when " + in_scope_sql("user", user) + " then {t}.who->>'" + member + "' end",
        nullable=True,
    )  # fmt: skip


CHANGE = Resource(
    "Change",
    "change {t}",
    "{t}.customer_id = :customer",
    {
        "id": int64("{t}.change_id"),
        "time": date_time("{t}.at"),
        "recordedTime": date_time("{t}.recorded_at"),
        "kind": string("{t}.kind"),
        "resource": string("{t}.resource"),
        "resourceId": string("{t}.resource_id"),
        "actor": Complex({name: _member_field(name) for name in ACTOR}),
        "onBehalfOf": Complex(
            {name: string("{t}.who->'onBehalfOf'->>'" + name + "'", nullable=True) for name in ACTOR},
            is_present="jsonb_typeof({t}.who->'onBehalfOf') = 'object'",
        ),
        "address": _member_field("address"),
        "requestId": _member_field("requestId"),
        "operationId": _member_field("operationId"),
        "groups": opaque("to_jsonb({t}.groups)"),
        "before": opaque(_content("before")),
        "after": opaque(_content("after")),
    },
    group_scope=GroupScope(
        "",
        _IN_SCOPE,
        {
            "actor": Complex({"type": _member_field("type"), "id": _scoped_actor("id"), "name": _scoped_actor("name")}),
            "address": _scoped_actor("address"),
            "groups": opaque(_OWN_GROUPS),
            "before": opaque(_scoped_content("before")),
            "after": opaque(_scoped_content("after")),
        },
    ),
    permission=Permission.CHANGES_READ,
)
