"""The list of cars. Its rows are positions, which have the last report and the current use."""

from __future__ import annotations

from dataclasses import replace

from keyrack.api.permissions import Permission
from keyrack.console.lists.actions import add_to_group, delete, ends_with
from keyrack.console.lists.definition import Add, EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import FilterOption, OneOf, TextFilter
from keyrack.console.lists.shared_columns import (
    GROUPS,
    HIDDEN,
    IN_GROUP,
    NOT_SHOWN,
    PERSON,
    groups,
    holding,
    member_columns,
    service_state,
)
from keyrack.console.product_names import kind
from keyrack.core.text import N_
from keyrack.fleet import declarations


def _box(row: Row) -> str:
    """Whether the car has a box, and the state of its service."""
    boxes = [product for product in row["products"] if kind(product) == "box"]
    return service_state(boxes[0]["service"]) if boxes else "without"


_TAKEN = "a:(a/end eq null or a/end gt {now}) and a/start lt {ago}"


def _id(row: Row) -> int:
    """The car's id, of a car or of a position."""
    return row["carId"] if "carId" in row else row["id"]


UNSEEN = "hasUnit eq true and (lastSeen eq null or lastSeen lt {ago})"
_ALL = List(
    path="/{customer}/cars",
    rows="/positions",
    section="cars",
    title=N_("Cars"),
    lead=N_("All cars of the fleet, with their current booking, last report and devices."),
    search=N_("Search cars"),
    columns=(
        ListColumn("name", N_("Name"), lambda row: row["name"], sort="naturalorder(name)"),
        ListColumn("plate", N_("License plate"), lambda row: row["licensePlate"], sort="licensePlate"),
        ListColumn(
            "model",
            N_("Brand and model"),
            lambda row: " ".join(filter(None, (row["brand"], row["model"]))),
            sort="brand,model",
            priority=3,
        ),
        ListColumn(
            "box",
            N_("Key box"),
            _box,
            "status",
            expand="products($select=type;$expand=service($select=isTerminated))",
            priority=3,
            words={
                "works": ("good", N_("Built in")),
                "ended": ("bad", N_("Service ended")),
                "none": ("warn", N_("No service")),
                "without": ("idle", N_("No box")),
            },
            scoped_words=NOT_SHOWN,
        ),
        *holding(N_("With"), "user", PERSON, 2, HIDDEN),
        ListColumn(
            "seen",
            N_("Last seen"),
            lambda row: row["lastSeen"],
            "time",
            sort="lastSeen",
            is_empty_last=True,
            priority=2,
            ago=True,
        ),
        ListColumn("groups", N_("Groups"), groups, "links", expand=GROUPS, priority=4),
        *member_columns(declarations.CARS, but=("name", "licensePlate", "brand", "model")),
        ListColumn("id", N_("Number"), _id, "number", sort="carId", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "use",
            N_("Use"),
            (
                FilterOption("now", N_("Booked now"), "inUse eq true"),
                FilterOption("free", N_("Free now"), "inUse eq false"),
                FilterOption(
                    "week",
                    N_("Not booked within a week"),
                    " and ".join(f"not {relation}/any({_TAKEN})" for relation in ("assignments", "hiddenAssignments")),
                    -7,
                    Permission.ASSIGNMENTS_READ,
                ),
            ),
        ),
        OneOf(
            "seen",
            N_("Last seen"),
            (
                FilterOption("hour", N_("Within an hour"), "lastSeen ge {ago}", hours=1),
                FilterOption("day", N_("Within a day"), "lastSeen ge {ago}", 1),
                FilterOption("not-hour", N_("Not for an hour"), UNSEEN, hours=1),
                FilterOption("not-day", N_("Not for a day"), UNSEEN, 1),
                FilterOption("not-3-days", N_("Not for 3 days"), UNSEEN, 3),
                FilterOption("long", N_("Not for a week"), UNSEEN, 7),
                FilterOption("not-30-days", N_("Not for 30 days"), UNSEEN, 30),
                FilterOption("never", N_("Never"), "lastSeen eq null"),
            ),
        ),
        OneOf(
            "box",
            N_("Key box"),
            (
                FilterOption("with", N_("Built in"), "products/any(p:endswith(p/type,' Box'))"),
                FilterOption(
                    "ended",
                    N_("Service ended"),
                    "products/any(p:endswith(p/type,' Box') and p/service/isTerminated eq true)",
                ),
                FilterOption("without", N_("No box"), "not products/any(p:endswith(p/type,' Box'))"),
            ),
        ),
        TextFilter("brand", N_("Brand"), "brand", "/brands", "/choices/brands"),
        IN_GROUP,
    ),
    order="name",
    topics="cars assignments products groups",
    permission=Permission.POSITIONS_READ,
    actions=(
        add_to_group(
            "/groups/{groupId}/cars", "carId", N_("Add %(num)s car to a group"), N_("Add %(num)s cars to a group")
        ),
        delete(
            "cars",
            N_("Delete %(num)s car"),
            N_("Delete %(num)s cars"),
            N_(
                "Their key boxes are taken out, their bookings end, and this cannot be undone. Their openings are kept."
            ),
            ends_with("carId"),
            ("name", "plate"),
        ),
    ),
    never=EmptyList(
        N_("No cars yet"),
        N_("People book cars and open them by phone. Add the first car, then put in its key box."),
    ),
    adds=(Add(N_("Add car"), "/cars/new", Permission.CARS_WRITE),),
    id="carId",
    href=lambda row: f"/cars/{_id(row)}",
)

_OF_POSITIONS = ("use", "seen", "now", "next")
# For visits without permission for positions: rows of cars
_CARS_ALONE = replace(
    _ALL,
    rows="/cars",
    permission=Permission.CARS_READ,
    lead=N_("All cars of the fleet, with their devices."),
    columns=tuple(
        replace(column, sort="id") if column.key == "id" else column
        for column in _ALL.columns
        if column.key not in _OF_POSITIONS
    ),
    filters=tuple(list_filter for list_filter in _ALL.filters if list_filter.name not in _OF_POSITIONS),
    id="id",
)
CARS = replace(_ALL, otherwise=_CARS_ALONE)
