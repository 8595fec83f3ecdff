"""The list of deliveries: messages to webhooks, with the answers."""

from __future__ import annotations

from keyrack.api.permissions import Permission
from keyrack.console.lists.actions import replay
from keyrack.console.lists.definition import CellLink, EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import FilterOption, OneOf, Thing
from keyrack.console.lists.shared_columns import within
from keyrack.core.text import N_


def _millis(row: Row) -> str | None:
    return None if row["duration"] is None else f"{row['duration']} ms"


DELIVERIES = List(
    path="/{customer}/deliveries",
    rows="/deliveries",
    section="webhooks",
    title=N_("Deliveries"),
    lead=N_("Messages to webhooks, with the answers of their receivers."),
    search=N_("Search deliveries"),
    columns=(
        ListColumn("created", N_("Time"), lambda row: row["created"], "time", sort="id"),
        ListColumn(
            "webhook",
            N_("Webhook"),
            lambda row: CellLink(row["webhookUrl"] or f"Webhook {row['webhookId']}", f"/webhooks/{row['webhookId']}"),
            "links",
            sort="webhookUrl",
            priority=2,
        ),
        ListColumn("type", N_("Type"), lambda row: row["type"], "code", sort="type", priority=2),
        ListColumn(
            "state",
            N_("State"),
            lambda row: row["state"],
            "status",
            sort="state",
            words={
                "Waiting": ("note", N_("Waiting")),
                "Delivered": ("good", N_("Delivered")),
                "Dead": ("bad", N_("Given up")),
            },
        ),
        ListColumn("status", N_("Status"), lambda row: row["status"], "number", sort="status"),
        ListColumn("duration", N_("Duration"), _millis, "number", sort="duration", priority=3),
        ListColumn("attempts", N_("Attempts"), lambda row: row["attempts"], "number", sort="attempts", priority=2),
        ListColumn("error", N_("Reason"), lambda row: row["error"], priority=3),
        ListColumn("attempted", N_("Last attempt"), lambda row: row["attempted"], "time", sort="attempted", priority=3),
        ListColumn(
            "next",
            N_("Next attempt"),
            lambda row: row["nextAttempt"],
            "time",
            sort="nextAttempt",
            priority=3,
            is_default=False,
        ),
        ListColumn(
            "assignment",
            N_("Booking"),
            lambda row: row["assignmentId"],
            "number",
            sort="assignmentId",
            priority=3,
            is_default=False,
        ),
        ListColumn("operation", N_("Request"), lambda row: row["operationId"], "code", priority=3, is_default=False),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3, is_default=False),
    ),
    filters=(
        OneOf(
            "state",
            N_("State"),
            (
                FilterOption("waiting", N_("Waiting"), "state eq 'Waiting'"),
                FilterOption("delivered", N_("Delivered"), "state eq 'Delivered'"),
                FilterOption("dead", N_("Given up"), "state eq 'Dead'"),
            ),
        ),
        OneOf(
            "type",
            N_("Type"),
            (
                FilterOption("created", N_("New booking"), "type eq 'assignment.created'"),
                FilterOption("updated", N_("Change of a booking"), "type eq 'assignment.updated'"),
                FilterOption("deleted", N_("End of a booking"), "type eq 'assignment.deleted'"),
                FilterOption("events", N_("Opening or closing"), "eventId ne null"),
                FilterOption("changes", N_("Other changes"), "changeId ne null"),
                FilterOption("test", N_("Test"), "type eq 'webhook.test'"),
            ),
        ),
        Thing(
            "webhook",
            N_("Webhook"),
            "webhookId eq {id}",
            "/webhooks/{webhookId}",
            lambda row: row["url"] or row["name"] or f"Webhook {row['id']}",
            "/webhooks",
            order="url",
        ),
        within(N_("Time"), "created"),
    ),
    words=("webhookUrl", "type", "error", "answer"),
    select="id,webhookId,webhookUrl,type,state,status,duration,attempts,error,attempted,nextAttempt,assignmentId,"
    "operationId,created",
    order="-created",
    topics="deliveries webhooks",
    permission=Permission.WEBHOOKS_READ,
    paged=True,
    newest="id",
    actions=(replay(),),
    never=EmptyList(
        N_("Nothing was sent yet"),
        N_("Webhooks receive the results of booking requests. Send a test to see whether the receiver answers."),
    ),
    href=lambda row: f"/webhooks/{row['webhookId']}/deliveries/{row['id']}",
    back=("/webhooks", N_("Webhooks")),
)
