"""Erasure of a person from a customer, with a preview. An extension of the spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, LiteralString

from pydantic import ConfigDict

from keyrack.api import conditional_requests
from keyrack.api.endpoint import TAGGED, Concurrency, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.schema.request_body import Body, Int32
from keyrack.api.services import ReadServices
from keyrack.assignments.customer_lock import lock_and_flush
from keyrack.core.errors import NotFound
from keyrack.db.connection import Statements
from keyrack.fleet import person_erasure
from keyrack.fleet.endpoints.users import MEMBER, NO_USER, TAG, readable_customers

endpoints = Endpoints[ReadServices](TAG, "erasure", is_extension=True)

# Other customers with the same person, if the caller may list all of their users ($3): there the caller finds the
# person anyway
OTHERS: LiteralString = """
select c.customer_id, c.name from customer_user u join customer c using (customer_id)
where u.user_id = $2 and u.customer_id = any($3) and u.customer_id <> $1 order by c.customer_id
"""


class ErasedRows(Body):
    """Data that is erased: `removed` or `ended` at once, or made `anonymous` within minutes. Anonymous data stays
    without identifying the person."""

    model_config = ConfigDict(title="Goes")

    kind: Literal[
        "membership", "groups", "assignments", "devices", "keys", "events", "operations", "deliveries", "changes"
    ]
    how: Literal["removed", "ended", "anonymous"]
    count: Int32


class KeptRows(Body):
    """Data that stays, and the reason as a code and a text."""

    model_config = ConfigDict(title="Stays")

    kind: Literal["person", "answers", "receivers"]
    code: Literal["shared-or-left-lately", "until-forgotten", "was-sent"]
    text: str


class AlsoIn(Body):
    """Another customer of the caller, in which the person stays unchanged."""

    id: str
    name: str


class ErasurePreview(Body):
    model_config = ConfigDict(title="Preview")

    user_id: Int32
    goes: list[ErasedRows]
    stays: list[KeptRows]
    customers: list[AlsoIn]


HOW: Mapping[str, str] = {
    "groups": "removed",
    "assignments": "ended",
    "devices": "removed",
    "keys": "anonymous",
    "events": "anonymous",
    "operations": "anonymous",
    "deliveries": "anonymous",
    "changes": "anonymous",
}
PERSON = (
    "Name, e-mail address and password are deleted within minutes. They are kept for another customer if the person "
    "belongs to one. If a customer removed the person within the last {days} days, they are deleted when this time has "
    "passed. The response does not reveal whether one of these cases applies."
)
ANSWERS = "Responses stored for an Idempotency-Key are encrypted, and deleted after {hours} hours at the latest."
RECEIVERS = "Messages that webhooks already received stay with their receivers."


@endpoints.get(
    "/users/{userId}/erasure",
    Doc(
        "previewErasure",
        "Preview the erasure of a user",
        "Counts the data that `POST /users/{userId}/erase` would remove, end or make anonymous. Also lists the data"
        " that would stay, with the reasons. Nothing changes.",
    ),
    responses=Responses(200, ErasurePreview, headers=TAGGED, errors={404: (NO_USER,)}),
    is_primary_only=True,
)
async def preview(request: Request, services: ReadServices) -> Response:
    (user,) = request.ids
    counts = await person_erasure.count_rows(request.db, request.customer, user)
    if counts is None:
        raise NotFound(NO_USER)
    others = await request.db.fetch(OTHERS, request.customer, user, readable_customers(request))
    body: dict[str, Any] = {
        "userId": user,
        "goes": [
            {"kind": "membership", "how": "removed", "count": 1},
            *[{"kind": kind, "how": how, "count": counts[kind]} for kind, how in HOW.items()],
        ],
        "stays": [
            _stays(
                "person", "shared-or-left-lately", PERSON.format(days=services.settings.orphaned_person_retention_days)
            ),
            _stays("answers", "until-forgotten", ANSWERS.format(hours=services.settings.idempotency_hours)),
            _stays("receivers", "was-sent", RECEIVERS),
        ],
        "customers": [{"id": str(row["customer_id"]), "name": row["name"]} for row in others],
    }
    return conditional_requests.document(request, answer(body, headers=conditional_requests.FRESH))


def _stays(kind: str, code: str, text: str) -> dict[str, str]:
    return {"kind": kind, "code": code, "text": text}


async def _erasable(statements: Statements, request: Request, _body: None = None) -> None:
    """Raises `NotFound` unless the customer has this user."""
    if not await statements.fetchval(MEMBER, request.customer, *request.ids):
        raise NotFound(NO_USER)


@endpoints.post(
    "/users/{userId}/erase",
    Doc(
        "eraseUser",
        "Erase a user from the customer",
        "Removes the user from the customer at once, and ends the user's assignments asynchronously with webhooks."
        " Events stay, but within minutes events and logs no longer identify the person. This cannot be undone, so"
        " check `GET /users/{userId}/erasure` first.",
    ),
    concurrency=Concurrency(serialized="always", precheck=_erasable),
    responses=Responses(errors={404: (NO_USER,)}),
    topics=frozenset(("users", "groups")),
)
async def erase(request: Request, services: ReadServices) -> Response:
    (user,) = request.ids
    async with request.db.transaction() as connection:
        await lock_and_flush(connection, request.customer)
        await _erasable(connection, request)
        await person_erasure.erase(
            connection, request.customer, user, request.checksum, request.asker, services.settings
        )
    return NO_CONTENT
