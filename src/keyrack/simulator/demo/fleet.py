"""Writes one fleet of the demo: cars, people, groups, boxes and IQ units, services, assignments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random
from typing import LiteralString

from keyrack.db.connection import Connection
from keyrack.fleet.person_lookup import PERSONS
from keyrack.simulator.demo.driver import CARS
from keyrack.simulator.demo.people import FLEETS, DemoCar, DemoFleet, address

VIN_CHARACTERS = "ABCDEFGHJKLMNPRSTUVWXYZ0123456789"
TERMINATED = 14  # the car whose box has a terminated service
ENDING = 3  # the contract that ends within a month
WITHOUT_SERVICE = "SPARE-BOX-3"

INSERT_CUSTOMER: LiteralString = "insert into customer (name) values ($1) returning customer_id"
INSERT_CARS: LiteralString = """
insert into car (customer_id, name, description, vin, license_plate, brand, model)
select $1, name, description, vin, plate, brand, model
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) with ordinality
  as c (name, description, vin, plate, brand, model, position) order by position
returning name, car_id
"""
INSERT_PEOPLE: LiteralString = """
insert into person (email_address, address_form, first_name, last_name, type)
select email, email, first_name, last_name, 'Normal'
from unnest($1::text[], $2::text[], $3::text[]) with ordinality as p (email, first_name, last_name, position)
order by position on conflict do nothing
"""
INSERT_MEMBERS: LiteralString = """
with m as (
  select {id} as user_id, email from unnest($2::text[]) email
), written as (insert into customer_user (customer_id, user_id) select $1, user_id from m)
select email, user_id from m
""".replace("{id}", PERSONS.key_by_form("email"))
INSERT_PRODUCTS: LiteralString = """
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
select $1, unique_id, serial_number, sap_number, kind, car_id
from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::integer[]) with ordinality
  as p (unique_id, serial_number, sap_number, kind, car_id, position) order by position
returning serial_number, product_id, kind
"""
INSERT_SERVICES: LiteralString = """
insert into service (customer_id, name, product_id, is_terminated, terminated_at, termination_cause)
select $1, name, product_id, cause is not null, case when cause is not null then $5::timestamptz end, cause
from unnest($2::text[], $3::integer[], $4::text[]) with ordinality as s (name, product_id, cause, position)
order by position returning name, service_id
"""
INSERT_CONTRACTS: LiteralString = """
insert into contract (customer_id, service_id, order_number, document_number, order_position, starts_at, ends_at,
                      term_of_contract, term_of_notice, unit_of_notice)
select $1, service_id, '45001' || lpad(position::text, 5, '0'), 'D-' || 70000 + position, position * 10,
       starts_at, starts_at + interval '3 years', 36, 3, 'Month'
from unnest($2::integer[], $3::timestamptz[]) with ordinality as s (service_id, starts_at, position)
"""
INSERT_GROUPS: LiteralString = """
insert into fleet_group (customer_id, name)
select $1, name from unnest($2::text[]) with ordinality as g (name, position) order by position
returning name, group_id
"""
LINK_CARS: LiteralString = "insert into group_car (customer_id, group_id, car_id) select $1, $2, unnest($3::integer[])"
LINK_PEOPLE: LiteralString = (
    "insert into group_user (customer_id, group_id, user_id) select $1, $2, unnest($3::integer[])"
)
LINK_PRODUCTS: LiteralString = """
with p as (
  insert into group_product (customer_id, group_id, product_id)
  select $1, $2, product_id from product where customer_id = $1 and car_id = any($3::integer[]) returning product_id
)
insert into group_service (customer_id, group_id, service_id)
select $1, $2, service_id from service s join p using (product_id) where s.customer_id = $1
"""
INSERT_ASSIGNMENTS: LiteralString = """
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime)
select $1, car_id, user_id, starts_at, ends_at, lifetime
from unnest($2::integer[], $3::integer[], $4::timestamptz[], $5::timestamptz[], $6::integer[]) with ordinality
  as a (car_id, user_id, starts_at, ends_at, lifetime, position) order by position
