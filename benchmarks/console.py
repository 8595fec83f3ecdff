"""List pages over 100,000 cars: times of a page, its fragment, and the underlying API call.

One browser requests page after page. The figures are times from the request to the whole response, on one machine.
"""

from __future__ import annotations

import asyncio
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

import asyncpg

from benchmarks.foundation import UNLIMITED, database, free_port, load, running, token
from benchmarks.load import Result, http, measure
from benchmarks.sizes import sized
from benchmarks.tables import note, row, table
from keyrack.console.lists.cars import CARS
from keyrack.console.lists.history import EVENTS
from keyrack.console.lists.people import ASSIGNMENTS, USERS
from keyrack.console.lists.query import options
from keyrack.console.lists.state import ROWS, ListState

CUSTOMER = 3  # has nearly all of the cars
FLEET = sized(100_000, tiny=2_400)  # cars of all customers
EVENT_COUNT = sized(200_000, tiny=500)
COUNT = sized(300, tiny=1)  # requests of one measurement

FILL = """
update car set brand = (array['Volkswagen', 'Audi', 'Seat', null])[1 + car_id % 4],
  model = (array['Golf', 'A3', 'Leon', 'Polo', null])[1 + car_id % 5] where customer_id = 3;
insert into product (customer_id, unique_id, serial_number, sap_number, kind, car_id)
  select 3, 'U' || car_id || kind, 'S' || car_id || kind, 'P' || car_id, kind, car_id
  from car, unnest(array['Box', 'IQ']) kind where customer_id = 3 and car_id % 10 < 8;
insert into car_state (customer_id, car_id, product_id, read_at, telemetry)
  select 3, car_id, product_id,
    now() - n % case car_id % 10 when 7 then 6000000 when 0 then 600 else 400000 end * interval '1 second',
    '{"vin": "WVWZZZ1KZ8W123456", "rpm": 1200, "ignition": true, "isDriving": true, "currentSpeed": 54.5,
      "fuelLevelPercent": 60, "batteryVoltage": 12.6, "engineCoolantTemperature": 90.5, "fuelType": "Diesel"}'
  from product, lateral (select car_id * 7919 as n) x where customer_id = 3 and kind = 'IQ';
insert into person (email_address, first_name, last_name, type)
  select 'p' || n || '@example.org', 'First ' || n, 'Last ' || n, 'Anonymous' from generate_series(1, 2000) n;
insert into customer_user (customer_id, user_id) select 3, user_id from person where user_id > 3;
insert into assignment (customer_id, car_id, user_id, starts_at, ends_at, lifetime, renewable_after)
  select 3, car_id, 4 + car_id % 1900, t - interval '1 day', t + interval '1 day', 604800, 302400
  from car, generate_series(-1, 1) k,
    lateral (select now() + 3 * k * interval '1 day' + car_id % 997 * interval '1 minute' as t) x
  where customer_id = 3 and car_id % 2 = 0;
insert into fleet_group (customer_id, name) select 3, 'Group ' || n from generate_series(1, 20) n;
insert into group_car (customer_id, group_id, car_id)
  select 3, g.group_id, car_id from car c join fleet_group g on g.customer_id = 3 and g.group_id % 20 = c.car_id % 20
  where c.customer_id = 3;
insert into event (customer_id, event_id, local_at, local_text, utc_at, user_id, car_id, type, user_agent)
  select 3, n, t, to_char(t, 'YYYY-MM-DD"T"HH24:MI:SS'), t, 4 + n % 1900, 2000 + n % 2000,
    (array['CarOpened', 'CarClosed'])[1 + n % 2], 'bench'
  from generate_series(1, {events}) n, lateral (select '2026-01-01Z'::timestamptz + make_interval(mins => n) t) x;
vacuum analyze
"""

LATE_PAGE, SORTED_PAGE = sized((1_900, 100), tiny=(11, 10))
# The pages with the state of each address
PAGES = {
    "cars": ("/cars", ListState(CARS)),
    "cars, page 10": ("/cars?page=10", ListState(CARS, page=10)),
    f"cars, page {LATE_PAGE:,}": (f"/cars?page={LATE_PAGE}", ListState(CARS, page=LATE_PAGE)),
    "cars: `Golf`": ("/cars?q=Golf", ListState(CARS, q="Golf")),
    "cars: `99999`, which matches one car": ("/cars?q=99999", ListState(CARS, q="99999")),
    "cars of a brand": ("/cars?brand=Audi", ListState(CARS, filters=(("brand", "Audi"),))),
    "cars in use now": ("/cars?use=now", ListState(CARS, filters=(("use", "now"),))),
    "cars free now": ("/cars?use=free", ListState(CARS, filters=(("use", "free"),))),
    "cars with a report within a day": ("/cars?seen=day", ListState(CARS, filters=(("seen", "day"),))),
    "cars without a report for a week": ("/cars?seen=long", ListState(CARS, filters=(("seen", "long"),))),
    "cars by time of the last report, newest first": ("/cars?sort=-seen", ListState(CARS, sort="-seen")),
    f"cars by time of the last report, page {SORTED_PAGE}": (
        f"/cars?sort=-seen&page={SORTED_PAGE}",
        ListState(CARS, sort="-seen", page=SORTED_PAGE),
    ),
    "cars by time of the last report, oldest first": ("/cars?sort=seen", ListState(CARS, sort="seen")),
    "2,000 users": ("/users", ListState(USERS)),
    "200,000 events": ("/events", ListState(EVENTS)),
    "148,000 assignments": ("/assignments/list", ListState(ASSIGNMENTS)),
}


