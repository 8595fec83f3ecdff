"""The export of a driver's own data. An extension of the spec."""

from __future__ import annotations

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, driver_of
from keyrack.api.schema.request_body import Body, Int32
from keyrack.drivers import data_export
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

HEADERS = {**NO_STORE, "Content-Disposition": 'attachment; filename="keyrack-drive.json"'}


class ExportedAccount(Body):
    """The person and the account. Neither passwords nor keys are exported."""

    id: Int32
    email_address: str
    first_name: str | None
    last_name: str | None
    language: str | None
    has_proven_mailbox: bool
    has_password: bool
    created: str


class ExportedSession(Body):
    id: int
    device: str
    methods: list[str]
    created: str
    seen: str
    is_current: bool


class ExportedPasskey(Body):
    id: Int32
    name: str
    is_backed_up: bool
    is_refused: bool
    created: str
    last_used: str | None


class ExportedPhone(Body):
    id: str
    name: str
    claimed_protection: str
    registered: str
    is_approved: bool


class ExportedAssignment(Body):
    id: Int32
    car_id: Int32
    start: str
    end: str | None


class ExportedRequest(Body):
    """A request of the driver. `reason` is the comment of the decision."""

    id: Int32
    assignment_id: Int32
    car_id: Int32
    kind: str
    end: str | None
    comment: str | None
    state: str
    reason: str | None
    created: str
    decided: str | None


class ExportedEvent(Body):
    """An opening or another event of the driver."""

    id: Int32
    car_id: Int32
    type: str
    date_time: str
    utc_date_time: str
    user_agent: str
    latitude: float | None
    longitude: float | None


class ExportedCustomer(Body):
    """The data that one customer stores about the driver."""

    id: Int32
    name: str
    granted: str | None
    phones: list[ExportedPhone]
    assignments: list[ExportedAssignment]
    requests: list[ExportedRequest]
    events: list[ExportedEvent]


class DriverExport(Body):
    account: ExportedAccount
    sessions: list[ExportedSession]
    passkeys: list[ExportedPasskey]
    customers: list[ExportedCustomer]


@endpoints.get(
    "/drive/api/export",
    Doc(
        "exportDriver",
        "Export the driver's data",
        "Returns what is stored about the account, and about the driver in each customer that the session sees. A"
        " session of a provider gets no passkeys, and only the sessions of its customer. A response that breaks off is"
        " incomplete.",
    ),
    responses=Responses(
        200, DriverExport, headers={"Content-Disposition": "Asks browsers to store the document as a file."}
    ),
)
async def export(request: Request) -> Response:
    return Response(200, headers=HEADERS, parts=data_export.written(request.db, driver_of(request)))
