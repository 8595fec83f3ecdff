"""The calling manager's accounts at providers of single sign-on. An extension of the spec."""

from __future__ import annotations

from typing import LiteralString

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.endpoint import Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, manager_id, manager_parameter
from keyrack.api.path_ids import path_number
from keyrack.api.permissions import Free
from keyrack.api.schema.fields import Resource, date_time, int32, string
from keyrack.api.services import ReadServices
from keyrack.auth.endpoints.me import TAG
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict, NotFound

endpoints = Endpoints[ReadServices](TAG, AccountAuth(Free.PERSON), is_extension=True)

NO_IDENTITY = ErrorCode(
    "identity-not-found",
    "Unable to find an account for the given identityId which is connected with the manager.",
    "Use an id that `GET /me/identities` returns.",
)
LAST_WAY_IN = ErrorCode(
    "last-sign-in-method",
    "This account is the manager's only sign-in method.",
    "Set a password or connect another account first.",
)

IDENTITY = Resource(
    "Identity",
    "manager_identity {t}",
    "{t}.manager_id = :manager",
    {
        "id": int32("{t}.identity_id"),
        "provider": string("(select name from provider where provider_id = {t}.provider_id)"),
        "label": string("(select label from provider where provider_id = {t}.provider_id)"),
        "createdAt": date_time("{t}.created_at"),
    },
    permission=Free.PERSON,
)

# Locked, so that concurrent requests do not remove both of two accounts
OF_MANAGER: LiteralString = "select password_hash from manager where manager_id = $1 for update"
FOUND: LiteralString = "select count(*) from manager_identity where manager_id = $1 and identity_id = $2"
OTHERS: LiteralString = "select count(*) from manager_identity where manager_id = $1 and identity_id <> $2"
DELETE: LiteralString = "delete from manager_identity where manager_id = $1 and identity_id = $2"


endpoints.read(
    "/me/identities",
    IDENTITY,
    Doc(
        "listIdentities",
        "List connected accounts",
        "Returns the accounts of the calling manager at single sign-on providers.",
    ),
    tenant=manager_parameter,
)


@endpoints.delete(
    "/me/identities/{identityId}",
    Doc(
        "disconnectIdentity",
        "Disconnect an account",
        "The manager can no longer sign in with the account, and sessions that began with it end. The last sign-in"
        " method cannot be removed.",
    ),
    responses=Responses(errors={404: (NO_IDENTITY,), 409: (LAST_WAY_IN,)}),
    converters={"identityId": path_number},
    is_idempotent=False,
)
async def disconnect(request: Request) -> Response:
    manager = manager_id(request)
    async with request.db.transaction() as connection:
        password = await connection.fetchval(OF_MANAGER, manager)
        if not await connection.fetchval(FOUND, manager, *request.ids):
            raise NotFound(NO_IDENTITY)
        if password is None and not await connection.fetchval(OTHERS, manager, *request.ids):
            raise Conflict(LAST_WAY_IN)
        await connection.execute(DELETE, manager, *request.ids)
    return NO_CONTENT