"""


@dataclass(frozen=True, slots=True)
class WrittenFleet:
    """The rows of a written fleet."""

    customer: int
    cars: list[int]
    iq_cars: dict[int, tuple[float, float]]  # the area of each
    drivers: list[tuple[int, int]]  # car and user of each assignment


async def write_fleet(connection: Connection, fleet: DemoFleet, today: datetime, random: Random) -> WrittenFleet:
    """Write a fleet with its state on the day `today`."""
    customer = await connection.fetchval(INSERT_CUSTOMER, fleet.name)
    cars = await _write_cars(connection, customer, fleet.cars, random)
    users = await _write_people(connection, customer, fleet)
    await _write_products(connection, customer, fleet, cars, today, random)
    await _write_groups(connection, customer, fleet, cars, users)
    boxes = [cars[i] for i, car in enumerate(fleet.cars) if "B" in car.units and i != TERMINATED]
    of_driver = {cars[i] for i, car in enumerate(fleet.cars) if car.name in CARS}
    drivers = await _write_assignments(connection, customer, boxes, users, today, random, of_driver)
    towns = {id: car.town or fleet.town for id, car in zip(cars, fleet.cars, strict=True) if "Q" in car.units}
    return WrittenFleet(customer, cars, towns, drivers)


async def _write_cars(connection: Connection, customer: int, cars: tuple[DemoCar, ...], random: Random) -> list[int]:
    vins = [car.maker + "".join(random.choices(VIN_CHARACTERS, k=8)) + f"{random.randrange(10**6):06}" for car in cars]
    rows = await connection.fetch(
        INSERT_CARS,
        customer,
        [car.name for car in cars],
        [car.description for car in cars],
        vins,
        [car.plate for car in cars],
        [car.brand for car in cars],
        [car.model for car in cars],
    )
    ids = {row["name"]: row["car_id"] for row in rows}
    return [ids[car.name] for car in cars]


async def _write_people(connection: Connection, customer: int, fleet: DemoFleet) -> list[int]:
    emails = [address(person) for person in fleet.people]
    await connection.execute(INSERT_PEOPLE, emails, [first for first, _ in fleet.people], [p[1] for p in fleet.people])
    ids = {row["email"]: row["user_id"] for row in await connection.fetch(INSERT_MEMBERS, customer, emails)}
    return [ids[email] for email in emails]


async def _write_products(
    connection: Connection, customer: int, fleet: DemoFleet, cars: list[int], today: datetime, random: Random
) -> None:
    """Write boxes and IQ units with services and contracts; one service has ended, one product has no service."""
    number = FLEETS.index(fleet) + 1  # independent of the customer's id, because documents quote these serial numbers
    installed = [
        (f"{'BX' if unit == 'B' else 'IQ'}{number:02}{i + 1:04}", "Box" if unit == "B" else "IQ", i)
        for i, car in enumerate(fleet.cars)
        for unit in car.units
    ]
    products = [*installed, *((serial, kind, None) for serial, kind in fleet.spare.items())]
    rows = await connection.fetch(
        INSERT_PRODUCTS,
        customer,
        [f"{random.getrandbits(64):016X}" for _ in products],
        [serial for serial, _, _ in products],
        ["4100200" if kind == "IQ" else f"41001{random.randrange(1, 6)}0" for _, kind, _ in products],
        [kind for _, kind, _ in products],
        [None if i is None else cars[i] for _, _, i in products],
    )
    ids = {row["serial_number"]: row["product_id"] for row in rows}
    names: list[str] = []
    paired: list[int | None] = []
    causes: list[str | None] = []
    for serial, kind, i in products:
        if serial != WITHOUT_SERVICE:
            names.append(f"{'Key box' if kind == 'Box' else 'Telematics'} {serial}")
            paired.append(ids[serial])
            causes.append("Cancelled by the customer" if i == TERMINATED and kind == "Box" else None)
    names.append("Key box, not yet paired")
    paired.append(None)
    causes.append(None)
    ended = today - timedelta(days=20)
    services = await connection.fetch(INSERT_SERVICES, customer, names, paired, causes, ended)
    by_name = {row["name"]: row["service_id"] for row in services}
    contracted = [by_name[name] for name in names[:-1]]
    begun = [today - timedelta(days=3 * 365 - 20 if n == ENDING else 400) for n in range(len(contracted))]
    await connection.execute(INSERT_CONTRACTS, customer, contracted, begun)


async def _write_groups(
    connection: Connection, customer: int, fleet: DemoFleet, cars: list[int], users: list[int]
) -> None:
    rows = await connection.fetch(INSERT_GROUPS, customer, list(fleet.groups))
    for row in rows:
        of_cars, of_people = fleet.groups[row["name"]]
        members = [cars[i] for i in of_cars]
        await connection.execute(LINK_CARS, customer, row["group_id"], members)
        await connection.execute(LINK_PEOPLE, customer, row["group_id"], [users[i] for i in of_people])
        await connection.execute(LINK_PRODUCTS, customer, row["group_id"], members)


async def _write_assignments(
    connection: Connection,
    customer: int,
    cars: list[int],
    users: list[int],
    today: datetime,
    random: Random,
    of_driver: set[int],
) -> list[tuple[int, int]]:
    """Write past, current, future and unlimited assignments.

    The demo driver's cars get only past ones.

    Returns the car and user of each that has started.
    """
    hour = timedelta(hours=1)
    rows: list[tuple[int, int, datetime, datetime | None, int]] = []
    for n, car in enumerate(cars):
        drivers = random.sample(users, 4)
        rows.append((car, drivers[0], today - 240 * hour + n * hour, today - 200 * hour + n * hour, 604_800))
        rows.append((car, drivers[1], today - 30 * hour, today + (36 + n) * hour, 604_800))
        if n % 2 == 0:
            rows.append((car, drivers[2], today + (80 + n) * hour, today + (96 + n) * hour, 604_800))
        if n % 3 == 0:
            rows.append((car, drivers[3], today - 90 * 24 * hour, None, 1_209_600))
    rows = [row for row in rows if row[0] not in of_driver or (row[3] is not None and row[3] < today)]
    await connection.execute(
        INSERT_ASSIGNMENTS,
        customer,
        [row[0] for row in rows],
        [row[1] for row in rows],
        [row[2] for row in rows],
        [row[3] for row in rows],
        [row[4] for row in rows],
    )
    return [(row[0], row[1]) for row in rows if row[2] < today]
