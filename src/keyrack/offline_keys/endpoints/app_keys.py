"""Get keys and times, and upload box logs, for an app.

An extension of the spec.
"""

from __future__ import annotations

from typing import Annotated, Literal, LiteralString

from pydantic import ConfigDict, Field, TypeAdapter

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import AppAuth
from keyrack.api.endpoint import TAGGED, Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer
from keyrack.api.principals import AppUser
from keyrack.api.query_parameters import QueryParameter, parse_parameters
from keyrack.api.rate_limits import HOUR, Bucket, RateLimit, take_each
from keyrack.api.schema.request_body import Body, Id, Moment, format_timestamp, invalid_member
from keyrack.auth.app_tokens import user_exists
from keyrack.auth.endpoints.sdk_token import TAG
from keyrack.core.base64url import Octets, base64url, octets
from keyrack.core.error_codes import INVALID_TOKEN, RATE_LIMITED, ErrorCode, FieldError
from keyrack.core.errors import BadRequest, Forbidden, NotFound, Unauthorized
from keyrack.core.settings import Settings
from keyrack.db import worker_wakeup
from keyrack.offline_keys import box_logs, key_issuing
from keyrack.offline_keys.endpoints.app_devices import app_of
from keyrack.offline_keys.endpoints.boxes import UNCOPIED
from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE
from keyrack.offline_keys.enrolment import NONCE, time_for
from keyrack.offline_keys.issuing_keys import INCONSISTENT, SERVICE, box_name
from keyrack.offline_keys.key_issuing import IssuedKeys, NoDevice, NotApproved
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT
from keyrack.offline_keys.services import OfflineKeyServices
from keyrack.offline_keys.timestamps import now

endpoints = Endpoints[OfflineKeyServices](TAG, AppAuth(), is_extension=True, is_preview=True)

NO_KEYS = ErrorCode(
    "no-key-for-box",
    "The user has no valid key for this box.",
    "Use the name of a box that `GET /sdk/keys` returns.",
)
NOT_APPROVED = ErrorCode(
    "device-not-approved",
    "The phone is waiting for the approval of a manager.",
    "Ask a manager to approve the phone in the console, or by `PUT /users/{userId}/devices/{deviceId}/approval`.",
)
DELIVER = "deliver the log of a box"
TIME = "sign the time"
# Whether the user has a key for the box of this name, and the service key that signs
TELLS_TIME: LiteralString = (
    "select ("
    + SERVICE.newest
    + """)
from app_subject s where s.customer_id = $1 and s.subject = $2 and exists (
  select from box_key k where k.customer_id = $1 and k.user_id = s.user_id and k.is_placed and k.revoked_at is null
    and 'box:' || k.product_id || ':' || k.epoch = $3 and k.expires_at > $4)
"""
)


class PhoneKeyBody(Body):
    """A key of one assignment. A new one is available from `renewAfter`."""

    model_config = ConfigDict(title="PhoneKey")

    assignment_id: Id
    car_id: Id
    product_id: Id
    box: str
    issued: Moment
    begins: Moment
    expires: Moment
    renew_after: Moment
    key: Octets


class CarriedList(Body):
    generation: Id
    status_list: Octets


class DayKeyBody(Body):
    """The key of the names that a box advertises on one day."""

    model_config = ConfigDict(title="DayKey")

    day: Annotated[int, Field(ge=0)]
    key: Octets


class CarriedBox(Body):
    """Messages that a phone carries to a box: its status lists, oldest first, and the newest receipt of its log.

    `names` has the day keys by which the phone finds the box.
    """

    box: str
    product_id: Id
    box_key: Octets
    status_lists: list[CarriedList]
    receipt: Octets | None
    names: list[DayKeyBody]


class WithheldKey(Body):
    """An assignment that gets no new key, and the reason."""

    model_config = ConfigDict(title="Withheld")

    assignment_id: Id
    reason: Literal["too-many-keys", "status-list-full"]


class PhoneKeys(Body):
    """All keys that a phone keeps. It deletes every other key."""

    key_set: Octets | None
    roots: list[Octets]
    keys: list[PhoneKeyBody]
    boxes: list[CarriedBox]
    withheld: list[WithheldKey]
    is_complete: bool


class LogEntriesBody(Body):
    """Signed entries of the logs of boxes, in any order."""

    model_config = ConfigDict(title="Entries")

    entries: Annotated[list[Octets], Field(min_length=1, max_length=2_000)]


