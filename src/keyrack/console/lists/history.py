"""The lists of openings and of requests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from keyrack.api.permissions import Permission
from keyrack.console.lists.definition import CellLink, EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import DayFilter, FilterOption, OneOf
from keyrack.console.lists.people import CAR, NAMED, OF_CAR, OF_USER
from keyrack.console.lists.shared_columns import PERSON, car_link, user_link, within
from keyrack.core.text import N_

WHO = ("car", "user")


def _was_becomes(row: Row, name: str, link: Callable[[Row | None], CellLink | None]) -> list[CellLink]:
    """The car or the user of an operation; both of them for a change that replaces it."""
    before, after = link(row[name]), link(row[f"new{name.title()}"])
    if row[f"new{name.title()}Id"] is None:
        return [before] if before else []
    return [
        replace(shown or CellLink(N_("Removed"), said=True), note=note)
        for shown, note in ((before, BEFORE), (after, AFTER))
    ]


def _requester(row: Row) -> CellLink | None:
    """The account or the client that made the request; None for the operator of the server."""
    caller = row["requestedBy"]
    if caller is None:
        return None
    return CellLink(caller["name"]) if caller["name"] else CellLink(N_("Removed"), said=True)


BEFORE, AFTER = N_("before"), N_("after")

EVENTS = List(
    path="/{customer}/events",
    rows="/events",
    section="events",
    title=N_("Openings"),
    lead=N_("When each car was opened or closed, and by which person."),
    search=N_("Search openings"),
    columns=(
        ListColumn("time", N_("Time"), lambda row: row["utcDateTime"], "time", sort="utcDateTime"),
        ListColumn(
            "type",
            N_("Type"),
            lambda row: row["type"],
            "word",
            sort="type",
            words={"CarOpened": ("note", N_("Opened")), "CarClosed": ("idle", N_("Closed"))},
        ),
        ListColumn(
            "car", N_("Car"), lambda row: car_link(row["car"]), "links", sort="naturalorder(car/name)", expand=CAR
        ),
        ListColumn(
            "user",
            N_("Person"),
            lambda row: user_link(row["user"]),
            "links",
            sort="user/emailAddress",
            expand=f"user({PERSON})",
            permission=Permission.USERS_READ,
        ),
        ListColumn("agent", N_("By"), lambda row: row["userAgent"], sort="userAgent", priority=3),
        ListColumn(
            "local", N_("Clock of the phone"), lambda row: row["dateTime"], "code", priority=3, is_default=False
        ),
        ListColumn("latitude", N_("Latitude"), lambda row: row["latitude"], "number", priority=3, is_default=False),
        ListColumn("longitude", N_("Longitude"), lambda row: row["longitude"], "number", priority=3, is_default=False),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "type",
            N_("Type"),
            (
                FilterOption("opened", N_("Opened"), "type eq 'CarOpened'"),
                FilterOption("closed", N_("Closed"), "type eq 'CarClosed'"),
            ),
        ),
        within(N_("Time"), "utcDateTime"),
        DayFilter("from", N_("From"), "utcDateTime"),
        DayFilter("to", N_("To"), "utcDateTime", through=True),
        OF_CAR,
        OF_USER,
    ),
    words=(*WHO, "userAgent"),
    order="-time",
    topics="events",
    permission=Permission.EVENTS_READ,
    paged=True,
    newest="id",
    never=EmptyList(
        N_("No openings yet"),
        N_("An entry appears when a car is opened or closed."),
    ),
)

KINDS = {
    "CreateAssignment": N_("New booking"),
    "UpdateAssignment": N_("Change of a booking"),
    "DeleteAssignment": N_("End of a booking"),
}
CAUSES = {
    "Request": N_("Requested"),
    "Uninstallation": N_("Key box taken out"),
    "CarDeleted": N_("Car deleted"),
    "UserRemoved": N_("Person removed"),
}
OPERATIONS = List(
    path="/{customer}/operations",
    rows="/operations",
    section="operations",
    title=N_("Requests"),
    lead=N_("Requests to add, change or end bookings, with their results."),
    search=N_("Search requests"),
    columns=(
        ListColumn(
            "kind",
            N_("Type"),
            lambda row: row["kind"],
            "word",
            sort="kind",
            words={kind: ("idle", text) for kind, text in KINDS.items()},
        ),
        ListColumn(
            "car",
            N_("Car"),
            lambda row: _was_becomes(row, "car", car_link),
            "links",
            sort="naturalorder(car/name)",
            expand=f"{CAR},newCar({NAMED})",
        ),
        ListColumn(
            "user",
            N_("Person"),
            lambda row: _was_becomes(row, "user", user_link),
            "links",
            sort="user/emailAddress",
            expand=f"user({PERSON}),newUser({PERSON})",
            permission=Permission.USERS_READ,
            priority=2,
        ),
        ListColumn(
            "state",
            N_("State"),
            lambda row: row["state"],
            "status",
            sort="state",
            words={
                "Pending": ("note", N_("Being processed")),
                "Succeeded": ("good", N_("Done")),
                "Failed": ("bad", N_("Failed")),
            },
        ),
        ListColumn("reason", N_("Reason"), lambda row: row["errorMessage"], "said", priority=3),
        ListColumn("asked", N_("Requested at"), lambda row: row["requested"], "time", sort="requested", priority=2),
        ListColumn("requester", N_("Requested by"), _requester, "links", sort="requestedBy/name", priority=3),
        ListColumn("done", N_("Done at"), lambda row: row["finished"], "time", sort="finished", priority=4),
        ListColumn(
            "cause",
            N_("Reason"),
            lambda row: row["cause"],
            "word",
            sort="cause",
            priority=3,
            is_default=False,
            words={cause: ("idle", text) for cause, text in CAUSES.items()},
        ),
        ListColumn("start", N_("Start"), lambda row: row["start"], "minute", priority=3, is_default=False),
        ListColumn("end", N_("End"), lambda row: row["end"], "minute", priority=3, is_default=False),
        ListColumn("id", N_("Number"), lambda row: row["id"], "code", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "state",
            N_("State"),
            (
                FilterOption("pending", N_("Being processed"), "state eq 'Pending'"),
                FilterOption("succeeded", N_("Done"), "state eq 'Succeeded'"),
                FilterOption("failed", N_("Failed"), "state eq 'Failed'"),
            ),
        ),
        OneOf(
            "kind",
            N_("Type"),
            (
                FilterOption("new", N_("New booking"), "kind eq 'CreateAssignment'"),
                FilterOption("change", N_("Change of a booking"), "kind eq 'UpdateAssignment'"),
                FilterOption("end", N_("End of a booking"), "kind eq 'DeleteAssignment'"),
            ),
        ),
        within(N_("Requested"), "requested"),
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
    never=EmptyList(
        N_("No requests yet"),
        N_("Requests to add, change or end bookings appear here, with their results."),
    ),
)
