"""Enrol and provision boxes that open without a network. An extension of the spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, LiteralString

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import TAGGED, Doc, JsonBody, Responses, Tag
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import NO_CONTENT, Request, Response, answer
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import QueryParameter, parse_parameters
from keyrack.api.schema.group_scope import in_scope_sql
from keyrack.api.schema.request_body import Body, Id, Moment, StrictBody, format_timestamp, invalid_member
from keyrack.core.base64url import Octets, base64url, octets
from keyrack.core.error_codes import RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Conflict, Forbidden, NotFound
from keyrack.db.change_notifier import NOTHING
from keyrack.db.connection import Row, Statements
from keyrack.db.named_parameters import compile_statement
from keyrack.fleet.endpoints.products import NO_PRODUCT
from keyrack.offline_keys import enrolment
from keyrack.offline_keys.cose import MessageRefused
from keyrack.offline_keys.enrolment import (
    NONCE,
    InUse,
    NoNonce,
    NotEnrolled,
    NotPending,
    OtherKey,
    SameCaller,
    UsedKey,
)
from keyrack.offline_keys.issuing_keys import INCONSISTENT, box_name, public
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT
from keyrack.offline_keys.services import OfflineKeyServices

TAG = Tag(
    "Boxes", "Enrolment, provisioning and status lists of boxes that open without a network.", frozenset(("products",))
)
endpoints = Endpoints[OfflineKeyServices](TAG, "boxes", is_extension=True, is_preview=True)

NO_BOX = ErrorCode(
    "product-takes-no-keys",
    "The product is not a key box.",
    "Use a product that is a key box.",
)
NOT_ENROLLED = ErrorCode(
    "box-not-enrolled",
    "The box is not enrolled.",
    "Enrol the box first, by `POST` and then `PUT /boxes/{productId}/enrolment`.",
)
NO_NONCE = ErrorCode(
    "enrolment-nonce-unknown",
    "The enrolment names a nonce that was never issued, was used, or has expired.",
    "Get a nonce by `POST /boxes/{productId}/enrolment`, and have the box sign it within ten minutes.",
)
USED_KEY = ErrorCode(
    "box-key-used",
    "The box had this key in an earlier epoch.",
    "Reset the box, so that it generates another key pair.",
)
OTHER_KEY = ErrorCode(
    "box-key-differs",
    "The thumbprint of the box's key differs from the expected one.",
    "Compare the thumbprint with the one that the box shows; a different thumbprint means a different box.",
)
NOT_PENDING = ErrorCode(
    "enrolment-not-pending",
    "The box has no pending enrolment.",
    "Read the enrolment by `GET /boxes/{productId}/enrolment`: it is in force, or was discarded.",
)
IN_USE = ErrorCode(
    "enrolment-in-use",
    "The pending enrolment is in use: its key has signed an entry.",
    "Compare its thumbprint with the one that the box shows, then send it as `thumbprint` of `DELETE` or as"
    " `replaces` of `PUT`.",
)
SAME_MANAGER = ErrorCode(
    "second-person-needed",
    "The manager who began the enrolment cannot approve it.",
    "Ask another manager of the customer to approve it: `POST /boxes/{productId}/enrolment/approval`.",
)
ENROL = "enrol box"
APPROVE = "approve enrolment"
THUMBPRINT = 32  # bytes

KIND: LiteralString = "select kind from product where customer_id = $1 and product_id = $2"
# `:scope` is null for the whole customer, `:shows_users` is whether the caller may see users. The newest 20 reports of
# each kind are returned. The newest report of each user comes before the second newest of any user
STATE = compile_statement(
    """
select e.epoch, e.public_key, e.enrolled_at, e.up_to, e.newest, e.given_up, array(
  select jsonb_build_object('kind', coalesce(r.fault, r.kind), 'number', r.number,
    'reported', to_char(r.reported_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), 'times', r.times,
    'userId', case when :shows_users and (:scope::integer is null or """
    + in_scope_sql("user", "r.user_id")
    + """) then r.user_id end)
  from (
    select *, row_number() over (partition by kind, fault order by place, report_id desc) as rank from (
      select *, row_number() over (partition by kind, fault, user_id order by report_id desc) as place
      from box_report where customer_id = :customer and product_id = :product and epoch = e.epoch) p) r
  where r.rank <= 20 order by report_id desc) as reports
from box_epoch e where e.customer_id = :customer and e.product_id = :product and not e.is_pending
order by e.epoch desc limit 1
"""
)
PENDING: LiteralString = """
select e.epoch, e.public_key, e.enrolled_at, e.proven_at is not null as is_proven,
  e.approved_at is not null as is_approved, e.returned_at is not null as has_returned,
  e.returned_at is not null or coalesce(t.needs_second_person, false) as needs_approval,
  exists (select from box_epoch where customer_id = $1 and product_id = $2 and heard_at is not null) as is_contested
