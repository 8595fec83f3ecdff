"""Dry runs: they report the results of a batch and write nothing."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from keyrack.core.settings import Settings
from tests.assignments.endpoints.batch_requests import (
    NO_ASSIGNMENT,
    NO_BOX,
    NO_CAR,
    NOBODY,
    START,
    change,
    create,
    end,
    md5,
    send,
    statuses,
)
from tests.support.people import Person, Town, nobody_works, web
from tests.support.servers import RunningServer, Sql


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


@pytest.fixture(scope="module")
def place(own: str, settings: Settings) -> Iterator[tuple[Person, Sql]]:
    """A server without other writers or a worker, and a manager with a fleet."""
    sql = Sql(own)
    with RunningServer(settings, own, worker=False) as running:
        person = Town(sql, running).person("dora")
        yield person, sql
        person.client.close()
    sql.close()


TABLES = """
select c.relname from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
and not c.relispartition and c.relname not in ('rate_limit', 'heartbeat') order by 1
"""


def digest(sql: Sql) -> dict[str, str]:
    """A digest of every table, except heartbeats and rate limits.

    A dry run takes from a rate limit of its own.
    """
    return {
        table: sql.value(f"select md5(coalesce(string_agg(t::text, chr(10) order by t::text), '')) from \"{table}\" t")
        for (table,) in sql.rows(TABLES)
    }


def applied(person: Person, sql: Sql) -> None:
    """Apply pending operations, by a request that takes the customer lock."""
    person.delete(f"/cars/{person.car()}")
    assert not sql.value("select exists (select from operation where state = 'Pending')")


def test_a_dry_run_reports_results_and_writes_nothing(place: tuple[Person, Sql]) -> None:
    dora, sql = place
    car, bare, user, group = dora.car_with_box(), dora.car(), dora.user(), dora.group("There")
    dora.put("/webhooks", {"url": "https://hooks.invalid/keyrack"})
    dora.put("/assignments", {"carId": car, "userId": user, "start": START})
    applied(dora, sql)
    id = dora.get(f"/cars/{car}/assignments").json()[0]["id"]
    data = {"firstName": "A", "lastName": "B"}
    before = digest(sql)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    assert send(
        dora,
        "assignments",
        create(carId=car, userId=user, start=START),
        create(carId=bare, userId=user, start=START),
        create(carId=NOBODY, userId=user, start=START),
        change(id, renewableAfter=700_000, lifetime=800_000),
        change(id, carId=bare),
        end(id),
        change(id, lifetime=800_000),
        dryRun=True,
        conflicts="report",
        headers=key,
    ) == [
        {"status": 204, "checksum": checksum(carId=car, userId=user, start=START),
         "conflicts": [{"assignmentId": id, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": checksum(carId=bare, userId=user, start=START), "wouldFail": NO_BOX},
        {"status": 404, "code": "car-not-found", "detail": NO_CAR},
        {"status": 204, "checksum": checksum_of(change(id, renewableAfter=700_000, lifetime=800_000)["patch"]),
         "conflicts": [{"item": 0, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": checksum_of(change(id, carId=bare)["patch"]), "wouldFail": NO_BOX,
         "conflicts": [{"item": 1, "userId": user, "start": START, "end": None}]},
        {"status": 204, "checksum": md5(f"DELETE /assignments/{id}")},
        {"status": 204, "checksum": checksum_of(change(id, lifetime=800_000)["patch"]),
         "wouldFail": "The assignment does not exist any more."},
    ]  # fmt: skip
    cars = send(dora, "cars", create(name="x"), change(car, name="x"), end(car), end(car), dryRun=True, headers=key)
    assert cars == [
        {"status": 201},
        {"status": 204},
        {"status": 204},
        {"status": 404, "code": "car-not-found", "detail": NO_CAR},
    ]
    users = send(
        dora, "users", create(emailAddress="dry@example.org", userData=data, type="Normal"), end(user), dryRun=True
    )
    assert users == [{"status": 201}, {"status": 204}]
    assert statuses(send(dora, "groups", create(name="There"), end(group), dryRun=True)) == [409, 204]
    results = send(dora, "groups", create(name="There"), end(group), dryRun=True, atomic=True, status=422, headers=key)
    assert statuses(results) == [409, 424]
    assert digest(sql) == before


def checksum(**body: Any) -> str:
    return checksum_of(body)


def checksum_of(body: object) -> str:
    return md5(json.dumps(body, sort_keys=True, separators=(",", ":")))


def test_a_digest_changes_with_every_write(place: tuple[Person, Sql]) -> None:
    """This validates `digest`, which the test above relies on."""
    dora, sql = place
    before = digest(sql)
    send(dora, "cars", create(name="x"))
    assert [table for table, one in digest(sql).items() if one != before[table]] == ["car", "change_inbox"]


def test_a_dry_run_is_marked_in_its_answer(alice: Person) -> None:
    answer = alice.post("/batch", {"kind": "cars", "items": [create(name="x")], "dryRun": True})
    assert answer.json() == {"done": 1, "refused": 0, "dryRun": True, "results": [{"status": 201}]}


def test_a_dry_run_includes_pending_operations(alice: Person, user: int) -> None:
    car = alice.car_with_box()
    id = alice.assignment(car, user)
    with nobody_works(alice):
        assert alice.delete(f"/assignments/{id}").status_code == 204
        assert alice.get(f"/assignments/{id}").status_code == 200
        refused_now = send(alice, "assignments", end(id), dryRun=True)
    assert refused_now == [{"status": 404, "code": "assignment-not-found", "detail": NO_ASSIGNMENT}]


def test_dry_runs_have_their_own_rate_limit(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(update={"dry_run_rate": 1, "dry_run_burst": 60, "assignment_burst": 1})
    body = {"kind": "cars", "items": [create(name="x")], "dryRun": True}
    with RunningServer(few, dsn, worker=False) as running:
        answers = [web().post(running.url + "/batch", json=body, headers=carol.headers) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
        assert 1 <= int(answers[3].headers["retry-after"]) <= 60
        assert answers[3].headers["ratelimit-policy"] == '"dry-runs";q=60;w=3600'
        assert (
            web().post(running.url + "/batch", json=body | {"dryRun": False}, headers=carol.headers).status_code == 200
        )
