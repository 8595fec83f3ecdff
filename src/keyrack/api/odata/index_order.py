"""An order whose first rows an index of another table finds (`Resource.newest`)."""

from __future__ import annotations

from typing import LiteralString, NamedTuple

from keyrack.api.odata.plan import Order, PlanColumn, Rows
from keyrack.api.odata.sql import SKIP, TOP
from keyrack.api.schema.fields import Resource

FAR = 10_000  # maximum distance of the page from the first row


class IndexOrder(NamedTuple):
    """SQL that finds the rows of a page with an index.

    `keys` is a SELECT of keys as `k0`, in the requested order. Rows of the resource that are `valued` precede all
    others. `end` is the number of rows up to the page's last one; `offset` is "" or the OFFSET of its first one.
    """

    keys: LiteralString
    valued: LiteralString
    end: LiteralString
    offset: LiteralString


def lead(plan: Rows, alias: LiteralString) -> IndexOrder | None:
    """The index order of the page, if it begins with the newest rows."""
    newest, order = plan.resource.newest, plan.order
    if newest is None or plan.stages or not 1 <= len(order) <= 2 or (plan.top or 0) + (plan.skip or 0) > FAR:
        return None
    if not order[0].descending or not _is_by(plan.resource, order[0], newest.field):
        return None
    if len(order) == 2 and not _is_by(plan.resource, order[1], plan.resource.key[0]):
        return None
    key: LiteralString = newest.key.format(l="l")
    last: LiteralString = key + " desc" if len(order) == 2 and order[1].descending else key
    keys: LiteralString = (
        "select " + key + " as k0 from " + newest.table.format(l="l") + " where " + newest.scope.format(l="l")
        + " order by " + newest.order.format(l="l") + ", " + last
    )  # fmt: skip
    valued: LiteralString = plan.resource.value(newest.field, alias) + " is not null"
    return IndexOrder(keys, valued, TOP + " + " + SKIP if plan.skip else TOP, " offset " + SKIP if plan.skip else "")


def _is_by(resource: Resource, item: Order, name: str) -> bool:
    value = item.value
    return isinstance(value, PlanColumn) and not value.level and value.sql == resource.value(name, "{t}")
