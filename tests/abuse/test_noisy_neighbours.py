"""B7: the effect of one customer's flood on a bystander, compared with ten normal customers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest

from tests.abuse.conftest import Figures
from tests.abuse.flood import Sent, flood
from tests.support.people import PASSWORD, Person, Town
from tests.support.servers import Process, Sql, eventually, free_port
from tests.telemetry.endpoints.test_ingest import unit_of

CROWD = 10  # well-behaved customers
CARS = 2_000  # of each customer
ROUNDS = 3  # the best one counts
SECONDS = 8.0
RATIO = 3.0  # the goal

JSON = {"Content-Type": "application/json"}


@dataclass
class Served:
    url: str


@pytest.fixture(scope="module")
def served(dsn: str) -> Iterator[Served]:
    """`keyrack serve` as run by an operator."""
    port = free_port()
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_ASSIGNMENT_RATE": "1000000", "KEYRACK_ASSIGNMENT_BURST": "100000"}
    process = Process("serve", "--port", str(port), "--json", env=env)
    assert process.popen.stdout is not None
    assert json.loads(process.popen.stdout.readline())["url"]
    yield Served(f"http://127.0.0.1:{port}")
    process.stop()


@pytest.fixture(scope="module")
def people(served: Served, sql: Sql) -> list[Person]:
    """A bystander and the crowd. The first of the crowd is the attacker."""
    town = Town(sql, served)
    everybody = [town.person(f"p{number}") for number in range(CROWD + 1)]
    for person in everybody:
        sql.execute(
            "insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, $2::integer) n",
            person.customer,
            CARS,
        )
    sql.execute("analyze car")
    return everybody


def users(person: Person, base: str) -> Sent:
    body = {
        "emailAddress": "flood{n}@example.org",
        "userData": {"firstName": "F", "lastName": "L"},
        "type": "Normal",
        "password": PASSWORD,
    }
    return Sent("PUT", f"{base}/users", person.headers | JSON, json.dumps(body))


def lists(person: Person, base: str) -> Sent:
    return Sent("GET", f"{base}/cars?$orderby=name", person.headers)


def searches(person: Person, base: str) -> Sent:
    return Sent("GET", f"{base}/cars?$filter=contains(tolower(name),'nowhere') or endswith(name,'x')", person.headers)


def assignments(person: Person, base: str) -> Sent:
    car = person.sql.value("select min(car_id) from car where customer_id = $1", person.customer)
    body = {"carId": car, "userId": person.user(), "start": "2026-01-01T08:00:00Z"}
    return Sent("PUT", f"{base}/assignments", person.headers | JSON, json.dumps(body))


def installations(person: Person, base: str) -> Sent:
    car = person.sql.value("select min(car_id) from car where customer_id = $1", person.customer)
    product = person.product()
    person.service(product)
    return Sent("PUT", f"{base}/installations", person.headers | JSON, json.dumps({"carId": car, "productId": product}))


def deliveries(person: Person, base: str) -> Sent:
    unit = unit_of(person)
    sample = unit.sample(5, rpm=800, odometer=1, currentLatitude=50, currentLongitude=8)
    headers = {"Device-Key": unit.key, "Content-Type": "application/x-ndjson"}
    return Sent("POST", f"{base}/ingest/telemetry", headers, "\n".join([json.dumps(sample)] * 1_000))


FLOODS: dict[str, tuple[Callable[[Person, str], Sent], int]] = {
    "users with passwords": (users, 60),
    "lists of 2,000 cars": (lists, 40),
    "slow filters": (searches, 40),
    "assignments": (assignments, 60),
    "installations": (installations, 60),
    "deliveries of 1,000 samples": (deliveries, 40),
}


@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_slows_a_bystander_within_the_goal(
    name: str, served: Served, people: list[Person], figures: Figures
) -> None:
    make, connections = FLOODS[name]
    bystander, *crowd = people
    base = served.url + "/v3"
    requests = [make(person, base) for person in crowd]
    seen: list[tuple[float, dict[str, float], dict[str, float]]] = []
    for _ in range(ROUNDS):
        with flood(requests, connections):
            beside = look(bystander, base)
        calm(bystander)
        with flood(requests[:1], connections):
            under = look(bystander, base)
        calm(bystander)
        seen.append((max(under["read"] / beside["read"], under["write"] / beside["write"]), beside, under))
    ratio, beside, under = min(seen, key=lambda row: row[0])
    print(f"\n{name}: ms beside {_ms(beside)}; under the flood {_ms(under)}")
    figures.at_most(f"B7 {name}: p99 beside others'", ratio, "times", RATIO)
    figures.at_most(f"B7 {name}: /health under it, p99", under["health"] * 1000, "ms", 500)
    figures.at_most(f"B7 {name}: log-in under it, worst", under["log-in"] * 1000, "ms", 2_000)


def look(person: Person, base: str) -> dict[str, float]:
    """The bystander's 99th percentile of each kind of call, in seconds.

    The value of logins is their maximum.
    """
    car = person.sql.value("select max(car_id) from car where customer_id = $1", person.customer)
    form = {"username": person.username, "password": PASSWORD, "grant_type": "password"}
    key = {"vendor-API-Key": person.api_key}

    def log_in() -> httpx.Response:
        return person.client.post("/oauth2/token", data=form, headers=key)

    calls: dict[str, Callable[[], httpx.Response]] = {
        "read": lambda: person.get(f"/cars/{car}"),
        "write": lambda: person.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "Mine"}]),
        "health": lambda: person.client.get("/health"),
    }
    times: dict[str, list[float]] = {name: [] for name in (*calls, "log-in")}
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        for _ in range(10):
            for name, call in calls.items():
                times[name].append(_timed(call))
        times["log-in"].append(_timed(log_in))
    return {name: sorted(values)[int(len(values) * 0.99)] for name, values in times.items()}


def calm(person: Person) -> None:
    """Wait until the work of the flood is done."""
    eventually(lambda: _timed(lambda: person.client.get("/health")) < 0.05, "calm")


def _timed(call: Callable[[], httpx.Response]) -> float:
    start = time.perf_counter()
    answer = call()
    assert answer.status_code in (200, 204), answer.text
    return time.perf_counter() - start


def _ms(times: dict[str, float]) -> str:
    return ", ".join(f"{name} {value * 1000:.0f}" for name, value in times.items())
