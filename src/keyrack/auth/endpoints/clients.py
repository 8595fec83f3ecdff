"""Machine clients: their scopes in a customer, and their secrets. An extension of the spec."""

from __future__ import annotations

from typing import Annotated, Any, Literal, LiteralString
from uuid import UUID

from pydantic import TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.endpoint import Concurrency, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.read_sql import Parent
from keyrack.api.schema.declaration import patch_paths
from keyrack.api.schema.fields import Resource, date_time, int32
from keyrack.api.schema.json_patch import patched_form
from keyrack.api.schema.request_body import Int32, Patch, StrictBody, invalid_member
from keyrack.api.services import ReadServices
from keyrack.auth import client_registry
from keyrack.auth.declarations import CLIENTS, NewClient
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound
from keyrack.db.connection import Row, Statements

endpoints = Endpoints[ReadServices](
    Tag("Clients", "Programs with their own credentials, and their secrets."), "clients", is_extension=True
)

NO_CLIENT = ErrorCode(
    "client-not-found",
    "Unable to find a client for the given clientId which is assigned to the given customerId.",
    "Use an id that `GET /clients` returns for this customer.",
)
NO_SECRET = ErrorCode(
    "client-secret-not-found",
    "Unable to find a secret for the given secretId which is assigned to the given clientId.",
    "Use an id that `GET /clients/{clientId}/secrets` returns.",
)
TOO_MANY = ErrorCode(
    "too-many-clients",
    "The customer has reached its limit of machine clients. Remove one first.",
    "Remove an unused client; `GET /clients` shows when each was last used.",
)
TWO_SECRETS = ErrorCode(
    "too-many-client-secrets",
    "The client already has two secrets. Remove the unused one first.",
    "Remove the unused secret; `GET /clients/{clientId}/secrets` shows when each was last used.",
)
MANAGED_ELSEWHERE = ErrorCode(
    "client-managed-elsewhere",
    "The client is managed by the operator or by another customer. You can only change its scopes, or remove"
    " it from this customer.",
    "Ask the operator to change its name, its expiry or its secrets.",
)
CREATE, UPDATE = "create client", "update client"

CLIENT = Resource(
    "MachineClient",
    "client_customer {t} join client {t}_c using (client_id)",
    "{t}.customer_id = :customer",
    {"id": int32("{t}.client_id"), **CLIENTS.fields},
    permission=Permission.CLIENTS_READ,
)
SECRET = Resource(
    "ClientSecret",
    "client_secret {t} join client_customer {t}_l using (client_id)",
    "{t}_l.customer_id = :customer",
    {
        "id": int32("{t}.client_secret_id"),
        "created": date_time("{t}.created_at"),
        "lastUsed": date_time("{t}.used_at", nullable=True),
    },
    permission=Permission.CLIENTS_READ,
)
_IN_CLIENT: LiteralString = "{t}_l.customer_id = {p}.customer_id and {t}.client_id = {p}.client_id"

endpoints.read(
    "/clients",
    CLIENT,
    Doc(
        "listClients",
        "List machine clients",
        "Returns the machine clients that may act for the customer, including clients that the operator or another"
        " customer manages.",
    ),
)
ONE_CLIENT = endpoints.read(
    "/clients/{clientId}",
    CLIENT,
    Doc(
        "getClient",
        "Get a machine client",
        "Returns one machine client with its scopes in the customer and the time of its last use.",
    ),
    is_single=True,
    missing_error=NO_CLIENT,
)
endpoints.read(
    "/clients/{clientId}/secrets",
    SECRET,
    Doc(
        "listClientSecrets",
        "List the secrets of a client",
        "Returns at most two secrets with the times of their creation and last use, never the secrets themselves."
        " `lastUsed` shows which secret is no longer in use. It is updated once a minute.",
    ),
    parent=Parent(CLIENT, _IN_CLIENT),
    missing_error=NO_CLIENT,
)


class ClientCreated(StrictBody):
    id: Int32
    client_id: UUID
    client_secret: str


class SecretCreated(StrictBody):
    id: Int32
    client_secret: str


MEMBERS = ("name", "scopes", "expires", "enabled", "mode")  # of a patch
CHANGED = CLIENTS.partial(*MEMBERS)


class ClientPatch(StrictBody):
    op: Literal["remove", "replace"]
    path: Annotated[str, patch_paths(MEMBERS)]
    value: Any = None


@endpoints.put(
    "/clients",
    Doc(
        "createClient",
        "Create a machine client",
        "The response is the only one that contains the secret. `scopes` are names of permissions. An unknown scope,"
        " or one that lets a program manage access, is rejected. A write scope includes the read scope. With"
        " `expires`, the client stops working at that time.",
    ),
    body=JsonBody(TypeAdapter(NewClient), CREATE),
    responses=Responses(
        201,
        ClientCreated,
        errors={
            400: tuple(invalid_member(CREATE, name) for name in ("name", "scopes", "expires", "mode")),
            409: (TOO_MANY,),
        },
        representation=ONE_CLIENT,
        has_secret=True,
    ),
)
async def create(request: Request, client: NewClient, services: ReadServices) -> Response:
    async with request.db.transaction() as connection:
        made = await client_registry.add(connection, request.customer, client, services.settings.client_limit)
        if made is None:
            raise Conflict(TOO_MANY)
        await client_registry.grant_role(connection, request.customer, made.id, client.scopes)
    body = {"id": made.id, "clientId": str(made.subject), "clientSecret": made.secret}
    return answer(body, 201, {"Cache-Control": "no-store"}, made=made.id)