class BoxReceipt(Body):
    """A receipt: the box can delete entries up to this number."""

    box: str
    up_to: Id
    receipt: Octets


class RefusedEntry(Body):
    index: Annotated[int, Field(ge=0)]
    reason: str


class EntriesAccepted(Body):
    model_config = ConfigDict(title="TakenEntries")

    receipts: list[BoxReceipt]
    refused: list[RefusedEntry]


class TimeRequest(Body):
    """The name and the nonce in the box's challenge."""

    model_config = ConfigDict(title="TimeWanted")

    box: Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[ -~]*$")]
    nonce: Octets


class SignedTime(Body):
    time: Octets


def a_device(text: str) -> bytes:
    """The id of a phone in a query. Raises `ValueError`."""
    device = octets(text)
    if len(device) != 32:
        raise ValueError("The value must be a device id from `PUT /sdk/devices`, which has 32 bytes.")
    return device


OF_DEVICE = QueryParameter(
    "device", a_device, "The id of the phone, as in the response to `PUT /sdk/devices`.",
    {"type": "string", "format": "base64url", "examples": [EXAMPLE_THUMBPRINT]}, is_required=True,
)  # fmt: skip


@endpoints.get(
    "/sdk/keys",
    Doc(
        "getPhoneKeys",
        "Get the keys of a phone",
        "Returns one key for each assignment in force, and the messages that the phone carries to boxes (`boxes`)."
        " `names` of a box has the keys of its advertised names, for the days on which a key of the phone may open. A"
        " key is valid from the later of now and the assignment's `start`, until the earlier of its `end` and now +"
        " `lifetime`. Until `renewAfter`, the response has the same key again. The phone deletes all keys that are"
        " not in the response.",
    ),
    auth=AppAuth(has_own_user_check=True),
    responses=Responses(
        200, PhoneKeys, headers=TAGGED, errors={403: (NOT_APPROVED,), 404: (NO_DEVICE,), 503: (INCONSISTENT,)}
    ),
    query_parameters=(OF_DEVICE,),
)
async def keys(request: Request, services: OfflineKeyServices) -> Response:
    app = app_of(request)
    device: bytes = parse_parameters(request.query, (OF_DEVICE,))[OF_DEVICE.name]
    try:
        issued = await key_issuing.issue_keys(
            request.db,
            request.batches,
            services.issuing_keys,
            services.settings,
            app.customer,
            app.subject,
            device,
        )
    except NoDevice:
        if not await user_exists(request.db, app):
            raise Unauthorized(INVALID_TOKEN) from None
        raise NotFound(NO_DEVICE) from None
    except NotApproved:
        raise Forbidden(NOT_APPROVED) from None
    return conditional_requests.created_response(request, answer(_shown(issued)).body or b"")


def _shown(issued: IssuedKeys) -> dict[str, object]:
    keys = [
        {
            "assignmentId": key.assignment, "carId": key.car, "productId": key.place.product,
            "box": box_name(key.place.product, key.place.epoch), "issued": format_timestamp(key.issued),
            "begins": format_timestamp(key.begins), "expires": format_timestamp(key.expires),
            "renewAfter": format_timestamp(key.renew),
            "key": base64url(key.token),
        }
        for key in issued.keys
    ]  # fmt: skip
    return {
        "keySet": None if issued.key_set is None else base64url(issued.key_set),
        "roots": [base64url(root) for root in issued.roots],
        "keys": keys,
        "boxes": _carried(issued),
        "withheld": [{"assignmentId": id, "reason": reason} for id, reason in sorted(issued.withheld.items())],
        "isComplete": issued.is_complete,
    }


def _carried(issued: IssuedKeys) -> list[dict[str, object]]:
    lists_by_box: dict[tuple[int, int], list[dict[str, object]]] = {}
    for place in sorted(issued.lists):
        entry: dict[str, object] = {"generation": place.generation, "statusList": base64url(issued.lists[place])}
        lists_by_box.setdefault((place.product, place.epoch), []).append(entry)
    return [
        {
            "box": box_name(*box), "productId": box[0], "boxKey": base64url(issued.box_keys[box].encoded),
            "statusLists": entry,
            "receipt": base64url(issued.receipts[box]) if box in issued.receipts else None,
            "names": [{"day": day, "key": base64url(key)} for day, key in issued.names.get(box, ())],
        }
        for box, entry in lists_by_box.items()
    ]  # fmt: skip


