"""Options beside `$apply` and `$compute`, which apply to their result.

Source: OData Extension for Data Aggregation 4.0, section 3: `$apply` is evaluated first, then the other options.
"""

from __future__ import annotations

from collections.abc import Mapping

from keyrack.api.odata import ast, names
from keyrack.api.odata.apply_plan import BEHIND, Sequence
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import refuse, refuse_unsupported, with_parameter
from keyrack.api.odata.plan import ComputedProperty, Nested, Order, Rows
from keyrack.api.odata.row_options import QueryContext, both, check_items, ordered, page, rows
from keyrack.api.odata.visible_properties import View, member
from keyrack.api.schema.fields import Resource
from keyrack.core.errors import BadRequest

_Members = Mapping[str, ComputedProperty | Nested]


def plan_apply(context: QueryContext, resource: Resource, options: ast.AstOptions) -> Rows:
    """The plan of options with `$apply` or `$compute` or both. Raises `BadRequest` and `NotImplemented`."""
    sequence = Sequence(context.limits, context.aliases, resource)
    named = "$apply"  # the current option, for errors
    try:
        sequence.apply(options.apply)
        named = "$compute"
        sequence.compute(options.compute)
    except BadRequest as refusal:
        raise with_parameter(refusal, named) from None
    view = sequence.view
    context = context._replace(view=view)
    plan = _result(context, view, resource, options) if sequence.stages else rows(context, resource, options)
    where = plan.where
    if sequence.where is not None:
        where = sequence.where if where is None else both(sequence.where, where)
    return plan._replace(
        where=where,
        order=_then(plan.order, sequence.order),
        joins=sequence.joins,
        stages=tuple(sequence.stages),
        key=sequence.key,
    )


def _then(order: tuple[Order, ...], others: tuple[Order, ...]) -> tuple[Order, ...]:
    return order + tuple(item for item in others if all(item.value != earlier.value for earlier in order))


def _result(context: QueryContext, view: View, resource: Resource, options: ast.AstOptions) -> Rows:
    """The plan of rows that are no longer the resource's own."""
    for name, value in (("expand", options.expand), ("search", options.search)):
        if value:
            refuse_unsupported(f"${name} {BEHIND}")
    row = context.root
    made: _Members = view.computed
    named = "$select"
    try:
        if options.select:
            made = _selected(context.limits, made, options.select, view)
        named = "$filter"
        where = None if options.filter is None else context.binder(row).condition(options.filter)
        named = "$orderby"
        order = ordered(context.limits, lambda node: context.binder(row).value(node), options.orderby)
    except BadRequest as refusal:
        raise with_parameter(refusal, named) from None
    return Rows(
        resource,
        0,
        (),
        (),
        where,
        order,
        page(options.top, context.limits.top),
        options.skip,
        tuple(made.items()),
    )


def _selected(
    limits: Limits, members: _Members, items: tuple[ast.SelectItem, ...], view: View | None = None, owner: str = ""
) -> dict[str, ComputedProperty | Nested]:
    """The members that `$select` names, in their order. At the top, `view` has the members."""
    check_items(limits, items)
    wanted: dict[str, list[ast.SelectItem] | None] = {}
    for item in items:
        if item.names == ("*",):
            wanted.update(dict.fromkeys(members))
            continue
        place, rest = names.NamePlace(item, item.names), item.names[1:]
        name = member(members, place, owner)[0] if view is None else view.find(place)[0]
        parts = _parts(item, rest, name)
        others = wanted.get(name, [])
        wanted[name] = None if parts is None or others is None else [*others, *parts]
    selection: dict[str, ComputedProperty | Nested] = {}
    for name, part in members.items():
        if name not in wanted:
            continue
        inside = wanted[name]
        if inside is not None:
            if isinstance(part, ComputedProperty):
                refuse(f"'{name}' has no parts to select.")
            part = Nested(_selected(limits, part.members, tuple(inside), owner=name), part.is_present)
        selection[name] = part
    return selection


def _parts(item: ast.SelectItem, rest: tuple[str, ...], name: str) -> list[ast.SelectItem] | None:
    """The selected parts of a member; None for all."""
    if rest:
        return [ast.SelectItem(rest, item.options, names.NamePlace(item, rest).position)]
    if item.options is None:
        return None
    if item.options != ast.AstOptions(select=item.options.select):
        refuse(f"The parentheses of '{name}' can only contain $select.")
    return list(item.options.select)