from box_epoch e left join key_authority t using (customer_id)
where e.customer_id = $1 and e.product_id = $2 and e.is_pending and e.discarded_at is null
"""


class EnrolmentNonceBody(Body):
    model_config = ConfigDict(title="EnrolmentNonce")

    nonce: Octets
    expires: Moment


class Enrolment(StrictBody):
    """The enrolment that the box created, and the thumbprint that it displays. See docs/keys.md, "Provisioning".

    `replaces` is the thumbprint of the pending enrolment.
    """

    enrolment: Octets
    thumbprint: Octets | None = None
    replaces: Octets | None = None


class _BoxEpoch(Body):
    product_id: Id
    epoch: Id
    name: str
    thumbprint: Octets


class EnrolledBoxBody(_BoxEpoch):
    model_config = ConfigDict(title="EnrolledBox")

    is_pending: bool


class EnrolmentApproval(StrictBody):
    """The approved key, by the thumbprint that the box displays."""

    thumbprint: Octets


class PendingEnrolment(Body):
    """An enrolment that is not in force yet, and replaces a box."""

    epoch: Id
    name: str
    thumbprint: Octets
    enrolled: Moment
    is_proven: bool
    needs_approval: bool
    is_approved: bool
    has_returned: bool
    is_contested: bool


class BoxReport(Body):
    """A fault in the log of a box."""

    kind: Literal["Fork", "Break", "Forgery", "UnknownKey", "GivenUp", "Late", "UnknownList"]
    number: Id
    reported: Moment
    times: Id
    user_id: Id | None


class BoxLog(Body):
    """The state of the log of a box."""

    up_to: Annotated[int, Field(ge=0)]
    newest: Annotated[int, Field(ge=0)]
    given_up: Annotated[int, Field(ge=0)]
    reports: list[BoxReport]


class BoxStateBody(_BoxEpoch):
    model_config = ConfigDict(title="BoxState")

    enrolled: Moment
    log: BoxLog
    pending: PendingEnrolment | None


class BoxProvisioning(Body):
    """Three messages that the box accepts together.

    A box with an older root takes `roots` first.
    """

    provisioning: Octets
    key_set: Octets
    status_list: Octets
    roots: list[Octets]


def _of_length(length: int) -> Callable[[str], bytes]:
    """A converter from base64url to this many bytes, which raises `ValueError`."""

    def read(text: str) -> bytes:
        data = octets(text)
        if len(data) != length:
            raise ValueError(f"The value must have {length} bytes, but has {len(data)}.")
        return data

    return read


OF_BOX = QueryParameter(
    "nonce", _of_length(NONCE), "The nonce of the box's challenge: 16 bytes in base64url.",
    {"type": "string", "format": "base64url", "examples": ["AAECAwQFBgcICQoLDA0ODw"]}, is_required=True,
)  # fmt: skip
OF_KEY = QueryParameter(
    "thumbprint", _of_length(THUMBPRINT),
    "The thumbprint of the box's key. Default: the pending enrolment, if there is one.",
    {"type": "string", "format": "base64url", "examples": [EXAMPLE_THUMBPRINT]},
)  # fmt: skip
OF_PENDING = QueryParameter(
    "thumbprint", _of_length(THUMBPRINT),
    "The thumbprint of the pending enrolment. Required if the enrolment is in use.",
    {"type": "string", "format": "base64url", "examples": [EXAMPLE_THUMBPRINT]},
)  # fmt: skip
UNCOPIED = {"Cache-Control": "no-store"}


async def check_box(statements: Statements, customer: int, product: int) -> None:
    """Check that a product of the customer is a key box.

    Raises `NotFound` if the customer has no such product, and `Conflict` if it is no key box.
    """
    kind = await statements.fetchval(KIND, customer, product)
    if kind is None:
        raise NotFound(NO_PRODUCT)
    if kind != "Box":
        raise Conflict(NO_BOX)


@endpoints.post(
    "/boxes/{productId}/enrolment",
    Doc(
        "beginEnrolment",
        "Get a nonce for the enrolment of a box",
        "The nonce is valid for ten minutes, and only the newest one is valid. The box signs it, and `PUT"
        " /boxes/{productId}/enrolment` takes the result. The customer's first box also creates the authority for its"
        " keys.",
    ),
    auth=CustomerAuth(Permission.BOXES_WRITE, is_group_scoped=True),
    responses=Responses(200, EnrolmentNonceBody, errors={404: (NO_PRODUCT,), 409: (NO_BOX,)}),
    topics=NOTHING,
)
async def begin(request: Request, services: OfflineKeyServices) -> Response:
    (product,) = request.ids
    async with request.db.transaction() as connection:
        await check_box(connection, request.customer, product)
        nonce, expires = await enrolment.begin(connection, services.encryption, request.customer, product)
    return answer({"nonce": base64url(nonce), "expires": format_timestamp(expires)}, headers=UNCOPIED)


@endpoints.put(
    "/boxes/{productId}/enrolment",
    Doc(
        "enrolBox",
        "Enrol a box",
        "Begins the next epoch of the box. A box in use keeps its epoch: the new one is pending until an entry that"
        " the new key has signed arrives. Then the previous epoch ends, with its keys and lists. Another enrolment"
        " replaces a pending one. Send the `thumbprint` that the box displays; the key of another box is 409."
        " Enrolments are limited per customer and per caller. Above the limit, the response is 429 with"
        " `Retry-After`.",
    ),
    auth=CustomerAuth(Permission.BOXES_WRITE, is_group_scoped=True),
    body=JsonBody(TypeAdapter(Enrolment), ENROL),
    responses=Responses(
        200,
        EnrolledBoxBody,
        errors={
            400: (
                invalid_member(ENROL, "enrolment"),
                invalid_member(ENROL, "thumbprint"),
                invalid_member(ENROL, "replaces"),
            ),
            404: (NO_PRODUCT,),
            409: (NO_BOX, OTHER_KEY, NOT_PENDING, IN_USE, NO_NONCE, USED_KEY),
            429: (RATE_LIMITED,),
        },
    ),
)
async def enrol(request: Request, body: Enrolment, services: OfflineKeyServices) -> Response:
    (product,) = request.ids
    try:
        async with request.db.transaction() as connection:
            await check_box(connection, request.customer, product)
            box = await enrolment.enrol(
                connection, services.settings, request.customer, product, body.enrolment,
                caller=request.caller_key, thumbprint=body.thumbprint, replaces=body.replaces,
            )  # fmt: skip
    except MessageRefused as refused:
        hint = f"A box would reject the message with the code `{refused.code.text}`."
        raise BadRequest(
            invalid_member(ENROL, "enrolment", hint=hint), errors=[FieldError("wrong-form", hint, "/enrolment")]
        ) from None
    except OtherKey:
        raise Conflict(OTHER_KEY) from None
    except NotPending:
        raise Conflict(NOT_PENDING) from None
    except InUse:
        raise Conflict(IN_USE) from None
    except NoNonce:
        raise Conflict(NO_NONCE) from None
    except UsedKey:
        raise Conflict(USED_KEY) from None
    return answer(
        {
            "productId": product, "epoch": box.epoch, "name": box.name, "thumbprint": base64url(box.thumbprint),
            "isPending": box.is_pending,
        }
    )  # fmt: skip


@endpoints.delete(
    "/boxes/{productId}/enrolment",
    Doc(
        "undoEnrolment",
        "Undo the pending enrolment of a box",
        "Discards the pending epoch: phones no longer get keys for it. Keys that phones already have are not revoked."
        " The epoch in force stays. A box that was enrolled in the pending epoch must be reset. If it is in use, its"
        " next entry restores the enrolment, which then needs an approval.",
    ),
    auth=CustomerAuth(Permission.BOXES_WRITE, is_group_scoped=True),
    responses=Responses(errors={404: (NO_PRODUCT,), 409: (NO_BOX, NOT_PENDING, OTHER_KEY, IN_USE)}),
    query_parameters=(OF_PENDING,),
)
async def undo(request: Request, services: OfflineKeyServices) -> Response:
    (product,) = request.ids
    thumbprint = parse_parameters(request.query, (OF_PENDING,)).get(OF_PENDING.name)
    try:
        async with request.db.transaction() as connection:
            await check_box(connection, request.customer, product)
            await enrolment.undo(connection, services.settings, request.customer, product, thumbprint)
    except NotPending:
        raise Conflict(NOT_PENDING) from None
    except OtherKey:
        raise Conflict(OTHER_KEY) from None
    except InUse:
        raise Conflict(IN_USE) from None
    return NO_CONTENT


@endpoints.post(
    "/boxes/{productId}/enrolment/approval",
    Doc(
        "approveEnrolment",
        "Approve the pending enrolment of a box as a second person",
        "For customers that use `keyrack keys policy --second-person on`: a pending enrolment comes into force only"
        " after another manager has approved it. `thumbprint` is the thumbprint of the pending enrolment, and of the"
        " box.",
    ),
    auth=CustomerAuth(Permission.BOXES_WRITE, is_group_scoped=True, is_for_people=True),
    body=JsonBody(TypeAdapter(EnrolmentApproval), APPROVE),
    responses=Responses(
        errors={
            400: (invalid_member(APPROVE, "thumbprint"),),
            403: (SAME_MANAGER,),
            404: (NO_PRODUCT,),
            409: (NO_BOX, NOT_PENDING, OTHER_KEY),
        }
    ),
)
async def approve(request: Request, body: EnrolmentApproval) -> Response:
    (product,) = request.ids
    try:
        async with request.db.transaction() as connection:
            await check_box(connection, request.customer, product)
            await enrolment.approve(
                connection, request.customer, product, caller=request.manager.key, thumbprint=body.thumbprint
            )
    except NotPending:
        raise Conflict(NOT_PENDING) from None
    except OtherKey:
        raise Conflict(OTHER_KEY) from None
    except SameCaller:
        raise Forbidden(SAME_MANAGER) from None
    return NO_CONTENT


@endpoints.get(
    "/boxes/{productId}/enrolment",
    Doc(
        "getEnrolledBox",
        "Get an enrolled box",
        "Returns the epoch, the key and the state of the log. `log` has the number up to which the log is known"
        " without a gap, the highest known number, and fault reports: the newest 20 of each kind. `pending` is an"
        " enrolment that is not in force yet.",
    ),
    auth=CustomerAuth(
        Permission.BOXES_READ, is_group_scoped=True, conditional={"`userId` of a report": Permission.USERS_READ}
    ),
    responses=Responses(200, BoxStateBody, headers=TAGGED, errors={404: (NO_PRODUCT, NOT_ENROLLED), 409: (NO_BOX,)}),
)
async def state(request: Request) -> Response:
    (product,) = request.ids
    await check_box(request.db, request.customer, product)
    sees_users = Permission.USERS_READ in request.grant.permissions
    arguments = STATE.arguments(customer=request.customer, scope=request.scope, product=product, shows_users=sees_users)
    row = await request.db.fetchrow(STATE.sql, *arguments)
    if row is None:
        raise NotFound(NOT_ENROLLED)
    pending = await request.db.fetchrow(PENDING, request.customer, product)
    body = {
        "productId": product, **_epoch(product, row),
        "log": {"upTo": row["up_to"], "newest": row["newest"], "givenUp": row["given_up"], "reports": row["reports"]},
        "pending": None if pending is None else _pending(product, pending),
    }  # fmt: skip
    return conditional_requests.created_response(request, answer(body).body or b"")


def _epoch(product: int, row: Row) -> dict[str, Any]:
    return {
        "epoch": row["epoch"], "name": box_name(product, row["epoch"]),
        "thumbprint": base64url(public(row["public_key"]).thumbprint), "enrolled": format_timestamp(row["enrolled_at"]),
    }  # fmt: skip


def _pending(product: int, row: Row) -> dict[str, Any]:
    return _epoch(product, row) | {
        "isProven": row["is_proven"], "needsApproval": row["needs_approval"], "isApproved": row["is_approved"],
        "hasReturned": row["has_returned"], "isContested": row["is_contested"],
    }  # fmt: skip


@endpoints.get(
    "/boxes/{productId}/provisioning",
    Doc(
        "getProvisioning",
        "Get the provisioning of a box",
        "Returns authority, name, time, key set and status list of the box, bound to its nonce. The box accepts all"
        " three messages or none. They are valid only for this nonce. They also set the clock of a box in use. While"
        " an enrolment is pending, the messages are for its key; `thumbprint` selects the box in use.",
    ),
    auth=CustomerAuth(Permission.BOXES_WRITE, is_group_scoped=True),
    responses=Responses(
        200, BoxProvisioning, errors={404: (NO_PRODUCT, NOT_ENROLLED), 409: (NO_BOX,), 503: (INCONSISTENT,)}
    ),
    query_parameters=(OF_BOX, OF_KEY),
    is_primary_only=True,
)
async def provisioning(request: Request, services: OfflineKeyServices) -> Response:
    (product,) = request.ids
    parameters = parse_parameters(request.query, (OF_BOX, OF_KEY))
    nonce, thumbprint = parameters[OF_BOX.name], parameters.get(OF_KEY.name)
    try:
        async with request.db.transaction() as connection:
            await check_box(connection, request.customer, product)
            result = await enrolment.provision(
                connection, services.issuing_keys, request.customer, product, nonce, thumbprint
            )
    except NotEnrolled:
        raise NotFound(NOT_ENROLLED) from None
    messages = {"provisioning": result.provisioning, "keySet": result.key_set, "statusList": result.status_list}
    body = {name: base64url(data) for name, data in messages.items()}
    return answer(body | {"roots": [base64url(root) for root in result.roots]}, headers=UNCOPIED)
