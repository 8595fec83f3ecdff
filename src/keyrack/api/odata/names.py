"""In charge of names: which member of a resource a name of the query means (OData 4.01 Part 1, section 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, NoReturn, Protocol

from keyrack.api.odata.literal_values import refuse, unknown_name
from keyrack.api.odata.parse_paths import NEEDS
from keyrack.api.odata.plan import Edm, PlanColumn
from keyrack.api.schema.fields import RESOURCES, Complex, Field, Relation, Resource, Type
from keyrack.api.schema.group_scope import in_group_scope
from keyrack.core.suggestions import did_you_mean

Member = Field | Complex | Relation

TYPES = {
    Type.INT32: Edm.INT32,
    Type.INT64: Edm.INT64,
    Type.DOUBLE: Edm.DOUBLE,
    Type.STRING: Edm.STRING,
    Type.BOOLEAN: Edm.BOOLEAN,
    Type.DATE_TIME: Edm.DATE_TIME,
    Type.WALL_CLOCK: Edm.WALL_CLOCK,
    Type.GUID: Edm.GUID,
    Type.OPAQUE: Edm.OPAQUE,
}


def folded(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Lower-case name -> the names that it may mean."""
    by_lower_name: dict[str, list[str]] = {}
    for name in names:
        by_lower_name.setdefault(name.lower(), []).append(name)
    return by_lower_name


@cache
def members(resource: Resource) -> tuple[dict[str, Member], Mapping[str, list[str]]]:
    """The members of a resource by name, and by lower-case name. Resources are constants, so this stays small."""
    if resource.scalar is not None:
        return {}, {}
    by_name: dict[str, Member] = {**resource.fields, **resource.relations}
    return by_name, folded(by_name)


class NodeOfNames(Protocol):
    """A node of the tree that is a path of names; `at` is its position."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def at(self) -> int: ...


class NamePlace(NamedTuple):
    """A name in a path: the first one of `rest`, which is what is left of the path of the node."""

    node: NodeOfNames
    rest: Sequence[str]

    @property
    def name(self) -> str:
        return self.rest[0]

    @property
    def position(self) -> int:
        """The position of the name, in characters from 0 of the option's text."""
        return self.node.at + len("/".join(self.node.names)) - len("/".join(self.rest))


def member(resource: Resource, place: NamePlace) -> tuple[str, Member]:
    """The member that is named: exactly, else regardless of case if that is unambiguous. Raises `BadRequest`."""
    exact, lower = members(resource)
    name = place.rest[0]
    if (prop := exact.get(name)) is not None:
        return name, prop
    right = only(lower.get(name.lower(), []), place, type_name(resource), exact)
    return right, exact[right]


def part(of: Complex, owner: str, place: NamePlace) -> tuple[str, Field]:
    """The field of the complex member `owner` that is named. Raises `BadRequest`."""
    name = place.rest[0]
    if (field := of.fields.get(name)) is not None:
        return name, field
    right = only(folded(of.fields).get(name.lower(), []), place, owner[:1].upper() + owner[1:], of.fields)
    return right, of.fields[right]


def only(candidates: list[str], place: NamePlace, owner: str, known: Iterable[str]) -> str:
    """The one of the candidates that a name can mean; `known` are all names there. Raises `BadRequest`."""
    if len(candidates) != 1:
        name = place.name
        if candidates:
            refuse(f"The name '{name}' is ambiguous on type '{owner}': {', '.join(candidates)}.")
        valid = list(known)
        detail = f"Could not find a property named '{name}' on type '{owner}'.{did_you_mean(name, valid)}"
        raise unknown_name(detail, place.position, valid)
    return candidates[0]


def type_name(resource: Resource) -> str:
    """What error messages call the type of a row."""
    return "Edm.String" if resource.scalar is not None else resource.name


def target(relation: Relation) -> Resource:
    """The resource whose rows the relation leads to."""
    resource = RESOURCES[relation.target]
    return in_group_scope(resource) if relation.is_group_scoped else resource


def refuse_rows(node: NodeOfNames, resource: Resource, rest: Sequence[str]) -> NoReturn:
    """Say why a path leads to no rows; `rest` is what is left of it at the row of the resource."""
    path = "/".join(node.names)
    if rest:
        name, prop = member(resource, NamePlace(node, rest))
        if isinstance(prop, Complex) and len(rest) > 1:
            part(prop, name, NamePlace(node, rest[1:]))
        if isinstance(prop, Relation):  # and what leads to it has many rows, or the way would go on
            before = path.removesuffix("/".join(rest))
            refuse(f"'{path}' goes on behind many rows; ask about each of them: {before}any(x:x/{'/'.join(rest)}/...).")
    refuse(f"'{path}' is no relation with many rows.")


def refuse_bare(name: str, resource: Resource) -> NoReturn:
    """Refuse `any` and `all` without a path before them."""
    many = [relation for relation, definition in resource.relations.items() if definition.is_collection]
    relations = f": {', '.join(many)}" if many else f", and type '{type_name(resource)}' has none"
    refuse(NEEDS.format(name) + relations + ".")


def column(field: Field, level: int) -> PlanColumn:
    """The field of the row at the level."""
    return PlanColumn(TYPES[field.type], field.nullable, field.sql, level, field.enum, field.natural)
