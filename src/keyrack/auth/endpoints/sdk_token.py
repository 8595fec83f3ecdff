"""Id tokens for users, `Anonymous` or `Normal`, for an app's SDK.

A token is valid for one customer: the subject is pairwise (OpenID Connect Core 1.0, section 8.1) and the audience is
the customer's. So two customers cannot combine their data, and neither accepts the other's tokens.
"""

from __future__ import annotations

from typing import LiteralString

from pydantic import BaseModel, TypeAdapter

from keyrack.api.auth_schemes import AccountAuth
from keyrack.api.caller import permit
from keyrack.api.endpoint import Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.schema.request_body import Body, Int32, Name
from keyrack.auth import app_tokens
from keyrack.auth.services import AuthServices
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import BadRequest
from keyrack.core.secret_hashes import digest

TAG = Tag("App SDK", "Id tokens for the SDK of an app, and the app's requests with them: phones, keys and box logs.")
endpoints = Endpoints[AuthServices](TAG, AccountAuth(Permission.SDK_WRITE))

INVALID_COMBINATION = ErrorCode(
    "invalid-sdk-combination",
    "Invalid combination of customerId, sdkKey and userId.",
    "Send a key and a user of the same customer, to which you must have access.",
)

SUBJECT: LiteralString = """
select k.sdk_key_id, subject_at(k.customer_id, p.seed) as subject
from sdk_key k join customer_user u using (customer_id) join person p using (user_id)
where k.customer_id = $1 and k.hash = $2 and k.revoked_at is null and u.user_id = $3
"""


class SdkTokenRequest(Body):
    customer_id: Int32
    sdk_key: Name
    user_id: Int32


class SdkToken(BaseModel):
    id_token: str


@endpoints.post(
    "/sdk/token",
    Doc(
        "getSdkToken",
        "Get an id token for a user",
        "Returns an id token (JWT, RS256) that identifies a user to the SDK of an app. `/.well-known/jwks.json` has"
        " the keys that verify it. Subject and audience are valid only for this customer. The SDK key is a secret of"
        " the customer, so call this from a server, not from the app.",
    ),
    body=JsonBody(TypeAdapter(SdkTokenRequest), "get token"),
    responses=Responses(200, SdkToken, errors={400: (INVALID_COMBINATION,)}, has_secret=True),
    is_idempotent=False,
)
async def token(request: Request, body: SdkTokenRequest, services: AuthServices) -> Response:
    row = None
    if request.caller and body.customer_id in request.caller.grants:
        permit(request.caller, Permission.SDK_WRITE, body.customer_id)
        row = await request.db.fetchrow(SUBJECT, body.customer_id, digest(body.sdk_key), body.user_id)
    if row is None:
        raise BadRequest(INVALID_COMBINATION)
    customer, subject = body.customer_id, row["subject"]
    await app_tokens.remember(request.db, customer, subject, body.user_id)
    signed = await services.authenticator.sign(
        subject, app_tokens.audience(customer), customer_id=customer, email=str(subject), sdk_key_id=row["sdk_key_id"]
    )
    return answer({"id_token": signed}, headers={"Cache-Control": "no-store"})
