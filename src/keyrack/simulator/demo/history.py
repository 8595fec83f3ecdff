"""The history of the demo: events with the API's numbering, and telemetry of IQ units."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, LiteralString

from keyrack.db.connection import Connection
from keyrack.db.named_parameters import compile_statement
from keyrack.simulator.demo.fleet import WrittenFleet

AGENTS = ("Keyrack app 4.2 (Android 16)", "Keyrack app 4.2 (iOS 26)", "Keyrack app 4.1 (Android 14)", "Front desk 2.0")
OFFSET = timedelta(hours=1)  # of the cars' local time
DAYS = 14  # with events
HOURS = 72  # with positions
LEVELS = 168  # hours with fuel, battery and temperatures
WEAK = 6  # every sixth car has a weak battery
SILENT = timedelta(days=9)  # time without data of the last unit of a large fleet
MANY = 10  # units of a large fleet

COUNT: LiteralString = (
    "update event_counter set last_id = last_id + $2 where customer_id = $1 returning last_id - $2 as before"
)
INSERT_EVENTS = compile_statement("""
insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent,
                   latitude, longitude)
select :customer, :before + position, local_at, to_char(local_at, 'YYYY-MM-DD"T"HH24:MI:SS'), utc_at, user_id, car_id,
       type, user_agent, latitude, longitude
from unnest(
  :local_at::timestamptz[], :utc_at::timestamptz[], :user_id::integer[], :car_id::integer[], :type::text[],
  :user_agent::text[], :latitude::float8[], :longitude::float8[]) with ordinality
  as e (local_at, utc_at, user_id, car_id, type, user_agent, latitude, longitude, position)
""")
MAKE_HISTORY: LiteralString = "select make_history($1::date), make_history($2::date)"
INSERT_POSITIONS: LiteralString = """
insert into position (customer_id, car_id, at, latitude, longitude)
select $1, * from unnest($2::integer[], $3::timestamptz[], $4::float8[], $5::float8[])
"""
INSERT_ODOMETERS: LiteralString = """
insert into odometer (customer_id, car_id, at, odometer)
select $1, * from unnest($2::integer[], $3::timestamptz[], $4::float8[])
"""
INSERT_STATE: LiteralString = """
insert into car_state (customer_id, car_id, product_id, latitude, longitude, position_at, odometer, odometer_at,
                       read_at, telemetry)