def most_of_a_log(settings: Settings) -> int:
    """The maximum size of an upload in bytes. An entry has at most 500 before base64."""
    return settings.boxlog_entries * 700 + 1_000


@endpoints.put(
    "/sdk/boxlog",
    Doc(
        "deliverBoxLog",
        "Deliver entries of box logs",
        "Delivers entries of any box of the customer, in any order and any number of times. Openings and closings"
        " appear in `GET /events`, each once and in order. `receipts` are for the boxes, which then free the space."
        " `refused` lists invalid entries by their index; all other entries are accepted.",
    ),
    body=JsonBody(TypeAdapter(LogEntriesBody), DELIVER, max_bytes=most_of_a_log),
    responses=Responses(200, EntriesAccepted, errors={400: (invalid_member(DELIVER, "entries"),)}),
    topics=frozenset(("events", "products")),
    is_idempotent=False,
)
async def deliver(request: Request, body: LogEntriesBody, services: OfflineKeyServices) -> Response:
    app = app_of(request)
    if len(body.entries) > services.settings.boxlog_entries:
        hint = f"A request must have at most {services.settings.boxlog_entries} entries, but has {len(body.entries)}."
        raise BadRequest(
            invalid_member(DELIVER, "entries", hint=hint), errors=[FieldError("too-long", hint, "/entries")]
        )
    read = box_logs.read(body.entries)
    taken = await box_logs.ingest_entries(
        request.db, services.issuing_keys, services.event_publisher, services.settings, app.customer, app.user, read
    )
    if services.event_publisher.is_expected(app.customer):
        request.announce(worker_wakeup.DELIVER)
    receipts = [
        {"box": box_name(*box), "upTo": up_to, "receipt": base64url(receipt)}
        for box, (up_to, receipt) in taken.receipts.items()
    ]
    refused = [{"index": index, "reason": reason} for index, reason in sorted(taken.refused.items())]
    return answer({"receipts": receipts, "refused": refused})


def time_limits(settings: Settings, app: AppUser, box: str) -> tuple[Bucket, Bucket]:
    """The limits on times for a box, per user and in total.

    A box may write an entry for each time that it accepts, and its log is bounded. Unlimited times would push out
    openings. The limit per user is smaller, so no user takes all times of a box from the others.
    """
    rate, burst = settings.box_times_per_hour_per_user, settings.box_time_burst_per_user
    of_user = RateLimit("box-times-of-user", rate, burst, HOUR), f"{app.customer} {box} {app.subject}"
    rate, burst = settings.box_times_per_hour, settings.box_time_burst
    return of_user, (RateLimit("box-times", rate, burst, HOUR), f"{app.customer} {box}")


@endpoints.post(
    "/sdk/time",
    Doc(
        "getSignedTime",
        "Get the time, signed for a box and its nonce",
        "For a box whose clock is uncertain. The message is valid for the name of the box and its nonce, which is"
        " valid for ten seconds. The caller must have a key of the box.",
    ),
    body=JsonBody(TypeAdapter(TimeRequest), TIME),
    responses=Responses(
        200,
        SignedTime,
        errors={
            400: (invalid_member(TIME, "box"), invalid_member(TIME, "nonce")),
            404: (NO_KEYS,),
            429: (RATE_LIMITED,),
        },
    ),
    is_idempotent=False,
)
async def time(request: Request, body: TimeRequest, services: OfflineKeyServices) -> Response:
    app = app_of(request)
    if len(body.nonce) != NONCE:
        hint = f"The nonce must have {NONCE} bytes, but has {len(body.nonce)}."
        raise BadRequest(invalid_member(TIME, "nonce", hint=hint), errors=[FieldError("wrong-form", hint, "/nonce")])
    signer = await request.db.fetchval(TELLS_TIME, app.customer, app.subject, body.box, now())
    if signer is None:
        raise NotFound(NO_KEYS)
    await take_each(request.db, *time_limits(services.settings, app, body.box))
    signed = time_for(
        app.customer, body.box, body.nonce, await services.issuing_keys.service(request.db, app.customer, signer)
    )
    return answer({"time": base64url(signed)}, headers=UNCOPIED)
