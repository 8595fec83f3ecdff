"""The plan of `$apply` transformations and `$compute`, one after the other.

Source: OData Extension for Data Aggregation 4.0, sections 3.1 to 3.4; `$compute`: OData 4.01 Part 2, section 5.1.10.
Computed properties are inlined where they are named. Aggregation and paging become separate SELECTs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from keyrack.api.odata import aggregates, ast, names, searches
from keyrack.api.odata.binder import Binder
from keyrack.api.odata.groupby_paths import PathFollower, all_properties, keys
from keyrack.api.odata.limits import Limits
from keyrack.api.odata.literal_values import check_offset, refuse, refuse_unsupported
from keyrack.api.odata.plan import ComputedProperty, Edm, Function, Nested, Order, PlanColumn, PlanJoin, Stage, Value
from keyrack.api.odata.row_options import both, ordered, page
from keyrack.api.odata.visible_properties import View
from keyrack.api.schema.fields import Resource
from keyrack.db.named_parameters import NUMBERS

BEHIND = "after groupby, aggregate, top or skip in $apply"

_Members = dict[str, ComputedProperty | Nested]
_NOTHING: Mapping[str, Any] = {}


class Columns:
    """The columns of a stage, without duplicate values."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[Value, PlanColumn] = {}

    def add(self, value: Value) -> PlanColumn:
        """Add the value as a column for the next stage."""
        if (column := self.values.get(value)) is None:
            enum = value.enum if isinstance(value, PlanColumn) else ()
            name = NUMBERS[len(self.values)]
            column = self.values[value] = PlanColumn(value.type, value.nullable, "{t}.c" + name, 0, enum)
        return column


class Sequence:
    """The rows of a request while transformations are applied to them."""

    __slots__ = (
        "_binder", "_cut", "_joins", "_limits", "_skip", "_top", "key", "order", "resource", "stages", "view", "where"
    )  # fmt: skip

    def __init__(self, limits: Limits, aliases: Mapping[str, ast.Node], resource: Resource) -> None:
        self._limits = limits
        self.resource = resource
        self.view = View(resource)
        self._joins = self.view.joins
        self._binder = Binder(limits, aliases, (resource, 0), (resource, 0), self.view)
        self.where: Value | None = None
        self.order: tuple[Order, ...] = ()
        self.stages: list[Stage] = []
        self.key: tuple[Order, ...] = ()  # of the last stage's rows
        self._cut = False
        self._top: int | None = None
        self._skip = 0

    @property
    def joins(self) -> tuple[PlanJoin, ...]:
        """The relations joined to the resource's rows."""
        return tuple(self._joins.values())

    def apply(self, transformations: tuple[ast.Transformation, ...]) -> None:
        """Apply transformations in order. Raises `BadRequest` and `NotImplemented`."""
        if len(transformations) > self._limits.transformations:
            refuse(f"$apply has more transformations than the limit of {self._limits.transformations}.")
        for transformation in transformations:
            _APPLY[type(transformation)](self, transformation)
        self._settle()

    def compute(self, items: tuple[ast.ComputeItem, ...]) -> None:
        """Add computed properties. One may name previous ones. Raises `BadRequest`."""
        for item in items:
            self._check_alias(item.alias, self.view.computed)
            before, self._binder.deepest = self._binder.nodes, 0
            value = self._binder.value(item.expression)
            check_offset(value)
            if value.type in (Edm.NULL, Edm.OPAQUE):
                refuse(f"'{item.alias}' cannot be computed, because its type would be {value.type.value}.")
            if isinstance(value, Function) and value.divisors:
                # A property is null if its divisor is 0
                value = Function(value.type, True, "{0}", (value,))
            cost = self._binder.nodes - before
            self.view.computed[item.alias] = ComputedProperty(value, True, None, cost, self._binder.deepest)

    def identity(self, _node: ast.Identity) -> None:
        pass

    def filter(self, node: ast.FilterTransformation) -> None:
        self._settle()
        self.where = both(self.where, self._binder.condition(node.condition))

    def find(self, node: ast.Find) -> None:
        self._settle()
        if not self.view.has_own:
            refuse_unsupported(f"search {BEHIND}")
        self.where = both(self.where, searches.condition(self._limits, (self.resource, 0), node.search))

    def computed(self, node: ast.Compute) -> None:
        self.compute(node.items)

    def sort(self, node: ast.Sort) -> None:
        self._settle()
        order = ordered(self._limits, self._binder.value, node.items)
        self.order = order + tuple(item for item in self.order if all(item.value != new.value for new in order))

    def limit(self, node: ast.Cut) -> None:
        page(node.number if node.name == "top" else None, self._limits.top)
        self._cut = True
        if node.name == "skip":
            self._skip += node.number
            self._top = None if self._top is None else max(self._top - node.number, 0)
        else:
            self._top = node.number if self._top is None else min(self._top, node.number)

    def aggregate(self, node: ast.Aggregate) -> None:
        self._group((), node.items)

    def groupby(self, node: ast.GroupBy) -> None:
        self._group(node.paths, node.items)

    def _group(self, paths: tuple[ast.Path, ...], items: tuple[ast.AggregateItem, ...]) -> None:
        """One row per distinct value of the paths, or a single one. Null counts as a value."""
        self._settle()
        self._check_number(len(paths) + len(items))
        columns, made = Columns(), _Members()
        order: list[Order] = []
        leading = PathFollower(self.view)
        for path in paths:
            lead = leading.follow(path, grouping=True)
            members = made
            for name, there in lead.steps:
                nested = members.get(name)
                inside = dict(nested.members) if isinstance(nested, Nested) else _Members()
                there = _presence(there, columns, order)
                members[name] = Nested(inside, there)
                members = inside
            members[lead.name] = _grouped(lead.target, columns, order)
        grouped = len(columns.values)
        for item in items:
            before = self._binder.nodes
            value = aggregates.value(item, self._binder, leading)
            alias = item.alias or ""
            self._check_alias(alias, made, self.view.computed)
            made[alias] = ComputedProperty(columns.add(value), True, None, self._cost(item, leading, before))
        self._next(Stage(tuple(columns.values), self.where, grouped), made, tuple(order))

    def _cost(self, item: ast.AggregateItem, leading: PathFollower, before: int) -> int:
        """The cost of naming the item.

        It includes the cost of the item's parts, otherwise an expression could grow in each stage.
        """
        if isinstance(item.expression, ast.Path):
            prop = leading.follow(item.expression, grouping=False).target
            return prop.nodes if isinstance(prop, ComputedProperty) else 1
        return max(1, self._binder.nodes - before)

    def _settle(self) -> None:
        """After `top` or `skip`, make the remaining rows a stage."""
        if not self._cut:
            return
        columns, made = Columns(), _Members()
        own = all_properties(self.resource.fields, 0) if self.view.has_own else {}
        for name, member in (own | self.view.computed).items():
            made[name] = _copied(member, columns)
        key = self.key
        if self.view.has_own:
            key = tuple(Order(column, False) for column in keys(self.resource, 0))
        order = (*self.order, *[item for item in key if all(item.value != other.value for other in self.order)])
        behind = tuple(Order(columns.add(item.value), item.descending) for item in order)
        stage = Stage(tuple(columns.values), self.where, None, order, self._top, self._skip)
        self._next(stage, made, behind, cut=self.view.has_own or self.view.is_cut)

    def _next(self, stage: Stage, made: _Members, key: tuple[Order, ...], *, cut: bool = False) -> None:
        self.stages.append(stage)
        self.view = View(self.resource, made, has_own=False, is_cut=cut)
        self._binder.view = self.view
        self.where, self.order, self.key = None, (), key
        self._cut, self._top, self._skip = False, None, 0

    def _check_alias(self, alias: str, made: _Members, before: Mapping[str, Any] = _NOTHING) -> None:
        """Raise `BadRequest` if the name is already used (section 3.1.1: "alias").

        Names that differ only in case count as equal, because many clients do not distinguish them.
        """
        lower = alias.lower()
        if lower in names.members(self.resource)[1]:
            refuse(f"The alias '{alias}' is the name of a property of '{self.resource.name}'.")
        if any(lower == other.lower() for other in (*made, *before)):
            refuse(f"The alias '{alias}' is given more than once.")
        self._check_number(len(made) + 1)

    def _check_number(self, number: int) -> None:
        if number > self._limits.properties:
            refuse(f"$apply and $compute make more properties than the limit of {self._limits.properties}.")