select $1, $2, product_id, $3, $4, $5, $6, $5, $5, $7
from product where customer_id = $1 and car_id = $2 and kind = 'IQ'
"""
INSERT_TELEMETRY: LiteralString = """
insert into telemetry (customer_id, car_id, at, read_at, readings)
select $1, $2, at, at, readings::jsonb from unnest($3::timestamptz[], $4::text[]) as r (at, readings)
"""


async def write_events(
    connection: Connection, written: WrittenFleet, count: int, town: tuple[float, float], now: datetime, random: Random
) -> None:
    """Write openings and closings in order of time, the last one a few minutes ago."""
    step = timedelta(days=DAYS) / max(count // 2, 1)
    times: list[datetime] = []
    cars: list[int] = []
    users: list[int] = []
    places: list[tuple[float | None, float | None]] = []
    for n in range(count // 2):
        car, user = random.choice(written.drivers)
        opened = now - timedelta(days=DAYS) + n * step
        times += [opened, opened + step * random.uniform(0.1, 0.8)]
        cars += [car, car]
        users += [user, user]
        has_position = random.random() < 0.85
        places += [_near(town, random) if has_position else (None, None) for _ in range(2)]
    times = [time.replace(microsecond=0) for time in times]
    before = await connection.fetchval(COUNT, written.customer, len(times))
    arguments = INSERT_EVENTS.arguments(
        customer=written.customer,
        before=before,
        local_at=[time + OFFSET for time in times],
        utc_at=times,
        user_id=users,
        car_id=cars,
        type=["CarOpened", "CarClosed"] * (len(times) // 2),
        user_agent=[agent for _ in range(len(times) // 2) for agent in [random.choice(AGENTS)] * 2],
        latitude=[place[0] for place in places],
        longitude=[place[1] for place in places],
    )
    await connection.execute(INSERT_EVENTS.sql, *arguments)


async def write_telemetry(connection: Connection, written: WrittenFleet, now: datetime, random: Random) -> None:
    """Write telemetry of the cars with an IQ unit, and their newest state.

    Positions and odometer readings cover three days; fuel, battery and temperatures a week.
    """
    hours = HOURS
    await connection.execute(MAKE_HISTORY, (now - timedelta(hours=LEVELS) - SILENT).date(), now.date())
    for number, (car, town) in enumerate(written.iq_cars.items(), 1):
        start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours)
        if number == len(written.iq_cars) > MANY:
            start -= SILENT
        times = [start + timedelta(hours=hour) for hour in range(hours + 1)]
        swing = random.uniform(0, math.tau)
        track = [
            (
                round(town[0] + 0.05 * math.sin(swing + hour / 7) + random.gauss(0, 0.002), 6),
                round(town[1] + 0.08 * math.cos(swing + hour / 9) + random.gauss(0, 0.002), 6),
            )
            for hour in range(hours + 1)
        ]
        first = random.uniform(4_000, 90_000)
        odometers = [round(first + 2.7 * hour, 1) for hour in range(hours + 1)]
        ids = [car] * len(times)
        await connection.execute(
            INSERT_POSITIONS, written.customer, ids, times, [at[0] for at in track], [at[1] for at in track]
        )
        await connection.execute(INSERT_ODOMETERS, written.customer, ids, times, odometers)
        state = _telemetry(track[-1], odometers[-1], random)
        if number % WEAK == 0:
            state["batteryVoltage"] = 11.7
        levels = _levels(state, times[-1], Random(f"levels/{car}"))  # noqa: S311 - a fixed seed
        await connection.execute(
            INSERT_TELEMETRY, written.customer, car, list(levels), [json.dumps(values) for values in levels.values()]
        )
        await connection.execute(INSERT_STATE, written.customer, car, *track[-1], times[-1], odometers[-1], state)


def _telemetry(place: tuple[float, float], odometer: float, random: Random) -> dict[str, Any]:
    fuel = round(random.uniform(8, 58), 1)
    tyre = round(random.uniform(220, 270), 1)  # kPa
    return {
        "selectedCulture": "en-GB",
        "odometer": odometer,
        "rpm": 0,
        "dtc": [{"key": "P0420", "value": "Catalyst efficiency below threshold"}] if random.random() < 0.2 else [],
        "isDriving": False,
        "ignition": False,
        "isParkingBrakeEngaged": True,
        "driverSeatbelt": False,
        "fuelType": random.choice(("Petrol", "Diesel")),
        "fuelLevelVolume": fuel,
        "fuelLevelPercent": round(fuel / 0.6, 1),
        "fuelConsumption": round(random.uniform(4.5, 8.5), 1),
        "batteryVoltage": round(random.uniform(12.1, 12.8), 2),
        "engineCoolantTemperature": round(random.uniform(15, 90), 0),
        "distanceToNextService": float(random.randrange(500, 20_000, 100)),
        "currentLatitude": place[0],
        "currentLongitude": place[1],
        "currentSpeed": 0.0,
        "tirePressureFrontLeft": tyre,
        "tirePressureFrontRight": tyre,
        "tirePressureRearLeft": tyre,
        "tirePressureRearRight": tyre,
        "outsideTemperature": round(random.uniform(2, 18), 1),
    }


def _levels(state: dict[str, Any], end: datetime, random: Random) -> dict[datetime, dict[str, float]]:
    """Hourly readings of the week before the newest state, computed backwards from it."""
    fuel, voltage, outside = state["fuelLevelPercent"], state["batteryVoltage"], state["outsideTemperature"]
    weak = voltage < 12
    levels: dict[datetime, dict[str, float]] = {}
    for hour in range(1, LEVELS):
        at = end - timedelta(hours=hour)
        is_day = 7 <= at.hour < 19
        driven = is_day and at.weekday() < 5 and random.random() < 0.5
        fuel += random.uniform(0.5, 3.0) if driven else 0.0
        if fuel > 95:
            fuel = random.uniform(10, 25)  # refuelled
        if weak:
            voltage = min(12.7, voltage + 0.012)
        warmth = outside + 4 * math.cos((at.hour - 14) / 24 * math.tau) - 4 * math.cos((end.hour - 14) / 24 * math.tau)
        levels[at] = {
            "fuelLevelPercent": round(fuel, 1),
            "batteryVoltage": round(voltage + random.uniform(-0.05, 0.05), 2),
            "engineCoolantTemperature": round(random.uniform(70, 92) if driven else warmth + 5, 0),
            "outsideTemperature": round(warmth, 1),
        }
    return levels


def _near(town: tuple[float, float], random: Random) -> tuple[float, float]:
    return round(town[0] + random.gauss(0, 0.03), 6), round(town[1] + random.gauss(0, 0.05), 6)


def midnight(now: datetime) -> datetime:
    """The start of the day in UTC."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
