"""In charge of the model as it is for who is limited to groups: of each resource the rows that exist for them.

A limited resource leads to limited ones alone, so that whatever is made of it, a condition over relations, an expansion
or a count, stays within the limit. What has no limit has no such form, and a plan over it cannot be made.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import LiteralString

from keyrack.api.schema.fields import Field, GroupScope, Resource

_NUMBER = re.compile(r"\$(\d+)")


def scoped_by(kind: LiteralString, *, user: bool = False) -> GroupScope:
    """A row exists if its car, service, product or user is in the scope; and, with `user`, its user as well, where it
    has one."""
    own: LiteralString = "{t}." + kind + "_id"
    table: LiteralString = (
        " join scope_member {t}_in on {t}_in.customer_id = {t}.customer_id and {t}_in.kind = '" + kind + "'"
        " and {t}_in.member_id = " + own
    )
    scope: LiteralString = "{t}_in.customer_id = $1 and {t}_in.scope_id = $2"
    if user:
        scope += " and ({t}.user_id is null or " + in_scope_sql("user", "{t}.user_id") + ")"
    return GroupScope(table, scope)


def scoped_itself(kind: LiteralString) -> GroupScope:
    """A row is a car, service, product or user, and exists if it is in the scope."""
    return replace(scoped_by(kind), itself=kind + "_id")


def in_scope_sql(kind: LiteralString, id: LiteralString) -> LiteralString:
    """SQL of whether this is in the scope."""
    return (
        "exists (select from scope_member i where i.customer_id = $1 and i.scope_id = $2 and i.kind = '" + kind + "'"
        " and i.member_id = " + id + ")"
    )


@cache
def in_group_scope(resource: Resource) -> Resource:
    """The resource as it is for who is limited to groups; what had parameters from `$2` on has them from `$3` on.
    Raises `TypeError` for one that does not exist for them."""
    if resource.limit is None:
        raise TypeError(f"{resource.name} says of no row that it exists for who is limited to groups")
    return replace(
        resource,
        table=shift_parameters(resource.table) + resource.limit.table,
        scope=(
            resource.limit.scope
            if resource.limit.is_whole
            else shift_parameters(resource.scope) + " and " + resource.limit.scope
        ),
        fields={name: resource.limit.fields.get(name, field) for name, field in resource.fields.items()},
        relations={name: replace(relation, limited=True) for name, relation in resource.relations.items()},
        newest=None,  # what leads to the first rows leads to others as well
    )


@cache
def scoped_list(resource: Resource) -> Resource:
    """The same rows, for lists of them: the numbers are read from the scope, in their order, and each row by its own.
    Left to itself PostgreSQL reads the whole fleet where it takes a scope for a larger part of it than it is. Raises
    `TypeError` like `limited`."""
    scoped_resource, limit = in_group_scope(resource), resource.limit
    if limit is None or not limit.itself:
        return scoped_resource
    main, _, rest = shift_parameters(resource.table).partition(" {t}")
    row: LiteralString = (
        "(select * from " + main + " m where m.customer_id = {t}_in.customer_id and m." + limit.itself
        + " = {t}_in.member_id limit 1) {t}"
    )  # fmt: skip
    kind: LiteralString = " and {t}_in.kind = '" + limit.itself.removesuffix("_id") + "'"
    (key,) = resource.key
    field = resource.fields[key]
    assert isinstance(field, Field)  # noqa: S101 - a key is a number
    return replace(
        scoped_resource,
        table=(limit.members or "scope_member") + " {t}_in cross join lateral " + row + rest,
        scope=shift_parameters(resource.scope) if limit.members else scoped_resource.scope + kind,
        fields={**scoped_resource.fields, key: replace(field, sql="{t}_in.member_id")},
        walks=(),  # no index leads through them in another order
    )


def shift_parameters(sql: LiteralString) -> LiteralString:
    """The same constant where the scope stands before its parameters, behind the tenant.

    >>> shift_parameters("{t}.customer_id = $1 and {t}.at <= $2")
    '{t}.customer_id = $1 and {t}.at <= $3'
    """
    return _NUMBER.sub(_next, sql)  # pyright: ignore[reportReturnType] - a constant of ours with other numbers in it


def _next(match: re.Match[str]) -> str:
    return match[0] if match[1] == "1" else f"${int(match[1]) + 1}"
