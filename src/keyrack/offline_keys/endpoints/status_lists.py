"""Status lists of boxes: which of their keys are revoked. An extension of the spec."""

from __future__ import annotations

from dataclasses import replace
from typing import LiteralString

from keyrack.api import conditional_requests
from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import TAGGED, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, with_vary
from keyrack.api.permissions import Permission
from keyrack.api.query_parameters import QueryParameter, parse_parameters, whole_number
from keyrack.api.schema.request_body import Body, Id
from keyrack.core.base64url import Octets, base64url
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import NotFound
from keyrack.db.connection import Row
from keyrack.fleet.endpoints.products import NO_PRODUCT
from keyrack.offline_keys import status_lists
from keyrack.offline_keys.endpoints.boxes import NO_BOX, NOT_ENROLLED, TAG, check_box
from keyrack.offline_keys.issuing_keys import IssuingKeySigners
from keyrack.offline_keys.services import OfflineKeyServices
from keyrack.offline_keys.status_lists import StatusListId, place_of
from keyrack.offline_keys.timestamps import now

endpoints = Endpoints[OfflineKeyServices](
    TAG, CustomerAuth(Permission.BOXES_READ, is_group_scoped=True), is_extension=True, is_preview=True
)

NO_LIST = ErrorCode(
    "status-list-not-found",
    "The box has no such status list.",
    "Leave out `epoch` and `generation` for the newest list; each key names its own.",
)
LIST_TYPE = "application/statuslist+cwt"

# The requested list, or the growing one of the epoch in force rather than of a pending epoch
LIST: LiteralString = """
select g.epoch, g.generation, g.uri, g.is_outdated, g.listed_at, g.list,
  exists (select from key_authority where customer_id = $1) as is_signed
from status_generation g join box_epoch e using (customer_id, product_id, epoch)
where g.customer_id = $1 and g.product_id = $2 and e.discarded_at is null and ($3::integer is null or g.epoch = $3)
  and ($4::integer is null or g.generation = $4)
order by e.is_pending, g.epoch desc, g.generation desc limit 1
"""


class BoxStatusList(Body):
    uri: str
    epoch: Id
    generation: Id
    status_list: Octets


NUMBER = {"type": "integer", "format": "int32", "minimum": 1}
EPOCH = QueryParameter("epoch", whole_number, "The epoch of the box. Default: the epoch in force.", NUMBER)
GENERATION = QueryParameter("generation", whole_number, "The generation of the list. Default: the newest one.", NUMBER)


@endpoints.get(
    "/boxes/{productId}/status",
    Doc(
        "getStatusList",
        "Get the status list of a box",
        "Returns the revoked keys of the box as a Token Status List (CWT). The list is signed again if a key was"
        " revoked since. With `Accept: application/statuslist+cwt`, returns only its bytes.",
    ),
    responses=Responses(
        200,
        BoxStatusList,
        headers=TAGGED,
        errors={404: (NO_PRODUCT, NOT_ENROLLED, NO_LIST), 409: (NO_BOX,)},
        alternative=LIST_TYPE,
    ),
    query_parameters=(EPOCH, GENERATION),
    is_primary_only=True,
)
async def status(request: Request, services: OfflineKeyServices) -> Response:
    (product,) = request.ids
    parameters = parse_parameters(request.query, (EPOCH, GENERATION))
    await check_box(request.db, request.customer, product)
    epoch, generation = parameters.get(EPOCH.name), parameters.get(GENERATION.name)
    row = await request.db.fetchrow(LIST, request.customer, product, epoch, generation)
    if row is None or not row["is_signed"]:
        raise NotFound(NO_LIST if parameters else NOT_ENROLLED)
    signed = (
        row["list"]
        if not status_lists.is_due(row, now())
        else await _signed(request, services.issuing_keys, product, row)
    )
    fields = {
        "uri": row["uri"], "epoch": row["epoch"], "generation": row["generation"], "statusList": base64url(signed),
    }  # fmt: skip
    body = signed if request.also else answer(fields).body or b""
    response = conditional_requests.created_response(request, body)
    media_type = LIST_TYPE if request.also else response.media_type
    return replace(response, headers=with_vary(response.headers, "Accept"), media_type=media_type)


async def _signed(request: Request, signers: IssuingKeySigners, product: int, row: Row) -> bytes:
    """The list of the row, signed again if that is still due.

    Raises `NotFound` if the list or the authority was deleted meanwhile.
    """
    place = StatusListId(product, row["epoch"], row["generation"])
    async with request.db.transaction() as connection:
        signer = await signers.newest(connection, request.customer)
        rows = await status_lists.lock(connection, request.customer, [(product, row["epoch"])])
        own = [candidate for candidate in rows if place_of(candidate) == place]
        if signer is None or not own:
            raise NotFound(NO_LIST)
        return (await status_lists.renew(connection, request.customer, own, signer, now()))[place]
