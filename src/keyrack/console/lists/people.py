"""The lists of people and of bookings."""

from __future__ import annotations

from datetime import UTC, datetime

from keyrack.api.permissions import Permission
from keyrack.console.choices import by_surname
from keyrack.console.lists.actions import add_to_group, end_assignments, ends_with
from keyrack.console.lists.definition import Action, Add, EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import DayFilter, FilterOption, OneOf, Thing
from keyrack.console.lists.shared_columns import GROUPS, IN_GROUP, PERSON, groups, holding, person, user_link
from keyrack.console.local_times import instant
from keyrack.core.text import N_

NAMED = "$select=id,name,licensePlate"
CAR = f"car({NAMED})"
OF_CAR = Thing("car", N_("Car"), "carId eq {id}", "/cars/{carId}", lambda row: row["name"])
OF_USER = Thing("user", N_("Person"), "userId eq {id}", "/users/{userId}", person, permission=Permission.USERS_READ)

USERS = List(
    path="/{customer}/users",
    rows="/users",
    section="users",
    title=N_("People"),
    lead=N_("The people who can get keys, with their current bookings."),
    search=N_("Search people"),
    columns=(
        ListColumn(
            "name", N_("Name"), by_surname, sort="naturalorder(userData/lastName),naturalorder(userData/firstName)"
        ),
        ListColumn("address", N_("E-mail address"), lambda row: row["emailAddress"], sort="emailAddress", priority=2),
        *holding(N_("Has now"), "car", NAMED, 1),
        ListColumn("groups", N_("Groups"), groups, "links", expand=GROUPS, priority=3),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "has",
            N_("Has a car"),
            (
                FilterOption(
                    "now", N_("Now"), "assignments/any(a:a/start le {now} and (a/end eq null or a/end gt {now}))"
                ),
                FilterOption(
                    "no", N_("Not now"), "not assignments/any(a:a/start le {now} and (a/end eq null or a/end gt {now}))"
                ),
                FilterOption("never", N_("Never so far"), "not assignments/any()"),
            ),
        ),
        IN_GROUP,
    ),
    order="name",
    topics="users assignments groups",
    permission=Permission.USERS_READ,
    actions=(
        add_to_group(
            "/groups/{groupId}/users",
            "userId",
            N_("Add %(num)s person to a group"),
            N_("Add %(num)s people to a group"),
        ),
        Action(
            "remove",
            N_("Remove"),
            "delete",
            N_("Remove %(num)s person from the fleet"),
            N_("Remove %(num)s people from the fleet"),
            N_("Their bookings here end. Their membership in other fleets does not change."),
            Permission.USERS_WRITE,
            batch="users",
            says=ends_with("userId"),
            named=("name", "address"),
            danger=True,
        ),
    ),
    never=EmptyList(
        N_("No people yet"),
        N_("A person can get keys to cars. Add the first person, then book a car."),
    ),
    adds=(
        Add(N_("Add person"), "/users/new", Permission.USERS_WRITE),
        Add(N_("Add an existing person"), "/users/link", Permission.USERS_WRITE, "link"),
    ),
    href=lambda row: f"/users/{row['id']}",
)


def _standing(row: Row) -> str:
    now = datetime.now(UTC)
    if instant(row["start"]) > now:
        return "coming"
    return "over" if row["end"] and instant(row["end"]) <= now else "now"


ASSIGNMENTS = List(
    path="/{customer}/assignments/list",
    rows="/assignments",
    section="assignments",
    title=N_("Bookings"),
    lead=N_("All bookings: car, person and time."),
    search=N_("Search bookings"),
    columns=(
        ListColumn(
            "car", N_("Car"), lambda row: row["car"] and row["car"]["name"], sort="naturalorder(car/name)", expand=CAR
        ),
        ListColumn(
            "user",
            N_("Person"),
            lambda row: user_link(row["user"]),
            "links",
            sort="naturalorder(user/userData/lastName),user/emailAddress",
            expand=f"user({PERSON})",
            permission=Permission.USERS_READ,
        ),
        ListColumn(
            "state",
            N_("State"),
            _standing,
            "status",
            priority=2,
            words={
                "now": ("good", N_("Now")),
                "coming": ("note", N_("Upcoming")),
                "over": ("idle", N_("Past")),
            },
        ),
        ListColumn("start", N_("Start"), lambda row: row["start"], "minute", sort="start"),
        ListColumn("end", N_("End"), lambda row: row["end"], "minute", sort="end", priority=2),
        ListColumn(
            "use",
            N_("Use"),
            lambda row: "exclusive" if row["exclusive"] else None,
            "status",
            sort="exclusive",
            priority=3,
            words={"exclusive": ("idle", N_("Exclusive"))},
            signs={"exclusive": "locked"},
        ),
        ListColumn(
            "plate",
            N_("License plate"),
            lambda row: row["car"] and row["car"]["licensePlate"],
            sort="car/licensePlate",
            expand=CAR,
            priority=3,
        ),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "state",
            N_("State"),
            (
                FilterOption("now", N_("Now"), "start le {now} and (end eq null or end gt {now})"),
                FilterOption("coming", N_("Upcoming"), "start gt {now}"),
                FilterOption("over", N_("Past"), "end le {now}"),
                FilterOption("endless", N_("Without end"), "end eq null"),
            ),
        ),
        OneOf(
            "use",
            N_("Use"),
            (
                FilterOption("exclusive", N_("Exclusive"), "exclusive eq true"),
                FilterOption("shared", N_("Shared"), "exclusive eq false"),
            ),
        ),
        DayFilter("from", N_("From"), "start"),
        DayFilter("to", N_("To"), "start", through=True),
        OF_CAR,
        OF_USER,
    ),
    words=("car", "user", "externalId"),
    order="-start",
    href=lambda row: f"/assignments/{row['id']}",
    topics="assignments operations",
    permission=Permission.ASSIGNMENTS_READ,
    actions=(end_assignments(),),
    never=EmptyList(
        N_("No bookings yet"),
        N_("A booking lets a person open a car for a time. Book the first car."),
    ),
    adds=(Add(N_("Book"), "/assignments/new", Permission.ASSIGNMENTS_WRITE),),
)
