"""The history of changes as a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keyrack.api.permissions import Permission
from keyrack.console.changes.descriptions import author_of, describe_changes
from keyrack.console.changes.labels import ACTORS, KINDS, RESOURCES
from keyrack.console.lists.definition import EmptyList, List, ListColumn, Row
from keyrack.console.lists.filters import DayFilter, FilterOption, OneOf, WordFilter
from keyrack.console.lists.shared_columns import within
from keyrack.core.text import N_
from keyrack.http.page_router import Visit


async def _tell(visit: Visit, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add the sentences to the changes."""
    telling = await describe_changes(visit, rows)
    return [{**row, "told": telling.sentence(row), "who": telling.who(row)} for row in rows]


def _author_filter(type: str) -> str:
    """The condition for changes with an author of this type."""
    if type == "system":
        return "actor/type eq 'system' and onBehalfOf/type eq null"
    return f"(actor/type eq '{type}' or actor/type eq 'system' and onBehalfOf/type eq '{type}')"


CHANGES = List(
    path="/{customer}/changes",
    rows="/changes",
    section="changes",
    title=N_("History of changes"),
    lead=N_("All changes, with their time and author."),
    search=N_("Search the history"),
    columns=(
        ListColumn("time", N_("Time"), lambda row: row["time"], "minute"),
        ListColumn("told", N_("What happened"), lambda row: row["told"], "sentence"),
        ListColumn(
            "type",
            N_("Made by"),
            lambda row: author_of(row)["type"],
            "word",
            priority=3,
            words={type: ("", word) for type, word in ACTORS.items()},
        ),
        ListColumn("who", N_("Name"), lambda row: row["who"], priority=4, is_default=False),
        ListColumn(
            "kind",
            N_("Type"),
            lambda row: row["kind"] if row["kind"] in KINDS else None,
            "word",
            priority=3,
            is_default=False,
            words={kind: ("", words.label) for kind, words in KINDS.items()},
        ),
        ListColumn("address", N_("Address"), lambda row: row["address"], "code", priority=4, is_default=False),
        ListColumn("request", N_("Request ID"), lambda row: row["requestId"], "code", priority=4, is_default=False),
        ListColumn("id", N_("Number"), lambda row: row["id"], "number", sort="id", priority=3),
    ),
    filters=(
        OneOf(
            "resource",
            N_("Type of object"),
            tuple(FilterOption(name, words.label, f"resource eq '{name}'") for name, words in RESOURCES.items()),
        ),
        WordFilter("thing", N_("Number of the object"), "resourceId eq {text}"),
        OneOf(
            "kind",
            N_("Type"),
            tuple(FilterOption(kind, words.label, f"kind eq '{kind}'") for kind, words in KINDS.items()),
        ),
        WordFilter("who", N_("Name of the author"), "(actor/name eq {text} or onBehalfOf/name eq {text})"),
        OneOf(
            "actor",
            N_("Made by"),
            tuple(FilterOption(type, word, _author_filter(type)) for type, word in ACTORS.items()),
        ),
        within(N_("Time"), "recordedTime"),
        DayFilter("from", N_("From"), "time", stored="recordedTime"),
        DayFilter("to", N_("To"), "time", through=True),
    ),
    words=("actor/name", "onBehalfOf/name", "kind", "resourceId", "address", "requestId"),
    order="-id",
    topics="changes",
    permission=Permission.CHANGES_READ,
    paged=True,
    newest="id",
    walked=True,
    add_details=_tell,
    href=lambda row: f"/changes/{row['id']}",
    never=EmptyList(
        N_("No changes yet"),
        N_("Everything that is added, changed or removed from now on appears here, with its author."),
    ),
)
