"""Limits of batches: the rate of assignments, sizes, durations, and disconnected clients."""

from __future__ import annotations

import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx

from keyrack.core.settings import Settings
from tests.assignments.endpoints.batch_requests import (
    HEAD,
    NOBODY,
    START,
    Garage,
    Json,
    change,
    create,
    end,
    send,
    statuses,
)
from tests.fleet.endpoints.test_concurrent_writes import at_once, call
from tests.support.people import Person, refused, web
from tests.support.servers import SELDOM, RunningServer, Sql, eventually

# The rate limit


def test_each_creation_counts_for_the_rate_limit(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"assignment_rate": 60, "assignment_burst": 5})
    garage = Garage(carol)
    id = carol.assignment(garage.car, garage.user)
    with RunningServer(few, dsn, worker=False) as running:

        def ask(*items: Json, **members: Any) -> httpx.Response:
            body = {"kind": "assignments", "items": list(items), **members}
            return web().post(running.url + "/batch", json=body, headers=carol.headers)

        carol.sql.execute("delete from rate_limit where key = $1", f"assignments:{carol.customer}")
        assert (
            ask(*[change(id, lifetime=700_000)] * 20, create(), create(carId=NOBODY, userId=1, start=START)).status_code
            == 200
        )
        assert ask(*[garage.wants(1, 2)] * 50, garage.wants(1, None, carId=NOBODY), atomic=True).status_code == 422
        assert ask(*[garage.wants(1, 2)] * 50, dryRun=True).status_code == 200
        let_in = ask(*[garage.wants(1, 2)] * 50)
        assert let_in.status_code == 200  # the requests before were not counted, and one request may borrow
        assert let_in.headers["ratelimit-policy"] == '"assignments";q=5;w=5'
        name, left, reset = let_in.headers["ratelimit"].split(";")
        assert (name, left) == ('"assignments"', "r=0")
        assert 48 <= int(reset.removeprefix("t=")) <= 50
        for answer in (
            ask(garage.wants(1, 2)),
            ask(garage.wants(1, 2), conflicts="refuse"),
            web().put(running.url + "/assignments", json=garage.wants(1, 2)["body"], headers=carol.headers),
        ):
            seconds = int(answer.headers["retry-after"])
            assert (answer.status_code, 40 <= seconds <= 46) == (429, True), answer.text
            assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}
        assert ask(end(id)).status_code == 200  # ends of access have no rate limit
        paid = "update rate_limit set full_at = full_at - interval '48 seconds' where key = $1"
        carol.sql.execute(paid, f"assignments:{carol.customer}")
        assert ask(*[garage.wants(1, 2)] * 2).status_code == 200


def test_the_rate_limit_is_exact_over_two_servers(carol: Person, dsn: str, settings: Settings) -> None:
    """One of several simultaneous batches may borrow; the others wait until its debt is repaid."""
    few = settings.model_copy(update={"assignment_rate": SELDOM, "assignment_burst": 5})
    garage = Garage(carol)
    body = {"kind": "assignments", "items": [garage.wants(1, 2)] * 20}
    with RunningServer(few, dsn, worker=False) as one, RunningServer(few, dsn, worker=False) as two:
        urls = [one.url, two.url] * 4
        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(lambda url: web().post(url + "/batch", json=body, headers=carol.headers), urls))
    assert Counter(answer.status_code for answer in answers) == {200: 1, 429: 7}
    count = "select count(*) from operation where customer_id = $1"
    assert carol.sql.value(count, carol.customer) == 20


def test_one_request_is_allowed_after_a_clock_was_set_back(carol: Person, dsn: str, settings: Settings) -> None:
    """A debt does not look like a clock that was set back; a time far beyond it does."""
    few = settings.model_copy(update={"assignment_rate": 60, "assignment_burst": 5})
    garage = Garage(carol)
    bucket = f"assignments:{carol.customer}"
    with RunningServer(few, dsn, worker=False) as running:

        def ask(*items: Json) -> int:
            body = {"kind": "assignments", "items": list(items)}
            return web().post(running.url + "/batch", json=body, headers=carol.headers).status_code

        assert ask(*[garage.wants(1, 2)] * 50) == 200
        assert ask(garage.wants(1, 2)) == 429
        carol.sql.execute("update rate_limit set full_at = full_at + interval '1 hour' where key = $1", bucket)
        assert ask(garage.wants(1, 2)) == 200
        assert ask(garage.wants(1, 2)) == 429