async def fill(dsn: str) -> dict[str, str]:
    headers = await load(dsn, 3, FLEET)
    connection = await asyncpg.connect(dsn)
    for statement in FILL.split(";\n"):
        await connection.execute(statement.replace("{events}", str(EVENT_COUNT)))
    await connection.close()
    return headers


class _Stay(urllib.request.HTTPRedirectHandler):
    """Does not follow redirects."""

    def redirect_request(self, *_: Any) -> None:
        return None


def cookie(port: int) -> str:
    """The session cookie of a signed-in browser."""
    root = f"http://127.0.0.1:{port}"
    form = b"username=bench&password=bench"
    request = urllib.request.Request(f"{root}/console/sign-in", form, {"Origin": root})
    try:
        urllib.request.build_opener(_Stay).open(request)
    except urllib.error.HTTPError as answer:
        return str(answer.headers["Set-Cookie"]).partition(";")[0]
    raise RuntimeError("nobody was signed in")


def asked(state: ListState, headers: dict[str, str]) -> bytes:
    """The API request that the page makes for its state."""
    query = options(UTC, state, state.shown)
    query |= {"$count": "true", "$top": str(ROWS), "$skip": str((state.page - 1) * ROWS)}
    path = f"/v3{state.listing.rows}?{urlencode(query, safe='$')}"
    return http("GET", path, headers | {"Customer-ID": str(CUSTOMER)})


def beside_call(name: str, page: Result, part: Result, call: Result) -> None:
    """Print a row: a page, its fragment, and the underlying API call."""
    assert set(page.statuses) == set(part.statuses) == set(call.statuses) == {200}, (name, page, part, call)
    row(
        name, f"**{page.p50:.0f}**", f"**{page.p99:.0f}**", f"{part.p50:.0f}", f"{call.p50:.0f}",
        f"{page.cpu / 1e3:.1f}", f"{call.cpu / 1e3:.1f}",
    )  # fmt: skip


def written(port: int, session: str) -> str:
    """Print the time of a file of all cars."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/console/{CUSTOMER}/cars.csv", headers={"Cookie": session}
    )
    start, size = time.perf_counter(), 0
    with urllib.request.urlopen(request) as answer:
        while piece := answer.read(1 << 16):
            size += len(piece)
    seconds = time.perf_counter() - start
    return f"A file of all cars as CSV: {size / 1e6:.1f} MB in {seconds:.1f} s."


def pages(port: int, pid: int, headers: dict[str, str], names: Sequence[str]) -> None:
    session = cookie(port)
    browser = {"Cookie": session, "Accept": "text/html"}
    partial = browser | {"HX-Request": "true", "HX-Request-Type": "partial"}
    table(
        "console pages", "Page of 50", "p50, ms", "p99, ms", "fragment, p50", "API call, p50", "CPU, ms",
        "CPU of the API call, ms",
    )  # fmt: skip
    for name in names:
        path, state = PAGES[name]
        address = f"/console/{CUSTOMER}{path}"
        results: list[Result] = []
        for request in (http("GET", address, browser), http("GET", address, partial), asked(state, headers)):
            measure(pid, port, [request], COUNT // 30, connections=1)
            results.append(measure(pid, port, [request], COUNT, connections=1))
        beside_call(name, results[0], results[1], results[2])
    note(written(port, session))


def main() -> None:
    """Print the table of benchmarks/results.md, "Console lists"."""
    with database("console") as dsn:
        headers = asyncio.run(fill(dsn))
        port = free_port()
        env = {"KEYRACK_DATABASE_URL": dsn, **UNLIMITED}
        with running(["keyrack", "serve", "--port", str(port), "--no-worker"], port, "/health", env) as keyrack:
            signed_in = headers | {"Authorization": f"Bearer {token(port, headers)}"}
            pages(port, keyrack.pid, signed_in, list(PAGES))
