"""Proofs of the change log: its newest checkpoint, and the inclusion of one change. An extension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from keyrack.api import conditional_requests
from keyrack.api.endpoint import TAGGED, Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, with_vary
from keyrack.api.path_ids import path_number
from keyrack.api.query_parameters import INVALID, QueryParameter, parse_parameters
from keyrack.api.schema.request_body import Body, Moment
from keyrack.api.services import ReadServices
from keyrack.changelog import feed
from keyrack.changelog.endpoints.changes import TAG
from keyrack.changelog.transparency import checkpoints, proof_service
from keyrack.changelog.transparency.checkpoints import CreatedCheckpoint
from keyrack.changelog.transparency.proof_service import NoTile
from keyrack.core.error_codes import ErrorCode
from keyrack.core.errors import PLAIN_TEXT, Conflict, NotFound

endpoints = Endpoints[ReadServices](TAG, "changes", is_extension=True)

NO_CHECKPOINT = ErrorCode(
    "no-checkpoint",
    "The change log has no checkpoint yet.",
    "Retry in some minutes; if a change still gets no checkpoint, ask the operator to check the signing key.",
)
NO_SUCH_SIZE = ErrorCode(
    "checkpoint-ahead",
    "The newest checkpoint covers {size} changes, fewer than the requested {since}.",
    "If you have a checkpoint of that size, keep it and report it to the operator: the log has lost changes.",
)
NO_CHANGE = ErrorCode(
    "change-not-found",
    "Unable to find a change for the given changeId.",
    "Use the id of a change that `GET /changes` returns.",
)
NOT_PROVEN = ErrorCode(
    "change-not-proven",
    "The change is newer than the newest checkpoint, which covers {size} changes.",
    "Retry in some minutes, when there is a newer checkpoint.",
)
ALTERED = ErrorCode(
    "log-altered",
    "The stored change log does not match the signed checkpoint.",
    "Keep your checkpoints, and report the error to the operator: `keyrack audit verify` shows what was altered.",
)


def a_size(text: str) -> int:
    """Parse the size of a checkpoint. Raises `ValueError`."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise ValueError("The value must be the size of an older checkpoint.")
    return int(text)


SINCE = QueryParameter(
    "since",
    a_size,
    "The size of an older checkpoint. `consistency` proves that the log begins with the log of that checkpoint.",
    {"type": "integer", "format": "int64", "minimum": 0},
)


class ChangeCheckpoint(Body):
    """A signed checkpoint of the log. Verifiers check `note`."""

    customer_id: int
    epoch: str
    size: int
    root: str
    time: Moment
    note: str
    consistency: list[str] | None


class ChangeProof(Body):
    """Proof that a change is in the log: its record is leaf `index` of the checkpoint's tree."""

    id: int
    epoch: str
    index: int
    record: str
    inclusion: list[str]
    checkpoint: ChangeCheckpoint


@endpoints.get(
    "/changes/checkpoint",
    Doc(
        "getCheckpoint",
        "Get the newest checkpoint of the change log",
        "Returns the recent state of the change log, signed as a C2SP tlog-checkpoint. Store it where no"
        " administrator of the server can change it. With `Accept: text/plain`, returns only the note. With `since`,"
        " the response proves that the log begins with the log of an older checkpoint.",
    ),
    responses=Responses(
        200,
        ChangeCheckpoint,
        headers=TAGGED,
        errors={400: (INVALID,), 404: (NO_CHECKPOINT, NO_SUCH_SIZE), 409: (ALTERED,)},
        alternative=PLAIN_TEXT,
    ),
    query_parameters=(SINCE,),
    is_primary_only=True,  # as for GET /changes: proven changes survive the loss of the primary
)
async def checkpoint(request: Request) -> Response:
    since: int | None = parse_parameters(request.query, (SINCE,)).get(SINCE.name)
    made = await _newest(request)
    proof: list[bytes] | None = None
    if since is not None:
        if since > made.size:
            raise NotFound(NO_SUCH_SIZE.format(size=made.size, since=since))
        try:
            proof = await proof_service.consistency(request.db, request.customer, made.epoch, made.size, since)
        except NoTile:
            raise Conflict(ALTERED) from None
    content = answer(_as_json(made, proof)) if not request.also else Response(200, made.note.encode())
    response = conditional_requests.created_response(request, content.body or b"")
    media_type = PLAIN_TEXT if request.also else response.media_type
    return replace(response, headers=with_vary(response.headers, "Accept"), media_type=media_type)


@endpoints.get(
    "/changes/{changeId}/proof",
    Doc(
        "getChangeProof",
        "Get the proof that a change is in the log",
        "Returns the record of the change, and the hashes from it to the root of the newest checkpoint. With them, a"
        " client can verify the change without trusting the server. A change that is newer than the newest checkpoint"
        " has no proof yet.",
    ),
    responses=Responses(
        200,
        ChangeProof,
        headers=TAGGED,
        errors={404: (NO_CHANGE, NOT_PROVEN, NO_CHECKPOINT), 409: (ALTERED,), 410: (feed.CURSOR_GONE,)},
    ),
    converters={"changeId": path_number},
    is_primary_only=True,
)
async def proof(request: Request) -> Response:
    (number,) = request.ids
    extent = await feed.load_extent(request.db, request.customer)
    if not 0 < number <= extent.newest:
        raise NotFound(NO_CHANGE)
    extent.check(number - 1, None)
    made = await _newest(request)
    index = number - extent.first
    if index >= made.size:
        raise NotFound(NOT_PROVEN.format(size=made.size))
    record = await proof_service.record_of(request.db, request.customer, number)
    shown = list[bytes]()
    try:
        if record is not None and index >= 0:
            shown = await proof_service.inclusion(request.db, request.customer, made.epoch, made.size, index)
    except NoTile:
        record = None
    if record is None or not proof_service.holds(made.root, made.size, record, index, shown):
        # A month that was dropped meanwhile, or a new epoch, is no alarm
        (await feed.load_extent(request.db, request.customer)).check(number - 1, extent.epoch)
        raise Conflict(ALTERED)
    document = {
        "id": number, "epoch": str(made.epoch), "index": index, "record": proof_service.text(record),
        "inclusion": proof_service.texts(shown),
        "checkpoint": _as_json(made, None),
    }  # fmt: skip
    return conditional_requests.created_response(request, answer(document).body or b"")


async def _newest(request: Request) -> CreatedCheckpoint:
    """The newest checkpoint. Raises `NotFound`."""
    made = await checkpoints.newest(request.db, request.customer)
    if made is None:
        raise NotFound(NO_CHECKPOINT)
    return made


def _as_json(made: CreatedCheckpoint, consistency: Sequence[bytes] | None) -> dict[str, object]:
    return made.as_json() | {"consistency": None if consistency is None else proof_service.texts(consistency)}