# Limits


def test_an_item_lists_at_most_ten_errors(alice: Person) -> None:
    steps = [{"op": "add", "path": "/colour"}] * 30
    (result,) = send(alice, "cars", {"op": "change", "id": 1, "patch": steps})
    assert len(result["errors"]) == 10


def test_too_many_items_are_rejected(alice: Person) -> None:
    body = {"kind": "cars", "items": [end(NOBODY)] * 1_001}
    refused(alice.post("/batch", body), 400, HEAD + "It must have at most 1000 items.")
    assert statuses(send(alice, "cars", *[end(NOBODY)] * 1_000)) == [404] * 1_000


def test_too_many_passwords_are_rejected(alice: Person) -> None:
    body = {"kind": "users", "items": [create(type="Normal")] * 51}
    text = "It must have at most 50 users with a password."
    refused(alice.post("/batch", body), 400, HEAD + text)


def test_the_body_of_a_batch_has_its_own_size_limit(alice: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"batch_bytes": 3_000, "max_body_bytes": 2_000})
    body = {"kind": "cars", "items": [create(name="x", description="y" * 2_500)]}
    with RunningServer(few, dsn, worker=False) as running:
        assert web().post(running.url + "/batch", json=body, headers=alice.headers).status_code == 200
        answer = web().post(running.url + "/batch", json=body | {"items": body["items"] * 2}, headers=alice.headers)
        refused(answer, 413, "The body must be smaller than 3000 bytes.")


def test_a_batch_that_takes_too_long_is_undone(carol: Person, dsn: str, settings: Settings) -> None:
    """The batch waits for a row that another transaction has locked."""
    quick = settings.model_copy(update={"batch_seconds": 0.3})
    car = carol.car("Old")
    body = {"kind": "cars", "items": [create(name="New"), change(car, name="x")]}
    other = Sql(dsn)
    with RunningServer(quick, dsn, worker=False) as running:
        other.execute("begin")
        other.execute("select from car where customer_id = $1 for update", carol.customer)
        answer = web().post(running.url + "/batch", json=body, headers=carol.headers)
        other.execute("rollback")
    other.close()
    refused(answer, 503, "The batch took too long and was rolled back. Send fewer items at once.")
    assert answer.headers["retry-after"] == "1"
    assert [row["name"] for row in carol.get("/cars").json()] == ["Old"]


def test_batches_on_the_same_rows_do_not_deadlock(carol: Person) -> None:
    cars = [carol.car() for _ in range(60)]
    bodies = [
        {"kind": "cars", "items": [change(car, name=f"N{n}") for car in (cars if n % 2 else reversed(cars))]}
        for n in range(8)
    ] + [{"kind": "groups", "items": [create(name=f"G{m}") for m in ((1, 2) if n % 2 else (2, 1))]} for n in range(8)]
    answers = at_once(call(carol, "POST", "/batch", body) for body in bodies)
    assert {answer.status_code for answer in answers} == {200}
    assert len({row["name"] for row in carol.get("/cars").json()}) == 1
    assert sorted(row["name"] for row in carol.get("/groups").json()) == ["G1", "G2"]


def test_a_batch_of_a_disconnected_client_is_completed(carol: Person, server: RunningServer, dsn: str) -> None:
    """A write that has begun continues without its client."""
    body = json.dumps({"kind": "cars", "items": [create(name=f"C{n}") for n in range(300)]}).encode()
    headers = carol.headers | {"Content-Type": "application/json", "Content-Length": str(len(body)), "Host": "x"}
    head = "POST /batch HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    other = Sql(dsn)
    other.execute("begin")
    other.execute("select pg_advisory_xact_lock(hashtext('batch cars'), $1)", carol.customer)
    with socket.create_connection(("127.0.0.1", server.port)) as gone:
        gone.sendall(head.encode() + body)
        waits = "select exists (select from pg_locks where locktype = 'advisory' and objid = $1 and not granted)"
        eventually(lambda: carol.sql.value(waits, carol.customer), "the batch's turn")
    other.execute("rollback")
    other.close()
    assert eventually(lambda: len(carol.get("/cars").json()), "the cars") == 300
