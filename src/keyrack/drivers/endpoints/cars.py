"""The driver's cars: those that are assigned now, and the next ones. An extension of the spec."""

from __future__ import annotations

from typing import Any, Literal, LiteralString

from keyrack.api.auth_schemes import DriverAuth
from keyrack.api.endpoint import Doc, Responses
from keyrack.api.endpoint_registry import Endpoints
from keyrack.api.exchange import Request, Response, answer, driver_of
from keyrack.api.schema.request_body import Int32, Moment, StrictBody, format_timestamp
from keyrack.db.connection import Row
from keyrack.drivers.endpoints.session import TAG
from keyrack.drivers.services import DriverServices
from keyrack.drivers.sign_in import NO_STORE
from keyrack.offline_keys.issuing_keys import box_name
from keyrack.offline_keys.opening_deadline import OPENS_UNTIL, WITH_EPOCH

endpoints = Endpoints[DriverServices](TAG, DriverAuth(), is_extension=True, is_preview=True)

MAX_CARS = 100
_KEYS: LiteralString = (
    ("select max(" + OPENS_UNTIL + ") as until from " + WITH_EPOCH + " where k.customer_id = a.customer_id"
     " and k.user_id = a.user_id and k.assignment_id = a.assignment_id and k.is_placed and k.revoked_at is null")
    .replace("{t}_e", "e")
    .replace("{t}", "k")
)  # fmt: skip
# The place of a car that another driver has now is the place of that driver, so it is not returned
CARS: LiteralString = (
    """
select a.assignment_id, a.customer_id, a.car_id, c.name, c.license_plate, c.brand, c.model, a.starts_at, a.ends_at,
  a.starts_at <= now() as is_now, o.until is not null as is_taken, nullif(o.until, 'infinity') as taken_until,
  case when f.driver_shows_place and a.starts_at <= now() and o.until is null then s.latitude end as latitude,
  s.longitude, s.position_at, b.product_id, b_e.epoch, k.until as opens_until, f.driver_phone
from assignment a join customer f using (customer_id) join car c using (customer_id, car_id)
  left join product b on b.customer_id = a.customer_id and b.car_id = a.car_id and b.kind = 'Box'
  left join lateral (select max(n.epoch) as epoch from box_epoch n
    where n.customer_id = b.customer_id and n.product_id = b.product_id and not n.is_pending) b_e on true
  left join product i on i.customer_id = a.customer_id and i.car_id = a.car_id and i.kind = 'IQ'
  left join car_state s on s.customer_id = i.customer_id and s.car_id = i.car_id and s.product_id = i.product_id
  left join lateral (select max(coalesce(t.ends_at, 'infinity')) as until from assignment t
    where t.customer_id = a.customer_id and t.car_id = a.car_id and t.user_id is distinct from a.user_id
      and t.starts_at <= now() and coalesce(t.ends_at, 'infinity') > now()) o on true
  left join lateral ("""
    + _KEYS
    + """) k on true
where a.customer_id = any($1) and a.user_id = $2 and coalesce(a.ends_at, 'infinity') > now()
order by is_now desc, a.starts_at, a.assignment_id limit $3
"""
)


class CarPlace(StrictBody):
    """The last reported place of the car."""

    latitude: float
    longitude: float
    time: Moment


class DriverCar(StrictBody):
    """An assignment of the driver, with its car.

    `isTaken`: another driver has the car now, until `takenUntil`, which is null without an end. `opensUntil`: the last
    moment at which the box accepts a key that the driver has.
    """

    assignment_id: Int32
    customer_id: Int32
    car_id: Int32
    name: str
    license_plate: str | None
    brand: str | None
    model: str | None
    start: Moment
    end: Moment | None
    state: Literal["now", "next"]
    is_taken: bool
    taken_until: Moment | None
    place: CarPlace | None
    product_id: Int32 | None
    box_name: str | None
    opens_until: Moment | None
    fleet_phone: str | None


@endpoints.get(
    "/drive/api/cars",
    Doc(
        "listCarsOfDriver",
        "List the driver's cars",
        "Returns the assignments of the driver that run or come, in all customers of the session: running ones first,"
        " then by their start, at most 100. `place` needs the customer's consent. It is null before the start"
        " and while another driver has the car.",
    ),
    responses=Responses(200, list[DriverCar]),
)
async def cars(request: Request) -> Response:
    driver = driver_of(request)
    rows = await request.db.fetch(CARS, list(driver.customers), driver.user, MAX_CARS)
    return answer([_shown(row) for row in rows], headers=NO_STORE)


def _shown(row: Row) -> dict[str, Any]:
    has_box = row["product_id"] is not None and row["epoch"] is not None
    return {
        "assignmentId": row["assignment_id"], "customerId": row["customer_id"], "carId": row["car_id"],
        "name": row["name"], "licensePlate": row["license_plate"], "brand": row["brand"], "model": row["model"],
        "start": format_timestamp(row["starts_at"]), "end": row["ends_at"] and format_timestamp(row["ends_at"]),
        "state": "now" if row["is_now"] else "next",
        "isTaken": row["is_taken"], "takenUntil": row["taken_until"] and format_timestamp(row["taken_until"]),
        "place": _place(row),
        "productId": row["product_id"], "boxName": box_name(row["product_id"], row["epoch"]) if has_box else None,
        "opensUntil": row["opens_until"] and format_timestamp(row["opens_until"]), "fleetPhone": row["driver_phone"],
    }  # fmt: skip


def _place(row: Row) -> dict[str, Any] | None:
    if row["latitude"] is None or row["longitude"] is None:
        return None
    return {"latitude": row["latitude"], "longitude": row["longitude"], "time": format_timestamp(row["position_at"])}
