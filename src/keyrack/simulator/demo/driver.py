"""The demo's driver, with an account of the app.

The driver has a car now and one tomorrow. Another driver has the third car. Each start of the demo renews these
assignments.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from typing import LiteralString

from keyrack.auth.password_hashing import Passwords
from keyrack.db.connection import Connection
from keyrack.fleet.person_lookup import PERSONS
from keyrack.simulator.demo.people import HARBOUR, address

DRIVER = ("Ida", "Torvik")
OTHER_DRIVER = HARBOUR.people[1]
NOW, TOMORROW, OF_OTHERS = CARS = ("Pool car 5", "Pool car 6", "City 3")  # their boxes are used by the app alone
DURATION = timedelta(days=7)
LIFETIME = 604_800  # seconds of a key

INSERT_PERSON: LiteralString = """
insert into person (email_address, address_form, first_name, last_name, type) values ($1, $1, $2, $3, 'Normal')
on conflict do nothing
"""
USER: LiteralString = "select {id}".replace("{id}", PERSONS.key_by_form("$1"))
INSERT_MEMBER: LiteralString = """
insert into customer_user (customer_id, user_id) values ($1, $2) on conflict do nothing
"""
PUT_ACCOUNT: LiteralString = """
insert into driver_account (user_id, password_hash) values ($1, $2)
on conflict (user_id) do update set password_hash = excluded.password_hash
"""
PUT_ACCESS: LiteralString = """
insert into driver_access (customer_id, user_id) values ($1, $2) on conflict do nothing
"""
CAR: LiteralString = "select min(car_id) from car where customer_id = $1 and name = $2"
EXTEND: LiteralString = """
update assignment set ends_at = greatest(ends_at, $5)
where customer_id = $1 and car_id = $2 and user_id = $3 and starts_at <= $4 and ends_at > now()
returning true
"""
INSERT: LiteralString = """
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime) values ($1, $2, $3, $4, $5, $6)
"""
IS_COMING: LiteralString = """
select exists (select from assignment
  where customer_id = $1 and car_id = $2 and user_id = $3 and starts_at > now())
"""


async def write_driver(connection: Connection, customer: int, password: str | None) -> tuple[str, str]:
    """Write the driver's account and assignments. Returns e-mail address and password.

    The password stays the same, also after the driver has chosen another one in the app.
    """
    password = password or secrets.token_urlsafe(9)
    email = address(DRIVER)
    await connection.execute(INSERT_PERSON, email, *DRIVER)
    user = await connection.fetchval(USER, email)
    await connection.execute(INSERT_MEMBER, customer, user)
    await connection.execute(PUT_ACCOUNT, user, await Passwords().hash(password))
    await connection.execute(PUT_ACCESS, customer, user)
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    other = await connection.fetchval(USER, address(OTHER_DRIVER))
    await _assign(connection, customer, NOW, user, hour)
    await _assign(connection, customer, OF_OTHERS, other, hour)
    await _assign_tomorrow(connection, customer, user, hour)
    return email, password


async def _assign(connection: Connection, customer: int, car_name: str, user: int, hour: datetime) -> None:
    """Extend the assignment that runs now, or write one."""
    car = await connection.fetchval(CAR, customer, car_name)
    if car is None or await connection.fetchval(EXTEND, customer, car, user, hour, hour + DURATION):
        return  # a user of the demo may have deleted the car
    await connection.execute(INSERT, customer, car, user, hour, hour + DURATION, LIFETIME)


async def _assign_tomorrow(connection: Connection, customer: int, user: int, hour: datetime) -> None:
    car = await connection.fetchval(CAR, customer, TOMORROW)
    if car is None or await connection.fetchval(IS_COMING, customer, car, user):
        return
    start = hour + timedelta(days=1)
    await connection.execute(INSERT, customer, car, user, start, start + timedelta(hours=4), LIFETIME)
