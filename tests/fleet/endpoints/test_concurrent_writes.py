"""Concurrent writes: the database lets one client succeed, and no client gets 500."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx

from tests.support.people import Person, web
from tests.support.servers import Sql, eventually

CROWD = 8


def at_once(calls: Iterable[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    """The answers of calls that start at the same time."""
    waiting = list(calls)
    barrier = Barrier(len(waiting))

    def run(call: Callable[[], httpx.Response]) -> httpx.Response:
        barrier.wait()
        # only a few may wait for the customer lock; the header says when to retry
        while (answer := call()).status_code == 503:
            time.sleep(float(answer.headers["Retry-After"]) / 10)
        return answer

    with ThreadPoolExecutor(len(waiting)) as threads:
        return list(threads.map(run, waiting))


def call(person: Person, method: str, path: str, body: Any) -> Callable[[], httpx.Response]:
    url = str(person.client.base_url).rstrip("/") + path
    return lambda: web().request(method, url, json=body, headers=person.headers)


def statuses(person: Person, method: str, path: str, *bodies: Any) -> Counter[int]:
    """How often each status occurs when these bodies are sent at the same time.

    A single body is sent `CROWD` times.
    """

    crowd = bodies if len(bodies) > 1 else bodies * CROWD
    return Counter(answer.status_code for answer in at_once(call(person, method, path, body) for body in crowd))


def test_one_of_many_groups_with_the_same_name_is_created(alice: Person) -> None:
    assert statuses(alice, "PUT", "/groups", {"name": "Raced"}) == {201: 1, 409: CROWD - 1}


def test_one_of_many_users_with_the_same_address_is_created(alice: Person) -> None:
    body = {"emailAddress": f"race.{os.getpid()}@example.org", "userData": {"firstName": "A", "lastName": "B"}}
    assert statuses(alice, "PUT", "/users", body) == {201: 1, 409: CROWD - 1}


def test_one_of_many_requests_assigns_a_user(alice: Person, bob: Person) -> None:
    body = {"emailAddress": f"crowd.{os.getpid()}@example.org"}
    bob.user(body["emailAddress"])
    assert statuses(alice, "PUT", "/users/assignments/customers", body) == {204: 1, 409: CROWD - 1}
    assert statuses(alice, "DELETE", "/users/assignments/customers", body) == {204: 1, 404: CROWD - 1}


def test_one_of_many_requests_adds_a_car_to_a_group(alice: Person) -> None:
    group, car = alice.group(), alice.car()
    assert statuses(alice, "PUT", f"/groups/{group}/cars", {"carId": car}) == {204: 1, 409: CROWD - 1}
    assert statuses(alice, "DELETE", f"/groups/{group}/cars/{car}", None) == {204: 1, 404: CROWD - 1}


def installable(person: Person) -> int:
    product = person.product()
    person.service(product)
    return product


def test_a_product_is_installed_into_one_of_several_cars(alice: Person) -> None:
    product = installable(alice)
    bodies = [{"carId": alice.car(), "productId": product} for _ in range(CROWD)]
    assert statuses(alice, "PUT", "/installations", *bodies) == {204: 1, 409: CROWD - 1}


def test_one_of_several_boxes_is_installed_into_a_car(alice: Person) -> None:
    car = alice.car()
    bodies = [{"carId": car, "productId": installable(alice)} for _ in range(CROWD)]
    assert statuses(alice, "PUT", "/installations", *bodies) == {204: 1, 409: CROWD - 1}
    assert len(alice.get(f"/cars/{car}/products").json()) == 1


def test_a_service_is_paired_with_one_of_several_products(alice: Person) -> None:
    service = alice.service()
    bodies = [{"serviceId": service, "productId": alice.product()} for _ in range(CROWD)]
    assert statuses(alice, "PUT", "/pairings", *bodies) == {204: 1, 409: CROWD - 1}


def test_one_of_several_services_is_paired_with_a_product(alice: Person) -> None:
    product = alice.product()
    bodies = [{"serviceId": alice.service(), "productId": product} for _ in range(CROWD)]
    assert statuses(alice, "PUT", "/pairings", *bodies) == {204: 1, 409: CROWD - 1}


def test_one_of_many_requests_deletes_a_car(alice: Person) -> None:
    assert statuses(alice, "DELETE", f"/cars/{alice.car_with_box()}", None) == {204: 1, 404: CROWD - 1}


def test_a_car_is_deleted_while_other_requests_use_it(alice: Person, sql: Sql) -> None:
    """In any order, each request succeeds or finds nothing. Every operation gets its outcome."""
    for _ in range(3):
        car, user, group, event = alice.car(), alice.user(), alice.group(), "2026-01-01T00:00:00Z"
        box = alice.box_in(car)
        happened = {"dateTime": event, "utcDateTime": event, "carId": car, "userId": user, "userAgent": "x"}
        requests: list[tuple[str, str, Any]] = [
            ("PUT", "/assignments", {"carId": car, "userId": user, "start": event}),
            ("PUT", f"/groups/{group}/cars", {"carId": car}),
            ("PUT", "/events", happened | {"type": "CarOpened"}),
            ("PATCH", f"/cars/{car}", [{"op": "replace", "path": "/name", "value": "B"}]),
            ("DELETE", "/installations", {"carId": car, "productId": box}),
            ("DELETE", f"/cars/{car}", None),
            ("DELETE", "/users/assignments/customers", {"userId": user}),
            ("GET", f"/cars/{car}/assignments", None),
        ]
        answers = at_once(call(alice, *request) for request in requests)
        assert {answer.status_code for answer in answers} <= {200, 201, 204, 404}, [answer.text for answer in answers]
        assert alice.get(f"/cars/{car}").status_code == 404
        assert alice.get(f"/products/{box}/cars").status_code == 404
        eventually(
            lambda: sql.value(
                "select count(*) = 0 from operation where customer_id = $1 and state = 'Pending'", alice.customer
            ),
            "the outcome of every operation",
        )
        left = sql.value("select count(*) from assignment where customer_id = $1", alice.customer)
        assert left == 0
