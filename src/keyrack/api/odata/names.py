"""Resolution of names in a query to members of a resource (OData 4.01 Part 1, section 4.3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, NoReturn, Protocol

from keyrack.api.odata.literal_values import refuse, unknown_name
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
    Type.MAP: Edm.OPAQUE,  # as a whole; the text of a key is a value of its own
}


def folded(names: Iterable[str]) -> Mapping[str, list[str]]:
    """Lower-case name -> the matching names."""
    by_lower_name: dict[str, list[str]] = {}
    for name in names:
        by_lower_name.setdefault(name.lower(), []).append(name)
    return by_lower_name


@cache
def members(resource: Resource) -> tuple[dict[str, Member], Mapping[str, list[str]]]:
    """The members of a resource by name, and by lower-case name. Resources are constants, so the cache stays small."""
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
    """A name in a path: the first one of `rest`, the remaining path of the node."""

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
    """The named member: an exact match, else an unambiguous one ignoring case. Raises `BadRequest`."""
    exact, lower = members(resource)
    name = place.rest[0]
    if (prop := exact.get(name)) is not None:
        return name, prop
    right = only(lower.get(name.lower(), []), place, type_name(resource), exact)
    return right, exact[right]


def part(of: Complex, owner: str, place: NamePlace) -> tuple[str, Field]:
    """The named field of the complex member `owner`. Raises `BadRequest`."""
    name = place.rest[0]
    if (field := of.fields.get(name)) is not None:
        return name, field
    right = only(folded(of.fields).get(name.lower(), []), place, owner[:1].upper() + owner[1:], of.fields)
    return right, of.fields[right]


def only(candidates: list[str], place: NamePlace, owner: str, known: Iterable[str]) -> str:
    """The only candidate for a name; `known` are all valid names. Raises `BadRequest`."""
    if len(candidates) != 1:
        name = place.name
        if candidates:
            refuse(f"The name '{name}' is ambiguous on type '{owner}': {', '.join(candidates)}.")
        valid = list(known)
        detail = f"Could not find a property named '{name}' on type '{owner}'.{did_you_mean(name, valid)}"
        raise unknown_name(detail, place.position, valid)
    return candidates[0]


def type_name(resource: Resource) -> str:
    """The name of a row's type in error messages."""
    return "Edm.String" if resource.scalar is not None else resource.name


def target(relation: Relation) -> Resource:
    """The resource to which the relation leads."""
    resource = RESOURCES[relation.target]
    return in_group_scope(resource) if relation.is_group_scoped else resource


def refuse_rows(node: NodeOfNames, resource: Resource, rest: Sequence[str]) -> NoReturn:
    """Raise the error for a path without rows. `rest` is the remaining path at the row of the resource."""
    path = "/".join(node.names)
    if rest:
        name, prop = member(resource, NamePlace(node, rest))
        if isinstance(prop, Complex) and len(rest) > 1:
            part(prop, name, NamePlace(node, rest[1:]))
        if isinstance(prop, Relation):  # its relation has many rows, otherwise the path would continue
            before = path.removesuffix("/".join(rest))
            refuse(f"'{path}' continues after a collection. Query its rows by {before}any(x:x/{'/'.join(rest)}/...).")
    refuse(f"'{path}' is not a collection.")


def refuse_bare(name: str, resource: Resource) -> NoReturn:
    """Raise the error for `any` and `all` without a path."""
    many = [relation for relation, definition in resource.relations.items() if definition.is_collection]
    if not many:
        refuse(f"'{name}' requires a collection before it, and type '{type_name(resource)}' has none.")
    refuse(f"'{name}' requires a collection before it. The collections are {', '.join(many)}.")


def column(field: Field, level: int) -> PlanColumn:
    """The field of the row at the level."""
    return PlanColumn(TYPES[field.type], field.nullable, field.sql, level, field.enum, field.natural)