@endpoints.patch(
    "/clients/{clientId}",
    Doc(
        "updateClient",
        "Update a machine client",
        "A JSON Patch (RFC 6902) with `remove` and `replace`. `remove` is only valid for `expires`. The change takes"
        " effect everywhere within a second, also for tokens that are already issued.",
    ),
    body=JsonBody(TypeAdapter(Patch[ClientPatch]), UPDATE),
    concurrency=Concurrency(if_match=CLIENT),
    responses=Responses(
        errors={
            400: tuple(invalid_member(UPDATE, name) for name in MEMBERS),
            404: (NO_CLIENT,),
            409: (MANAGED_ELSEWHERE,),
        },
        representation=ONE_CLIENT,
    ),
)
async def update(request: Request, patch: list[ClientPatch]) -> Response:
    whole = patched_form(
        CHANGED, patch, UPDATE, "expires", "`expires` must be a time; a `remove` step removes the expiry."
    )
    values: dict[str, Any] = whole.model_dump(mode="json", by_alias=True, exclude_unset=True)
    changes: dict[str, Any] = {step.path[1:]: values.get(step.path[1:]) for step in patch}
    async with request.db.transaction() as connection:
        await conditional_requests.compare(connection, request, CLIENT, NO_CLIENT)
        await _locked(connection, request, own=changes.keys() != {"scopes"})
        await client_registry.change(connection, request.ids[0], changes)
        if "scopes" in changes:
            await client_registry.grant_role(connection, request.customer, request.ids[0], changes["scopes"])
    return NO_CONTENT


@endpoints.delete(
    "/clients/{clientId}",
    Doc(
        "deleteClient",
        "Delete a machine client",
        "The tokens of a deleted client are rejected everywhere within a second. If the operator or another customer"
        " manages the client, it is only removed from the customer, and loses its access there within a second.",
    ),
    concurrency=Concurrency(if_match=CLIENT),
    responses=Responses(errors={404: (NO_CLIENT,)}),
)
async def delete(request: Request) -> Response:
    async with request.db.transaction() as connection:
        await conditional_requests.compare(connection, request, CLIENT, NO_CLIENT)
        client = await _locked(connection, request, own=False)
        if client["manages"] == request.customer:
            await client_registry.remove(connection, request.ids[0])
        else:
            await connection.execute(client_registry.TAKE, request.customer, request.ids[0])
    return NO_CONTENT


@endpoints.put(
    "/clients/{clientId}/secrets",
    Doc(
        "createClientSecret",
        "Create another secret of a client",
        "The response is the only one that contains the secret. The previous secret stays valid, so you can rotate"
        " secrets without an interruption. Create a secret, give it to the program, then delete the old one.",
    ),
    responses=Responses(
        201, SecretCreated, errors={404: (NO_CLIENT,), 409: (TWO_SECRETS, MANAGED_ELSEWHERE)}, has_secret=True
    ),
)
async def add_secret(request: Request) -> Response:
    async with request.db.transaction() as connection:
        await _locked(connection, request, own=True)
        added = await client_registry.add_secret(connection, request.ids[0])
    if added is None:
        raise Conflict(TWO_SECRETS)
    return answer({"id": added.id, "clientSecret": added.secret}, 201, {"Cache-Control": "no-store"})


@endpoints.delete(
    "/clients/{clientId}/secrets/{secretId}",
    Doc(
        "deleteClientSecret",
        "Delete a secret of a client",
        "The secret, and all tokens that were issued for it, are rejected everywhere within a second. Tokens of the"
        " other secret stay valid.",
    ),
    responses=Responses(errors={404: (NO_CLIENT, NO_SECRET), 409: (MANAGED_ELSEWHERE,)}),
)
async def remove_secret(request: Request) -> Response:
    async with request.db.transaction() as connection:
        await _locked(connection, request, own=True)
        if not await connection.fetchval(client_registry.WITHOUT, *request.ids):
            raise NotFound(NO_SECRET)
    return NO_CONTENT


async def _locked(connection: Statements, request: Request, *, own: bool) -> Row:
    """Lock the client of the path.

    Raises `NotFound`, and `Conflict` if `own` and the customer does not manage the client.
    """
    client = await connection.fetchrow(client_registry.OF_CUSTOMER, request.customer, request.ids[0])
    if client is None:
        raise NotFound(NO_CLIENT)
    if own and client["manages"] != request.customer:
        raise Conflict(MANAGED_ELSEWHERE)
    return client