def _presence(there: Value | None, columns: Columns, order: list[Order]) -> Value | None:
    """The presence of an object, as a grouping criterion."""
    return None if there is None else _criterion(there, columns, order)


def _criterion(value: Value, columns: Columns, order: list[Order]) -> PlanColumn:
    column = columns.add(value)
    if all(column != item.value for item in order):
        order.append(Order(column, False))
    return column


def _grouped(member: ComputedProperty | Nested, columns: Columns, order: list[Order]) -> ComputedProperty | Nested:
    """A property, or all parts of an object, as grouping criteria."""
    if isinstance(member, Nested):
        there = _presence(member.is_present, columns, order)
        return Nested({name: _grouped(part, columns, order) for name, part in member.members.items()}, there)
    if member.value.type is Edm.OPAQUE:
        refuse("This property can be selected, but not grouped by.")
    return ComputedProperty(_criterion(member.value, columns, order), member.alias, None, member.nodes)


def _copied(member: ComputedProperty | Nested, columns: Columns) -> ComputedProperty | Nested:
    """The same property in the next stage."""
    if isinstance(member, Nested):
        there = None if member.is_present is None else columns.add(member.is_present)
        return Nested({name: _copied(part, columns) for name, part in member.members.items()}, there)
    shown = None if member.output is None else columns.add(member.output)
    return ComputedProperty(columns.add(member.value), member.alias, shown, member.nodes)


_APPLY: dict[type[Any], Callable[[Sequence, Any], None]] = {
    ast.Identity: Sequence.identity,
    ast.FilterTransformation: Sequence.filter,
    ast.Find: Sequence.find,
    ast.Compute: Sequence.computed,
    ast.Sort: Sequence.sort,
    ast.Cut: Sequence.limit,
    ast.Aggregate: Sequence.aggregate,
    ast.GroupBy: Sequence.groupby,
}
