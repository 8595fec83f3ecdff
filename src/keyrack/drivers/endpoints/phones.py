"""The driver's phones, and the report of lost ones. Extensions of the spec."""

from __future__ import annotations

from typing import Annotated, LiteralString

from pydantic import Field, TypeAdapter

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, JsonBody, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, driver_of
from keyrack.api.schema.request_body import Id, Int32, Moment, StrictBody, format_timestamp
from keyrack.core.base64url import Octets, base64url
from keyrack.core.errors import NotFound
from keyrack.db.change_notifier import Topics
from keyrack.drivers import lost_phones, sessions
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE
from keyrack.offline_keys.endpoints.user_devices import NO_DEVICE

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

MAX_PHONES = 100  # in one report, or in the list
USERS: Topics = frozenset(("users",))
PHONES: LiteralString = """
select customer_id, device_id, name, registered_at, is_approved from app_device
where customer_id = any($1) and user_id = $2 order by customer_id, registered_at, device_id limit $3
"""


class DriverPhone(StrictBody):
    """A phone of the driver. `id` is the thumbprint of its key, and differs in each customer."""

    id: Octets
    customer_id: Int32
    name: str
    registered: Moment
    is_approved: bool


class LostPhone(StrictBody):
    customer_id: Id
    id: Octets


class LossReport(StrictBody):
    """The lost phones, and whether all other sessions of the driver end."""

    phones: Annotated[list[LostPhone], Field(max_length=MAX_PHONES)]
    end_sessions: bool = True


class StillOpenableCar(StrictBody):
    """A car that the lost phones may still open."""

    customer_id: Int32
    car_id: Int32
    name: str
    opens_until: Moment
    can_power_loss_extend: bool


class LossOutcome(StrictBody):
    cars: list[StillOpenableCar]


@endpoints.get(
    "/drive/api/phones",
    Doc(
        "listPhonesOfDriver", "List the driver's phones",
        "Returns the phones that get keys in the customers of the session, at most 100.",
    ),
    responses=Responses(200, list[DriverPhone]),
)  # fmt: skip
async def phones(request: Request) -> Response:
    driver = driver_of(request)
    rows = await request.db.fetch(PHONES, list(driver.customers), driver.user, MAX_PHONES)
    return answer(
        [
            {
                "id": base64url(row["device_id"]), "customerId": row["customer_id"], "name": row["name"],
                "registered": format_timestamp(row["registered_at"]), "isApproved": row["is_approved"],
            }
            for row in rows
        ],
        headers=NO_STORE,
    )  # fmt: skip


@endpoints.post(
    "/drive/api/lost",
    Doc(
        "reportLostPhonesOfDriver",
        "Report lost phones",
        "Removes the phones and revokes their keys. With `endSessions`, all other sessions of the driver end. Returns"
        " the cars that the phones may still open: a box accepts a revoked key until it has a newer status list. The"
        " same report again returns the cars again.",
    ),
    body=JsonBody(TypeAdapter(LossReport), "report lost phones"),
    responses=Responses(200, LossOutcome, errors={404: (NO_DEVICE,)}),
    is_idempotent=False,
)
async def lost(request: Request, body: LossReport, services: DriverServices) -> Response:
    driver = driver_of(request)
    by_customer: dict[int, set[bytes]] = {}
    for phone in body.phones:
        by_customer.setdefault(phone.customer_id, set()).add(phone.id)
    if not driver.customers.issuperset(by_customer):
        raise NotFound(NO_DEVICE)
    cars: list[dict[str, object]] = []
    async with request.db.transaction() as connection:
        for customer, devices in sorted(by_customer.items()):  # in one order, so that reports do not block each other
            openable = await lost_phones.report(connection, customer, driver.user, devices)
            cars += [{"customerId": customer} | lost_phones.shown(car) for car in openable]
        if body.end_sessions:
            await sessions.end_others(connection, driver)
    for customer in by_customer:
        services.notify(customer, USERS)
    return answer({"cars": cars}, headers=NO_STORE)
