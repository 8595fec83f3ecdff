"""Group scope of the ids in a request: an id out of scope is replaced by one that does not exist.

The answer is then identical, byte for byte, to that for a missing resource.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, LiteralString, cast

from pydantic.alias_generators import to_snake

from keyrack.api.batch_items import BatchItem
from keyrack.api.endpoint import Endpoint
from keyrack.api.exchange import Request
from keyrack.api.schema.fields import Resource
from keyrack.api.schema.group_scope import in_group_scope
from keyrack.db.connection import Statements
from keyrack.db.named_parameters import NamedStatement, compile_statement
from keyrack.fleet.schema import ASSIGNMENT, CAR, GROUP, PRODUCT, SERVICE, USER

Named = tuple[str, int]  # the name of an id, such as `carId`, and the id
NOBODY = 2**31 - 1  # no sequence gets that far
# Names of ids in paths and bodies, with their resources
THINGS: Mapping[LiteralString, Resource] = {
    "carId": CAR, "userId": USER, "assignmentId": ASSIGNMENT, "groupId": GROUP, "productId": PRODUCT,
    "serviceId": SERVICE,
}  # fmt: skip


def _hidden() -> NamedStatement:
    """The statement for those of `:names` and `:ids` that are not in the scope."""
    whens: list[LiteralString] = []
    for name, resource in THINGS.items():
        scoped_resource = in_group_scope(resource)
        rows: LiteralString = scoped_resource.table.format(t="t") + " where " + scoped_resource.scope.format(t="t")
        whens.append(
            "when '" + name + "' then exists (select from " + rows + " and " + scoped_resource.order("t") + " = w.id)"
        )
    return compile_statement(
        "select w.name, w.id from unnest(:names::text[], :ids::integer[]) w (name, id) where not case w.name "
        + " ".join(whens) + " end"
    )  # fmt: skip


HIDDEN = _hidden()


async def ids_out_of_scope(statements: Statements, customer: int, scope: int, named: Collection[Named]) -> set[Named]:
    """Those of these ids that are not in the scope."""
    wanted = [(name, id) for name, id in named if -(2**31) <= id < NOBODY]
    if not wanted:
        return set()
    names, ids = (list(column) for column in zip(*wanted, strict=True))
    arguments = HIDDEN.arguments(customer=customer, scope=scope, names=names, ids=ids)
    return {(row["name"], row["id"]) for row in await statements.fetch(HIDDEN.sql, *arguments)}


async def is_out_of_scope(request: Request, name: str, id: int, statements: Statements | None = None) -> bool:
    """Whether this id is out of the scope of a group-limited caller. Always False for other callers."""
    if request.scope is None:
        return False
    return bool(await ids_out_of_scope(statements or request.db, request.customer, request.scope, [(name, id)]))


async def restrict_to_scope(request: Request, endpoint: Endpoint[Any], value: Any) -> tuple[Request, Any]:
    """The request and its checked body, with ids out of the caller's scope replaced."""
    if request.scope is None or not endpoint.has_scoped_request:
        return request, value
    gone = await ids_out_of_scope(request.db, request.customer, request.scope, list(_named(request, endpoint, value)))
    return _without(request, endpoint, value, gone)


async def restrict_items_to_scope(request: Request, items: Sequence[BatchItem]) -> list[BatchItem]:
    """The same for the items of a batch, in one statement."""
    if request.scope is None:
        return list(items)
    every = {named for item in items for named in _named(item.request, item.endpoint, item.value)}
    gone = await ids_out_of_scope(request.db, request.customer, request.scope, every)
    seen = [_without(item.request, item.endpoint, item.value, gone) for item in items]
    return [replace(item, request=own, value=value) for item, (own, value) in zip(items, seen, strict=True)]


def _named(request: Request, endpoint: Endpoint[Any], value: Any) -> Iterable[Named]:
    """The ids in the path and in the body."""
    for name, id in zip(endpoint.parameters, request.ids, strict=True):
        if name in THINGS:
            yield name, id
    for name in endpoint.scoped_members:
        for id in _values(value, name):
            yield name, id


def _without(request: Request, endpoint: Endpoint[Any], value: Any, gone: Collection[Named]) -> tuple[Request, Any]:
    """The request and body, with `NOBODY` in place of these ids."""
    if not gone:
        return request, value
    named = zip(endpoint.parameters, request.ids, strict=True)
    ids = tuple([NOBODY if (name, id) in gone else id for name, id in named])
    for name in endpoint.scoped_members:
        for id in _values(value, name):
            if (name, id) in gone:
                value = _renamed(value, name)
    return replace(request, ids=ids), value


def _values(value: Any, name: str) -> list[int]:
    """The ids under this name in a checked body: of a member, or of patch steps."""
    if isinstance(value, list):
        steps = [step for step in cast("list[Any]", value) if step.path == f"/{name}"]
        return [number for step in steps if (number := _number(step.value)) is not None]
    number = _number(getattr(value, to_snake(name), None))
    return [] if number is None else [number]


def _renamed(value: Any, name: str) -> Any:
    if isinstance(value, list):
        steps = cast("list[Any]", value)
        return [step.model_copy(update={"value": NOBODY}) if step.path == f"/{name}" else step for step in steps]
    return value.model_copy(update={to_snake(name): NOBODY})


def _number(value: object) -> int | None:
    """The number of a value. Numbers may come as text (spec)."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 11:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
