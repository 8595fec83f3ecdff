"""Resources for group-limited callers, with only the rows in their group scope.

A scoped resource has relations only to scoped resources. So conditions over relations, expansions and counts stay
within the scope. A resource without a group scope has no scoped variant; planning a query over it raises `TypeError`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import LiteralString

from keyrack.api.schema.fields import Field, GroupScope, MemberRows, Resource


def scoped_by(kind: LiteralString, *, user: bool = False, is_ordered: bool = False) -> GroupScope:
    """The scope of rows whose car, service, product or user is in the groups.

    With `user`, its user must be in the scope as well, if it has one. `is_ordered` states what `MemberRows` requires.
    """
    own: LiteralString = "{t}." + kind + "_id"
    table: LiteralString = (
        " join scope_member {t}_in on {t}_in.customer_id = {t}.customer_id and {t}_in.kind = '" + kind + "'"
        " and {t}_in.member_id = " + own
    )
    scope: LiteralString = "{t}_in.customer_id = :customer and {t}_in.scope_id = :scope"
    condition: LiteralString = "({t}.user_id is null or " + in_scope_sql("user", "{t}.user_id") + ")" if user else ""
    if condition:
        scope += " and " + condition
    if not is_ordered:
        return GroupScope(table, scope)
    is_in_scope = scope_lookup_sql(kind, own)
    if user:
        is_in_scope += " and ({t}.user_id is null or " + scope_lookup_sql("user", "{t}.user_id") + ")"
    ids: LiteralString = (
        "select member_id from scope_member"
        " where customer_id = :customer and scope_id = :scope and kind = '" + kind + "'"
    )  # fmt: skip
    return GroupScope(table, scope, member_rows=MemberRows(ids, own, condition, is_in_scope, in_scope_sql(kind, own)))


def scoped_itself(kind: LiteralString) -> GroupScope:
    """The scope of rows that are cars, services, products or users themselves."""
    return replace(scoped_by(kind), id_column=kind + "_id")


def in_scope_sql(kind: LiteralString, id: LiteralString) -> LiteralString:
    """SQL of whether this id is in the scope."""
    return (
        "exists (select from scope_member i where i.customer_id = :customer and i.scope_id = :scope"
        " and i.kind = '" + kind + "' and i.member_id = " + id + ")"
    )  # fmt: skip


def scope_lookup_sql(kind: LiteralString, id: LiteralString) -> LiteralString:
    """SQL of whether this id is in the scope, null if not.

    PostgreSQL looks up each id. With `exists`, it may join the whole scope instead, which can be much more.
    """
    return (
        "(select true from scope_member i where i.customer_id = :customer and i.scope_id = :scope"
        " and i.kind = '" + kind + "' and i.member_id = " + id + ")"
    )  # fmt: skip


@cache
def in_group_scope(resource: Resource) -> Resource:
    """The resource for group-limited callers. Raises `TypeError` for one without a group scope."""
    if resource.group_scope is None:
        raise TypeError(f"{resource.name} has no group scope")
    return replace(
        resource,
        table=resource.table + resource.group_scope.table,
        scope=(
            resource.group_scope.scope
            if resource.group_scope.is_whole
            else resource.scope + " and " + resource.group_scope.scope
        ),
        fields={name: resource.group_scope.fields.get(name, field) for name, field in resource.fields.items()},
        relations={name: replace(relation, is_group_scoped=True) for name, relation in resource.relations.items()},
        member_rows=resource.group_scope.member_rows
        and replace(resource.group_scope.member_rows, table=resource.table, scope=resource.scope),
        newest=None,  # an index to the first rows also leads to rows outside the scope
    )


@cache
def scoped_list(resource: Resource) -> Resource:
    """The scoped resource for lists.

    It reads the ids from the scope in order, and each row by its id. Otherwise PostgreSQL reads the whole fleet if it
    overestimates the size of the scope. Raises `TypeError` as `in_group_scope` does.
    """
    scoped_resource, limit = in_group_scope(resource), resource.group_scope
    if limit is None or not limit.id_column:
        return scoped_resource
    main, _, rest = resource.table.partition(" {t}")
    row: LiteralString = (
        " cross join lateral (select * from " + main + " m where m.customer_id = {t}_in.customer_id and m."
        + limit.id_column + " = {t}_in.member_id limit 1) {t}" + rest
    )  # fmt: skip
    members: LiteralString = (limit.members or "scope_member") + " {t}_in"
    kind: LiteralString = " and {t}_in.kind = '" + limit.id_column.removesuffix("_id") + "'"
    # Each member of a scope exists: it is in a group, and groups refer to their members
    all_rows = members if limit.members else members + " where " + limit.scope + kind
    (key,) = resource.key
    field = resource.fields[key]
    assert isinstance(field, Field)  # noqa: S101 - a key is a number
    return replace(
        scoped_resource,
        table=members + row,
        all_rows=all_rows,
        table_of_key="(select :customer::integer as customer_id, {key} as member_id) {t}_in" + row,
        scope=resource.scope if limit.members else scoped_resource.scope + kind,
        fields={**scoped_resource.fields, key: replace(field, sql="{t}_in.member_id")},
        walks=(),  # no index orders them otherwise
    )
