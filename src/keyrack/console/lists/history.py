"""The lists of what happened: events and operations."""

from __future__ import annotations

from keyrack.api.permissions import Permission
from keyrack.console.languages import N_
from keyrack.console.lists.definition import Column, List, Never
from keyrack.console.lists.filters import Day, OneOf, Option
from keyrack.console.lists.people import CAR, OF_CAR, OF_USER
from keyrack.console.lists.shared_columns import PERSON, car_link, user_link, within

WHO: tuple[str, ...] = (
    "car/name",
    "car/licensePlate",
    "user/emailAddress",
    "user/userData/firstName",
    "user/userData/lastName",
)

EVENTS = List(
    path="/{customer}/events",
    rows="/events",
    section="events",
    title=N_("Events"),
    lead=N_("Who opened or closed which car, and when."),
    search=N_("Search events"),
    columns=(
        Column("time", N_("Time"), lambda row: row["utcDateTime"], "time", sort="utcDateTime"),
        Column(
            "type",
            N_("What"),
            lambda row: row["type"],
            "word",
            sort="type",
            words={"CarOpened": ("note", N_("Opened")), "CarClosed": ("idle", N_("Closed"))},
        ),
        Column("car", N_("Car"), lambda row: car_link(row["car"]), "links", sort="car/name", expand=CAR),
        Column(
            "user",
            N_("User"),
            lambda row: user_link(row["user"]),
            "links",
            sort="user/emailAddress",
            expand=f"user({PERSON})",
            permission=Permission.USERS_READ,
        ),
        Column("agent", N_("By"), lambda row: row["userAgent"], sort="userAgent", priority=3),
        Column("local", N_("Clock of the device"), lambda row: row["dateTime"], "code", priority=3, shown=False),
        Column("latitude", N_("Latitude"), lambda row: row["latitude"], "number", priority=3, shown=False),
        Column("longitude", N_("Longitude"), lambda row: row["longitude"], "number", priority=3, shown=False),
        Column("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, shown=False),
    ),
    filters=(
        OneOf(
            "type",
            N_("What"),
            (
                Option("opened", N_("Opened"), "type eq 'CarOpened'"),
                Option("closed", N_("Closed"), "type eq 'CarClosed'"),
            ),
        ),
        within(N_("Time"), "utcDateTime"),
        Day("from", N_("From"), "utcDateTime"),
        Day("to", N_("To"), "utcDateTime", through=True),
        OF_CAR,
        OF_USER,
    ),
    words=(*WHO, "userAgent"),
    order="-time",
    topics="events",
    permission=Permission.EVENTS_READ,
    paged=True,
    newest="id",
    never=Never(
        N_("No events yet"),
        N_("An event is told when a car is opened or closed. The first one comes with the first use."),
    ),
)

KINDS = {
    "CreateAssignment": N_("New assignment"),
    "UpdateAssignment": N_("Change of an assignment"),
    "DeleteAssignment": N_("End of an assignment"),
}
CAUSES = {
    "Request": N_("Asked for"),
    "Uninstallation": N_("Box was taken out"),
    "CarDeleted": N_("Car was deleted"),
    "UserRemoved": N_("User was taken out"),
}
OPERATIONS = List(
    path="/{customer}/operations",
    rows="/operations",
    section="operations",
    title=N_("Operations"),
    lead=N_("What was asked for of assignments, and what became of it."),
    search=N_("Search operations"),
    columns=(
        Column(
            "kind",
            N_("What"),
            lambda row: row["kind"],
            "word",
            sort="kind",
            words={kind: ("idle", text) for kind, text in KINDS.items()},
        ),
        Column("car", N_("Car"), lambda row: car_link(row["car"]), "links", sort="car/name", expand=CAR),
        Column(
            "user",
            N_("User"),
            lambda row: user_link(row["user"]),
            "links",
            sort="user/emailAddress",
            expand=f"user({PERSON})",
            permission=Permission.USERS_READ,
            priority=2,
        ),
        Column(
            "state",
            N_("State"),
            lambda row: row["state"],
            "status",
            sort="state",
            words={
                "Pending": ("note", N_("Pending")),
                "Succeeded": ("good", N_("Succeeded")),
                "Failed": ("bad", N_("Failed")),
            },
        ),
        Column("reason", N_("Reason"), lambda row: row["errorMessage"], "said", priority=3),
        Column("asked", N_("Asked at"), lambda row: row["requested"], "time", sort="requested", priority=2),
        Column("done", N_("Done at"), lambda row: row["finished"], "time", sort="finished", priority=3),
        Column(
            "cause",
            N_("Why"),
            lambda row: row["cause"],
            "word",
            sort="cause",
            priority=3,
            shown=False,
            words={cause: ("idle", text) for cause, text in CAUSES.items()},
        ),
        Column("start", N_("Start"), lambda row: row["start"], "minute", priority=3, shown=False),
        Column("end", N_("End"), lambda row: row["end"], "minute", priority=3, shown=False),
        Column("id", N_("Number"), lambda row: row["id"], "code", priority=3, shown=False),
    ),
    filters=(
        OneOf(
            "state",
            N_("State"),
            (
                Option("pending", N_("Pending"), "state eq 'Pending'"),
                Option("succeeded", N_("Succeeded"), "state eq 'Succeeded'"),
                Option("failed", N_("Failed"), "state eq 'Failed'"),
            ),
        ),
        OneOf(
            "kind",
            N_("What"),
            (
                Option("new", N_("New assignment"), "kind eq 'CreateAssignment'"),
                Option("change", N_("Change of an assignment"), "kind eq 'UpdateAssignment'"),
                Option("end", N_("End of an assignment"), "kind eq 'DeleteAssignment'"),
            ),
        ),
        within(N_("Asked"), "requested"),
        OF_CAR,
        OF_USER,
    ),
    words=WHO,
    order="-asked",
    topics="operations",
    permission=Permission.OPERATIONS_READ,
    paged=True,
    newest="requested",
    href=lambda row: f"/operations/{row['id']}",
    never=Never(
        N_("Nothing was asked for yet"),
        N_("What is asked for of assignments stands here, with what became of it."),
    ),
)
