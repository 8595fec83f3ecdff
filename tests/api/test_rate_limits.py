"""429 of PUT /assignments, counted exactly per customer over any number of servers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.support.people import Person, web
from tests.support.servers import SELDOM, RunningServer, eventually

BURST = 6


@pytest.fixture(scope="module")
def servers(dsn: str, settings: Settings) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two servers on one database with a burst of six."""
    few = settings.model_copy(update={"assignment_rate": SELDOM, "assignment_burst": BURST})
    with RunningServer(few, dsn, worker=False) as one, RunningServer(few, dsn, worker=False) as two:
        yield one, two


class Asking:
    """A client that requests assignments of one car."""

    def __init__(self, person: Person) -> None:
        self.person = person
        self.body = {"carId": person.car_with_box(), "userId": person.user(), "start": "2026-01-01T00:00:00Z"}

    def put(self, running: RunningServer, **members: object) -> httpx.Response:
        return web().put(running.url + "/v3/assignments", json=self.body | members, headers=self.person.headers)


def refused_429(answer: httpx.Response) -> int:
    """Check the response, and return the seconds to wait."""
    assert answer.status_code == 429
    assert answer.headers["content-type"] == "application/json"
    seconds = int(answer.headers["retry-after"])
    assert answer.json() == {"status": "429", "message": f"Rate limit exceeded. Retry in {seconds} seconds."}
    return seconds


def test_the_limit_is_exact_over_two_servers(carol: Person, servers: tuple[RunningServer, RunningServer]) -> None:
    asking = Asking(carol)
    with ThreadPoolExecutor(10) as threads:
        answers = list(threads.map(asking.put, servers * 10))
    assert sorted(answer.status_code for answer in answers) == [204] * BURST + [429] * (20 - BURST)
    for answer in answers:
        if answer.status_code == 429:
            assert 1 <= refused_429(answer) <= 60 / SELDOM
            assert "operation-id" not in answer.headers


def test_headers_have_the_remaining_requests(carol: Person, servers: tuple[RunningServer, RunningServer]) -> None:
    asking = Asking(carol)
    for number in range(BURST):
        answer = asking.put(servers[number % 2])
        assert answer.status_code == 204
        assert answer.headers["ratelimit-policy"] == f'"assignments";q={BURST};w={round(BURST * 60 / SELDOM)}'
        name, left, reset = answer.headers["ratelimit"].split(";")
        assert (name, left) == ('"assignments"', f"r={BURST - 1 - number}")
        assert 0 < int(reset.removeprefix("t=")) <= 60 / SELDOM * (number + 1)
    answer = asking.put(servers[0])
    refused_429(answer)
    assert answer.headers["ratelimit-policy"] == f'"assignments";q={BURST};w={round(BURST * 60 / SELDOM)}'
    assert answer.headers["ratelimit"].startswith('"assignments";r=0;t=')


def test_customers_have_separate_limits(
    carol: Person, bob: Person, servers: tuple[RunningServer, RunningServer]
) -> None:
    hers, his = Asking(carol), Asking(bob)
    statuses = [hers.put(servers[0]).status_code for _ in range(BURST + 1)]
    assert statuses == [204] * BURST + [429]
    assert his.put(servers[0]).status_code == 204


def test_invalid_bodies_are_not_counted(carol: Person, servers: tuple[RunningServer, RunningServer]) -> None:
    asking = Asking(carol)
    assert {asking.put(servers[0], lifetime=1).status_code for _ in range(BURST + 1)} == {400}
    assert asking.put(servers[0]).status_code == 204


def test_unknown_cars_and_users_are_not_counted(carol: Person, servers: tuple[RunningServer, RunningServer]) -> None:
    """A9."""
    asking = Asking(carol)
    for member in ("carId", "userId"):
        statuses = {asking.put(servers[0], **{member: 2147483647}).status_code for _ in range(BURST + 1)}
        assert statuses == {404}
    assert [asking.put(servers[0]).status_code for _ in range(BURST + 1)] == [204] * BURST + [429]


def test_only_creation_is_limited(carol: Person, servers: tuple[RunningServer, RunningServer]) -> None:
    asking = Asking(carol)
    while asking.put(servers[0]).status_code == 204:
        pass
    headers = carol.headers
    for method, path in (
        ("GET", "/cars"),
        ("PATCH", "/assignments/1"),
        ("DELETE", "/assignments/1"),
        ("PUT", "/groups"),
    ):
        answer = web().request(
            method, servers[0].url + path, headers=headers, **({} if method in ("GET", "DELETE") else {"json": []})
        )
        assert answer.status_code in (200, 400, 404)


def test_a_client_that_waits_succeeds(carol: Person, dsn: str, settings: Settings) -> None:
    """The rate is one in two seconds. So one of several concurrent requests must wait, however long each takes."""
    slow = settings.model_copy(update={"assignment_rate": 30, "assignment_burst": 1})
    with RunningServer(slow, dsn, worker=False) as running:
        asking = Asking(carol)
        with ThreadPoolExecutor(10) as threads:
            assert 429 in {answer.status_code for answer in threads.map(asking.put, [running] * 20)}
        eventually(lambda: asking.put(running).status_code == 204, "the end of the wait")
