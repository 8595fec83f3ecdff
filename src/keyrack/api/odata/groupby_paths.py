"""Paths of `groupby` and `aggregate`: they may end with an object, and join relations.

Source: OData Extension for Data Aggregation 4.0, section 3.1.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from keyrack.api.odata import ast, names
from keyrack.api.odata.binder import RELATIONS_OF_A_PATH
from keyrack.api.odata.literal_values import refuse, refuse_unsupported
from keyrack.api.odata.plan import ComputedProperty, Edm, Function, Nested, PlanColumn, PlanJoin, Value
from keyrack.api.odata.visible_properties import View, member
from keyrack.api.schema.fields import Complex, Field, Relation, Resource, Type


class GroupByPath(NamedTuple):
    """A resolved path: its objects, each with its presence, and its target.

    `identity` distinguishes target objects; a property has none.
    """

    steps: tuple[tuple[str, Value | None], ...]
    name: str
    target: ComputedProperty | Nested
    identity: tuple[Value, ...] = ()

    @property
    def along(self) -> bool:
        """Whether the path follows a relation, so that a value may occur more than once."""
        return any(there is not None for _, there in self.steps)


class PathFollower:
    """Follows paths over the rows of a view."""

    __slots__ = ("_view",)

    def __init__(self, view: View) -> None:
        self._view = view

    def follow(self, node: ast.Path, *, grouping: bool) -> GroupByPath:
        """Raises `BadRequest`, and `NotImplemented` for a relation to many rows outside of groupby."""
        path = node.names
        if path[0] in ("$it", "$this") and path[1:]:
            path = path[1:]
        name, prop = self._view.find(names.NamePlace(node, path))
        if prop is None:
            return self._resource_path(node, path, grouping)
        steps: list[tuple[str, Value | None]] = []
        for number in range(1, len(path)):
            if isinstance(prop, ComputedProperty):
                _refuse_more(path)
            steps.append((name, prop.is_present))
            name, prop = member(prop.members, names.NamePlace(node, path[number:]), name)
        return GroupByPath(tuple(steps), name, prop, tuple(_values(prop)) if isinstance(prop, Nested) else ())

    def _resource_path(self, node: ast.Path, path: tuple[str, ...], grouping: bool) -> GroupByPath:
        resource = self._view.resource
        way: list[tuple[str, Value | None]] = []
        steps: list[PlanJoin] = []
        level = 0
        for number in range(len(path)):
            place = names.NamePlace(node, path[number:])
            name, own = names.member(resource, place)
            if not isinstance(own, Relation):
                return self._end(path, place, way, level, name, own)
            if own.is_collection:
                _refuse_many(name, grouping)
            if len(steps) == RELATIONS_OF_A_PATH:
                refuse(f"A path follows more relations than the limit of {RELATIONS_OF_A_PATH}.")
            resource = names.target(own)
            steps.append(PlanJoin(own, resource, 0, 0))
            level = self._view.join(tuple(steps))
            way.append((name, Function(Edm.BOOLEAN, False, "({0} is not null)", keys(resource, level)[:1])))
        name, there = way.pop()
        return GroupByPath(
            tuple(way), name, Nested(all_properties(resource.fields, level), there), keys(resource, level)
        )

    def _end(
        self,
        path: tuple[str, ...],
        place: names.NamePlace,
        way: list[tuple[str, Value | None]],
        level: int,
        name: str,
        own: Field | Complex,
    ) -> GroupByPath:
        rest = place.rest[1:]
        if isinstance(own, Complex):
            if not rest:
                parts = all_properties(own.fields, level)
                return GroupByPath(tuple(way), name, Nested(parts), tuple(_values(Nested(parts))))
            way.append((name, None))
            name, own = names.part(own, name, names.NamePlace(place.node, rest))
            rest = rest[1:]
        if rest:
            _refuse_more(path)
        return GroupByPath(tuple(way), name, _property(own, level))


def all_properties(fields: Mapping[str, Field | Complex], level: int) -> dict[str, ComputedProperty | Nested]:
    """All properties of the row at the level."""
    return {
        name: Nested(all_properties(own.fields, level), _presence(own, level))
        if isinstance(own, Complex)
        else _property(own, level)
        for name, own in fields.items()
    }


def _presence(own: Complex, level: int) -> PlanColumn | None:
    """The presence of the object; None if it is always present."""
    return None if own.is_present is None else PlanColumn(Edm.BOOLEAN, True, own.is_present, level)


def keys(resource: Resource, level: int) -> tuple[PlanColumn, ...]:
    """The key of the row at the level."""
    fields = [resource.fields[name] for name in resource.key]
    return tuple(names.column(own, level) for own in fields if isinstance(own, Field))


def _property(own: Field, level: int) -> ComputedProperty:
    column = names.column(own, level)
    if level:  # a joined row may not exist
        column = column._replace(nullable=True)
    if own.type is Type.MAP:
        return ComputedProperty(column._replace(type=Edm.STRING, sql=column.sql + "::text"), output=column)
    return ComputedProperty(column, output=None if own.json is None else PlanColumn(Edm.OPAQUE, True, own.json, level))


def _values(prop: ComputedProperty | Nested) -> list[Value]:
    if isinstance(prop, ComputedProperty):
        return [prop.value]
    return [value for part in prop.members.values() for value in _values(part)]


def _refuse_more(path: tuple[str, ...]) -> NoReturn:
    refuse(f"'{'/'.join(path)}' continues after a property that has no properties.")


def _refuse_many(name: str, grouping: bool) -> NoReturn:
    if grouping:
        refuse(f"'{name}' has many rows, and groupby takes paths with one value.")
    refuse_unsupported(f"The relation '{name}', which has many rows, in aggregate")
