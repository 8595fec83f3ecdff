"""Pages that add members to a group and remove them, several at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keyrack.api.exchange import Response
from keyrack.api.permissions import Permission
from keyrack.console import product_names
from keyrack.console.choices import by_surname
from keyrack.console.form_errors import RIGHT, FormErrors, invalid, went
from keyrack.console.paged_fetch import parts_of, rows_with
from keyrack.console.rendering import base, gettext, page
from keyrack.console.searches import ordered_search
from keyrack.core.error_codes import NOTHING_HERE
from keyrack.core.errors import Conflict, NotFound, Refusal
from keyrack.http.page_router import ConsolePages, Visit

pages = ConsolePages()

SECTION = "groups"
FOUND = 50  # options at once
MOST = 200  # members that are added or removed at once
DIGITS = 10  # of an id


@dataclass(frozen=True)
class MemberKind:
    """A kind of members. `rows` is the endpoint of all objects; `row` and `item` add and remove one.

    Its titles are in `titles`, so that they are translated.
    """

    name: str  # its name in addresses, and the relation of a group
    rows: str
    row: str
    item: str
    member: str  # field of the body that adds one
    order: str
    select: str
    title: Callable[[Mapping[str, Any]], str]
    detail: Callable[[Visit, Mapping[str, Any]], str]
    permission: Permission  # to see them
    page: str = ""  # of one of them, below the customer's pages


def _kind_of(visit: Visit, row: Mapping[str, Any]) -> str:
    return gettext(visit, product_names.KINDS[product_names.kind(row)])


KINDS = (
    MemberKind(
        "cars", "/cars", "/groups/{groupId}/cars", "/groups/{groupId}/cars/{carId}", "carId",
        "naturalorder(name),id",
        "id,name,licensePlate,brand,model", lambda row: row["name"],
        lambda _visit, row: " ".join(filter(None, (row["licensePlate"], row["brand"], row["model"]))),
        Permission.CARS_READ, "cars",
    ),
    MemberKind(
        "users", "/users", "/groups/{groupId}/users", "/groups/{groupId}/users/{userId}", "userId",
        "naturalorder(userData/lastName),naturalorder(userData/firstName),id", "id,emailAddress,userData", by_surname,
        lambda _visit, row: row["emailAddress"], Permission.USERS_READ, "users",
    ),
    MemberKind(
        "products", "/products", "/groups/{groupId}/products", "/groups/{groupId}/products/{productId}", "productId",
        "naturalorder(serialNumber),id", "id,serialNumber,type", lambda row: row["serialNumber"], _kind_of,
        Permission.PRODUCTS_READ,
    ),
    MemberKind(
        "services", "/services", "/groups/{groupId}/services", "/groups/{groupId}/services/{serviceId}", "serviceId",
        "naturalorder(name),id", "id,name", lambda row: row["name"], lambda _visit, _row: "", Permission.SERVICES_READ,
    ),
)  # fmt: skip


def titles(visit: Visit) -> dict[str, dict[str, str]]:
    """The texts of each kind."""
    return {
        "cars": {
            "many": gettext(visit, "Cars"),
            "add": gettext(visit, "Add cars"),
            "search": gettext(visit, "Search cars"),
            "none": gettext(visit, "No cars in this group."),
        },
        "users": {
            "many": gettext(visit, "People"),
            "add": gettext(visit, "Add people"),
            "search": gettext(visit, "Search people"),
            "none": gettext(visit, "No people in this group."),
        },
        "products": {
            "many": gettext(visit, "Key boxes"),
            "add": gettext(visit, "Add key boxes"),
            "search": gettext(visit, "Search key boxes"),
            "none": gettext(visit, "No key boxes in this group."),
        },
        "services": {
            "many": gettext(visit, "Services"),
            "add": gettext(visit, "Add services"),
            "search": gettext(visit, "Search services"),
            "none": gettext(visit, "No services in this group."),
        },
    }


@dataclass(frozen=True, slots=True)
class GroupMember:
    """An object that is in a group, or can be added."""

    id: int
    title: str
    detail: str
    href: str
    ticked: bool = False


def members(
    visit: Visit, kind: MemberKind, rows: Sequence[Mapping[str, Any]], ticked: Sequence[int] = ()
) -> list[GroupMember]:
    """The rows of an answer as members."""
    root = f"{base(visit)}/{kind.page}/" if kind.page else ""
    return [
        GroupMember(
            row["id"], kind.title(row), kind.detail(visit, row), root and f"{root}{row['id']}", row["id"] in ticked
        )
        for row in rows
    ]


@pages.get("/{customer}/groups/{group}/add/{kind}", permission=Permission.GROUPS_WRITE)
async def choose(visit: Visit) -> Response:
    return await _choose(visit, visit.query_value("q"), _ticked(visit.query))


@pages.post("/{customer}/groups/{group}/add/{kind}", permission=Permission.GROUPS_WRITE)
async def add(visit: Visit) -> Response:
    kind, ids = _kind(visit), _ticked(visit.form)
    if (wrong := _wrong(visit, ids)).texts:
        return await _choose(visit, visit.form_value("q"), ids, wrong)

    async def put(id: int) -> None:
        await visit.call("PUT", kind.row, visit.ids["group"], body={kind.member: id})

    return await _each(visit, kind, ids, put)


@pages.post("/{customer}/groups/{group}/remove/{kind}", permission=Permission.GROUPS_WRITE)
async def remove(visit: Visit) -> Response:
    kind, ids = _kind(visit), _ticked(visit.form)
    if (wrong := _wrong(visit, ids)).texts:
        return await _results(visit, kind, [], wrong)

    async def take(id: int) -> None:
        await visit.call("DELETE", kind.item, visit.ids["group"], id)

    return await _each(visit, kind, ids, take)


async def _each(visit: Visit, kind: MemberKind, ids: Sequence[int], act: Callable[[int], Any]) -> Response:
    """Add or remove the objects one by one, and collect the rejections."""
    refused: list[tuple[int, str]] = []
    for id in ids:
        try:
            await act(id)
        except (Conflict, NotFound) as refusal:
            refused.append((id, gettext(visit, refusal.text)))
    if not refused:
        return went(visit, _page(visit))
    names = await _names(visit, kind, [id for id, _ in refused])
    failures = [{"name": names.get(id, f"{id}"), "reason": reason} for id, reason in refused]
    return await _results(visit, kind, failures, done=len(ids) - len(refused))


async def _results(
    visit: Visit, kind: MemberKind, refused: Sequence[Mapping[str, str]], wrong: FormErrors = RIGHT, done: int = 0
) -> Response:
    return await page(
        visit, "group_results.html", status=wrong.status, section=SECTION, back=_page(visit), refused=refused,
        done=done, wrong=wrong, title=titles(visit)[kind.name]["many"], group=await _group(visit),
    )  # fmt: skip


async def _choose(visit: Visit, text: str, ticked: Sequence[int], wrong: FormErrors = RIGHT) -> Response:
    """The matching objects outside the group. Ticked ones stay ticked during further searches."""
    kind, group = _kind(visit), await _group(visit)
    outside = f"not groups/any(g:g/id eq {group['id']})"
    query = {"$select": kind.select, "$top": str(FOUND), "$count": "true", **ordered_search(text, kind.order)}
    kept: list[dict[str, Any]] = []
    if ticked:
        kept = await rows_with(visit, kind.rows, ticked[:MOST], {"$select": kind.select, "$filter": outside})
        outside += "".join(f" and not (id in {some})" for some in parts_of(visit, ticked[:MOST]))
    rows, total = await _fetch_rows(visit, kind, {**query, "$filter": outside})
    return await page(
        visit, "group_add.html", status=wrong.status, section=SECTION, back=_page(visit), wrong=wrong, group=group,
        kind=kind.name, titles=titles(visit)[kind.name], q=text, total=total,
        found=members(visit, kind, [*kept, *rows], ticked),
    )  # fmt: skip


async def _fetch_rows(visit: Visit, kind: MemberKind, query: Mapping[str, str]) -> tuple[list[dict[str, Any]], int]:
    reply = await visit.call("GET", kind.rows, query=query)
    return reply.json, reply.total


def _kind(visit: Visit) -> MemberKind:
    """Raises `NotFound`."""
    member_kind = next((kind for kind in KINDS if kind.name == visit.ids["kind"]), None)
    if member_kind is None:
        raise NotFound(NOTHING_HERE)
    return member_kind


def _ticked(fields: Mapping[str, Sequence[str]]) -> list[int]:
    texts = dict.fromkeys(fields.get("id", ()))
    return [int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= DIGITS]


def _wrong(visit: Visit, ids: Sequence[int]) -> FormErrors:
    if not ids:
        return invalid([("", gettext(visit, "No rows are ticked. Tick one or more first."))])
    if len(ids) > MOST:
        return invalid([("", gettext(visit, "At most %(most)s are possible at once. Tick fewer.", most=MOST))])
    return RIGHT


async def _group(visit: Visit) -> dict[str, Any]:
    """Raises `NotFound`."""
    return (await visit.call("GET", "/groups/{groupId}", visit.ids["group"])).json


async def _names(visit: Visit, kind: MemberKind, ids: Sequence[int]) -> dict[int, str]:
    """The names of the existing objects."""
    try:
        rows = await rows_with(visit, kind.rows, ids, {"$select": kind.select})
    except Refusal:
        return {}
    return {row["id"]: kind.title(row) for row in rows}


def _page(visit: Visit) -> str:
    return f"{base(visit)}/groups/{visit.ids['group']}"
