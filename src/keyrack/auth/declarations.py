"""The fields of machine clients, each declared once.

`api.schema.declaration` lists what is derived from a declaration. A client has scopes in each of its customers, so they
are in their own table, which `auth.client_registry` writes.

Managers are not declared. Their fields come from three tables, and each is written in its own way: an account
(`username`, `enabled`), a membership (`acceptedProvider`, `acceptedAddress`) and a role with its groups. A declaration
would give the property and its description, but no statement and no body. The facts are in
`auth/endpoints/managers.py`, `http/openapi/descriptions/auth.py`, `changelog/column_decisions.py`,
`changelog/personal_data.py`, `console/changes/labels.py` and `cli/commands/manager.py`, which lists accounts of all
customers.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from keyrack.api.permissions import PROGRAMS
from keyrack.api.schema.declaration import MemberInfo, ResourceTable, shown
from keyrack.api.schema.request_body import Body, Moment, Name, StrictBody
from keyrack.core.suggestions import did_you_mean
from keyrack.core.text import N_


def _to_come(time: datetime | None) -> datetime | None:
    if time is not None and time <= datetime.now(UTC):
        raise PydanticCustomError("past", "The time must be in the future")
    return time


def _once(scopes: list[str]) -> list[str]:
    return sorted(set(scopes))


def _scope(name: str) -> str:
    """Raises `PydanticCustomError` for a name that is not a permission of machine clients."""
    if name not in PROGRAMS:
        valid = did_you_mean(name, PROGRAMS) or f" The scopes are {', '.join(sorted(PROGRAMS))}."
        sentence = f"{name[:60]!a} is not a scope of machine clients.{valid}"
        raise PydanticCustomError("no_scope", "{sentence}", {"sentence": sentence})
    return name


SCOPE = WithJsonSchema({"type": "string", "enum": [str(one) for one in PROGRAMS]})  # the schema of one scope
Scope = Annotated[str, AfterValidator(_scope), SCOPE]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=len(PROGRAMS)), AfterValidator(_once)]
Expires = Annotated[Moment | None, AfterValidator(_to_come)]
Mode = Literal["spec", "strict"]  # the values of `RequestMode`


# The body of a new client
class NewClient(StrictBody):
    name: Name
    scopes: Scopes
    expires: Expires = None
    mode: Mode = "strict"


class ClientRow(Body):
    """The members of a client in one of its customers."""

    name: Annotated[
        Name,
        MemberInfo(
            N_("Name"),
            N_("the name"),
            "A label for the client, such as its program and purpose.",
            "Booking system",
            is_searchable=True,
        ),
    ]
    client_id: Annotated[
        UUID,
        shown("The id with which the client authenticates.", "1b4e28ba-2fa1-41d2-883f-0016d3cca427", "{t}_c.subject"),
    ]
    scopes: Annotated[
        Scopes,
        shown(
            "The permissions of the client in the customer. A write scope includes the read scope.",
            ["assignments:write", "cars:read"],
            "{t}.scopes",
        ),
    ]
    enabled: Annotated[
        bool,
        MemberInfo(
            N_("Disabled"),
            N_("the state"),
            "Whether the client can make requests.",
            True,
            column="is_disabled",
            recorded_as="isDisabled",
            is_inverted=True,
        ),
    ] = True
    expires: Annotated[
        Expires,
        MemberInfo(
            N_("Valid until"),
            N_("the end"),
            "When the client expires; null for never.",
            "2030-01-01T00:00:00Z",
            column="expires_at",
        ),
    ] = None
    mode: Annotated[
        Mode,
        MemberInfo(
            N_("Handling of requests"),
            N_("the handling of requests"),
            "How requests of the client are handled, unless the header `Keyrack-Mode` says otherwise. `strict` rejects"
            " unknown properties and query options, and reports each error as a problem. `spec` follows the spec to"
            " the letter. Omitted from a body, it is `strict`; clients of releases before it have `spec`.",
            "strict",
        ),
    ] = "spec"  # of the rows of older releases
    managed_here: Annotated[
        bool,
        shown(
            "Whether the customer manages the client. Otherwise the operator or another customer does.",
            True,
            "({t}_c.managed_by is not distinct from {t}.customer_id)",
        ),
    ]
    created: Annotated[datetime, shown("When the client was created.", "2026-04-30T12:00:00Z", "{t}_c.created_at")]
    last_used: Annotated[
        datetime | None,
        shown(
            "When one of its secrets was last used, to the minute; null for never.",
            "2026-05-01T08:15:00Z",
            "(select max(s.used_at) from client_secret s where s.client_id = {t}.client_id)",
        ),
    ]


CLIENTS = ResourceTable(
    "MachineClient", "client", ClientRow, key="client_id", id=("The id of the client.", 12), alias="{t}_c"
)
