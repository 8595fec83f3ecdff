"""Options around expressions: `$select`, `$expand`, `$orderby`, `$search` and the page.

Source: OData 4.01 Part 2, sections 5.1.3 to 5.1.7; complex members may be expanded, because public clients do so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

from keyrack.api.odata import ast, names, searches
from keyrack.api.odata.binder import Binder, Row
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import refuse, with_parameter
from keyrack.api.odata.plan import (
    ComputedProperty,
    Edm,
    Expansion,
    LiteralOrigin,
    Nested,
    Order,
    PlanJoin,
    PlanJunction,
    Rows,
    SelectedMember,
    Value,
)
from keyrack.api.odata.visible_properties import View
from keyrack.api.schema.fields import Complex, Field, Relation, Resource
from keyrack.core.errors import BadRequest

EXPANSIONS = 2  # levels of $expand


class QueryContext(NamedTuple):
    """The parts of a request that every option needs."""

    limits: Limits
    aliases: Mapping[str, ast.Node]
    root: Row  # the row of the request
    view: View | None = None  # the computed properties of the request's rows
    origins: list[LiteralOrigin] | None = None  # of the literals in its own `$filter`
    hides_extensions: bool = False  # without `$select`, only the spec's members are returned

    def binder(self, base: Row, rank: Value | None = None) -> Binder:
        return Binder(self.limits, self.aliases, base, self.root, self.view, rank=rank)

    def condition(self, base: Row, node: ast.Node) -> Value:
        """The condition of a `$filter` on the rows at `base`. Raises `BadRequest`."""
        origins = self.origins if base == self.root else None
        return Binder(self.limits, self.aliases, base, self.root, self.view, origins).condition(node)


def rows(context: QueryContext, resource: Resource, options: ast.AstOptions, level: int = 0) -> Rows:
    """The plan of the options for rows of the resource. Raises `BadRequest`."""
    row = (resource, level)
    named = "$filter"  # the current option, for errors
    try:
        where = None if options.filter is None else context.condition(row, options.filter)
        named = "$orderby"
        rank = None if options.search is None else searches.rank(row, options.search)
        order = ordered(context.limits, lambda node: context.binder(row, rank).value(node), options.orderby)
        named = "$select"
        shown, made = _members(context, row, options)
        named = "$expand"
        expanded, shown = _relations(context, row, options.expand, shown)
        if shown is None and context.hides_extensions and resource.has_extensions:
            shown = _defaults(context, resource)
    except BadRequest as refusal:
        # Options in parentheses are part of the text of $expand, and so are their positions
        raise with_parameter(refusal, "$expand" if level else named) from None
    if options.search is not None:
        where = both(where, searches.condition(context.limits, row, options.search))
    return Rows(
        resource,
        level,
        None if shown is None else _selected_members(resource, shown),
        expanded,
        where,
        order,
        page(options.top, context.limits.top),
        options.skip,
        tuple(made.items()),
    )


def _members(
    context: QueryContext, row: Row, options: ast.AstOptions
) -> tuple[_SelectTree | None, dict[str, ComputedProperty | Nested]]:
    """The selected members of the resource and the selected computed properties.

    The former are None if all members are selected.
    """
    resource, level = row
    made: dict[str, ComputedProperty | Nested] = {}
    select = options.select
    if context.view is not None and not level:
        select, made = _computed(context.limits, context.view, select)
    return (_selected(context, resource, select) if options.select else None), made


def _relations(
    context: QueryContext, row: Row, items: tuple[ast.ExpandItem, ...], tree: _SelectTree | None
) -> tuple[tuple[Expansion, ...], _SelectTree | None]:
    """The expanded relations, and the selected members with expanded complex ones.

    Relations are in the order of the model.
    """
    resource, _ = row
    expanded: list[Expansion] = []
    for item in items:
        name, member = _expandable(resource, item)
        if item.alone and not (isinstance(member, Relation) and member.is_collection):
            refuse(f"'{name}' is not a collection, so it has no /$count.")
        if isinstance(member, Complex):
            tree = _with_complex(context, resource, tree, name, member, item.options)
        elif any(other.name == name for other in expanded):
            refuse(f"'{name}' is expanded more than once.")
        else:
            expanded.append(_expanded(context, row, name, member, item))
    expanded.sort(key=lambda expansion: list(resource.relations).index(expansion.name))
    return tuple(expanded), tree


def both(left: Value | None, right: Value) -> Value:
    """The conjunction of two conditions, or the second one if the first is None."""
    return right if left is None else PlanJunction("and", (left, right), left.nullable or right.nullable)


def page(top: int | None, most: int) -> int | None:
    """The page size. Raises `BadRequest` above the limit."""
    if top is not None and top > most:
        refuse(f"$top is greater than the limit of {most}.", "out-of-range", "$top")
    return top


def ordered(limits: Limits, bind: Callable[[ast.Node], Value], items: tuple[ast.OrderItem, ...]) -> tuple[Order, ...]:
    """The order, without repeated expressions. Raises `BadRequest`."""
    if len(items) > limits.orderby:
        refuse(f"$orderby has more items than the limit of {limits.orderby}.")
    order: list[Order] = []
    for item in items:
        value = bind(item.expression)
        if value.type is Edm.OPAQUE:
            refuse("This property can be selected, but not ordered by.")
        if all(value != earlier.value for earlier in order):
            order.append(Order(value, item.descending))
    return tuple(order)


def _computed(
    limits: Limits, view: View, items: tuple[ast.SelectItem, ...]
) -> tuple[tuple[ast.SelectItem, ...], dict[str, ComputedProperty | Nested]]:
    """The items of `$select` without computed properties, and the selected computed ones.

    Without `$select`, all computed properties are selected.
    """
    check_items(limits, items)
    own: list[ast.SelectItem] = []
    named: set[str] = set() if items else {*view.computed}
    for item in items:
        if item.names == ("*",):
            own.append(item)
            named |= {*view.computed}
            continue
        name, prop = view.find(names.NamePlace(item, item.names))
        if prop is None:
            own.append(item)
        elif len(item.names) > 1 or item.options is not None:
            refuse(f"'{name}' has no parts to select.")
        else:
            named.add(name)
    return tuple(own), {name: made for name, made in view.computed.items() if name in named}


# Name -> the selected parts of a complex member; None for the whole member
_SelectTree = dict[str, set[str] | None]
_NOTHING = ast.Path((), 0)  # no path after a name


def _defaults(context: QueryContext, resource: Resource) -> _SelectTree:
    """The default members of a resource without `$select`: all, or those of the spec."""
    if not context.hides_extensions:
        return dict.fromkeys(resource.fields)
    defaults: _SelectTree = {}
    for name, member in resource.fields.items():
        if isinstance(member, Complex):
            defaults[name] = {part for part, field in member.fields.items() if not field.is_extension}
        elif not member.is_extension:
            defaults[name] = None
    return defaults


def _selected(context: QueryContext, resource: Resource, items: tuple[ast.SelectItem, ...]) -> _SelectTree:
    limits = context.limits
    check_items(limits, items)
    tree: _SelectTree = {}
    for item in items:
        if item.names == ("*",):
            tree.update(_defaults(context, resource))
            continue
        name, member = names.member(resource, names.NamePlace(item, item.names))
        if isinstance(member, Complex):
            _add(tree, name, _parts(limits, name, member, names.NamePlace(item, item.names[1:]), item.options))
        elif len(item.names) > 1 or item.options is not None:
            refuse(f"'{name}' has no parts to select. Expand a relation with $expand.")
        elif isinstance(member, Field):
            tree[name] = None
    return tree


def check_items(limits: Limits, items: tuple[ast.SelectItem, ...]) -> None:
    """Raise `BadRequest` above the limit of items."""
    if len(items) > limits.select:
        refuse(f"$select has more items than the limit of {limits.select}.")


def _parts(
    limits: Limits, name: str, member: Complex, place: names.NamePlace, options: ast.AstOptions | None
) -> set[str] | None:
    """The selected parts of a complex member, None for all; `place` is the path after its name."""
    path = place.rest
    if len(path) > 1 or (path and options is not None):
        refuse(f"'{name}/{'/'.join(path)}' continues after a property that has no properties.")
    if path:
        return {names.part(member, name, place)[0]}
    if options is None:
        return None
    if options != ast.AstOptions(select=options.select):
        refuse(f"The parentheses of '{name}' can only contain $select.")
    check_items(limits, options.select)
    parts: set[str] = set()
    for item in options.select:
        if item.names == ("*",):
            return None
        if len(item.names) > 1 or item.options is not None:
            refuse(f"'{'/'.join(item.names)}' continues after a property that has no properties.")
        parts.add(names.part(member, name, names.NamePlace(item, item.names))[0])
    return parts


def _add(tree: _SelectTree, name: str, parts: set[str] | None) -> None:
    before = tree.get(name, set[str]())
    tree[name] = None if parts is None or before is None else before | parts


def _with_complex(
    context: QueryContext,
    resource: Resource,
    tree: _SelectTree | None,
    name: str,
    member: Complex,
    options: ast.AstOptions | None,
) -> _SelectTree:
    """`tree` with an expanded complex member, which is returned regardless of `$select`."""
    parts = _parts(context.limits, name, member, names.NamePlace(_NOTHING, ()), options)
    if tree is None:
        everything = _defaults(context, resource)
        everything[name] = parts
        return everything
    _add(tree, name, parts)
    return tree


def _selected_members(resource: Resource, tree: _SelectTree) -> tuple[SelectedMember, ...]:
    """The selected members, in the model's order."""
    shown: list[SelectedMember] = []
    for name, member in resource.fields.items():
        if name not in tree:
            continue
        parts = tree[name]
        if isinstance(member, Complex) and parts is not None:
            member = replace(member, fields={part: field for part, field in member.fields.items() if part in parts})
        shown.append(SelectedMember(name, member))
    return tuple(shown)


def _expandable(resource: Resource, item: ast.ExpandItem) -> tuple[str, Complex | Relation]:
    name, member = names.member(resource, names.NamePlace(item, item.names))
    if isinstance(member, Field) or len(item.names) > 1:
        refuse(f"'{'/'.join(item.names)}' cannot be expanded on type '{names.type_name(resource)}'.")
    return name, member


def _expanded(context: QueryContext, row: Row, name: str, relation: Relation, item: ast.ExpandItem) -> Expansion:
    _, level = row
    if level == EXPANSIONS:
        refuse(f"$expand is nested deeper than the limit of {EXPANSIONS} levels.")
    options = item.options or ast.AstOptions()
    if not relation.is_collection and options != ast.AstOptions(select=options.select, expand=options.expand):
        refuse(f"'{name}' is one object. Its parentheses can only contain $select and $expand.")
    target = names.target(relation)
    step = PlanJoin(relation, target, level, level + 1)
    plan = rows(context, target, options, level + 1)
    return Expansion(name, step, plan, context.limits.expanded, not item.alone, item.alone or bool(options.count))
