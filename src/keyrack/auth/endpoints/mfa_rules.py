"""Rules of a customer: which roles require a second factor. An extension of the spec."""

from __future__ import annotations

import json
from typing import Annotated, LiteralString

from pydantic import Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.endpoint import TAGGED, Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response
from keyrack.api.permissions import Role
from keyrack.api.schema.request_body import StrictBody
from keyrack.api.services import ReadServices
from keyrack.auth.endpoints.mfa import TAG
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import Conflict

endpoints = Endpoints[ReadServices](TAG, "managers", is_extension=True)

RULE_WITHOUT_FACTOR = ErrorCode(
    "second-factor-not-used",
    "You must sign in with a second factor before you can require one.",
    "Sign in with a passkey or a code, then set the rule.",
)

RULES: LiteralString = "select role from factor_rule where customer_id = $1 order by role"
LOCK_CUSTOMER: LiteralString = "select customer_id from customer where customer_id = $1 for no key update"
LIFT: LiteralString = "delete from factor_rule where customer_id = $1 and not role = any($2::text[])"
SET: LiteralString = """
insert into factor_rule (customer_id, role) select $1, unnest($2::text[]) on conflict do nothing
"""


class FactorRules(StrictBody):
    """The roles that require a second factor."""

    roles: Annotated[list[Role], Field(max_length=len(Role))]


@endpoints.get(
    "/factor-rules",
    Doc(
        "getFactorRules",
        "Get the roles that require a second factor",
        "Returns the roles of the customer whose permissions require a sign-in with a second factor.",
    ),
    responses=Responses(200, FactorRules, headers=TAGGED),
)
async def rules(request: Request) -> Response:
    rows = await request.db.fetch(RULES, request.customer)
    return conditional_requests.created_response(request, json.dumps({"roles": [row["role"] for row in rows]}).encode())


@endpoints.put(
    "/factor-rules",
    Doc(
        "setFactorRules",
        "Set the roles that require a second factor",
        "Replaces the list: a role that is not in it requires no second factor. The change takes effect within a"
        " second, also for managers who are signed in.",
    ),
    body=JsonBody(TypeAdapter(FactorRules), "set the rules"),
    responses=Responses(errors={409: (RULE_WITHOUT_FACTOR,)}),
)
async def set_rules(request: Request, body: FactorRules) -> Response:
    """Set the rules. They hold within a second, also for signed-in managers."""
    roles = [str(role) for role in body.roles]
    if roles and "mfa" not in request.manager.amr:
        raise Conflict(RULE_WITHOUT_FACTOR)
    async with request.db.transaction() as connection:
        await connection.fetchval(LOCK_CUSTOMER, request.customer)
        await connection.execute(LIFT, request.customer, roles)
        await connection.execute(SET, request.customer, roles)
    return NO_CONTENT
