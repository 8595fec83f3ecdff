"""Retries, keys and tokens behind a proxy that disturbs the client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from keyrack_client import AsyncKeyrack, Keyrack, NoAnswer, OutcomeFailed, _core, errors, operations

from tests.clients_python.support import Answer, Machine, Proxy, machine_of, slot
from tests.support.people import Person, fetch
from tests.support.servers import DEADLINE, RunningServer

BOOKINGS = 100
# Far more than a call needs alone. While others poll for their outcomes, its turn can be the dropped one many times
ATTEMPTS = 500
CALLS = 50
PROBLEM = {"Content-Type": "application/problem+json"}


@pytest.fixture(scope="module")
def shop(alice: Person, server: RunningServer) -> Machine:
    return machine_of(alice, server.url)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Shorten the pauses of the client, and list the intended ones."""
    intended: list[float] = []
    pause, async_pause = time.sleep, asyncio.sleep

    def sleep(seconds: float) -> None:
        intended.append(seconds)
        pause(min(seconds, 0.02))

    async def async_sleep(seconds: float) -> None:
        intended.append(seconds)
        await async_pause(min(seconds, 0.02))

    monkeypatch.setattr("keyrack_client._sync.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    monkeypatch.setattr("keyrack_client._async.asyncio", SimpleNamespace(sleep=async_sleep, Lock=asyncio.Lock))
    return intended


def every_second_is_dropped(number: int, method: str, path: str, forward: Callable[[], Answer]) -> Answer | None:
    """Let the server do each request, and drop every second answer."""
    answer = forward()
    return answer if number % 2 else None


def outcomes_of(shop: Machine, car: int) -> Counter[str]:
    rows = shop.person.get(f"/assignments?$filter=carId eq {car}").json()
    return Counter(row["start"] for row in rows)


def test_every_second_answer_is_lost(shop: Machine) -> None:
    """100 bookings are asked for, 100 exist, and none twice."""
    car, user = shop.person.car_with_box(), shop.person.user()
    with Proxy(shop.url, every_second_is_dropped) as proxy, shop.client(proxy.url, attempts=ATTEMPTS) as keyrack:

        def book(number: int) -> str:
            return keyrack.assignments.create(carId=car, userId=user, wait=DEADLINE, **slot(number))["state"]

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(book, range(BOOKINGS))) == ["Succeeded"] * BOOKINGS
        assert proxy.count("/assignments") > BOOKINGS
    found = outcomes_of(shop, car)
    assert len(found) == BOOKINGS and set(found.values()) == {1}


def test_every_second_answer_is_lost_with_asyncio(shop: Machine) -> None:
    car, user = shop.person.car_with_box(), shop.person.user()

    async def book_all(url: str) -> list[str]:
        async with shop.async_client(url, attempts=ATTEMPTS) as keyrack:
            bookings = (
                keyrack.assignments.create(carId=car, userId=user, wait=DEADLINE, **slot(number))
                for number in range(BOOKINGS)
            )
            return [row["state"] for row in await asyncio.gather(*bookings)]

    with Proxy(shop.url, every_second_is_dropped) as proxy:
        assert asyncio.run(book_all(proxy.url)) == ["Succeeded"] * BOOKINGS
    found = outcomes_of(shop, car)
    assert len(found) == BOOKINGS and set(found.values()) == {1}


def test_a_failed_outcome_is_final(shop: Machine) -> None:
    """The car has no box. Repeating the call with its key returns the same failure."""
    car, user = shop.person.car(), shop.person.user()
    with Proxy(shop.url, every_second_is_dropped) as proxy, shop.client(proxy.url, attempts=ATTEMPTS) as keyrack:
        ids: set[str] = set()
        for _ in range(3):
            with pytest.raises(OutcomeFailed) as error:
                keyrack.assignments.create(carId=car, userId=user, key=f"no-box-{car}", wait=DEADLINE, **slot(1))
            ids.add(error.value.operation["id"])
        assert len(ids) == 1


def test_a_token_that_is_revoked_is_renewed_once(shop: Machine) -> None:
    """The token ends in the middle of 50 calls at once."""

    def forward_only(number: int, method: str, path: str, forward: Callable[[], Answer]) -> Answer:
        return forward()

    with Proxy(shop.url, forward_only) as proxy, shop.client(proxy.url) as keyrack:
        keyrack.cars.list().first()
        revoke(shop, vars(keyrack.core)["_token"].value)
        barrier = threading.Barrier(CALLS)

        def read(_: int) -> object:
            barrier.wait(DEADLINE)
            return keyrack.cars.list().page(size=1)

        with ThreadPoolExecutor(CALLS) as threads:
            assert len(list(threads.map(read, range(CALLS)))) == CALLS
        assert proxy.count("/oauth2/token") == 2

    async def read_all(url: str) -> int:
        async with shop.async_client(url) as keyrack:
            await keyrack.cars.list().first()
            revoke(shop, vars(keyrack.core)["_token"].value)
            return len(await asyncio.gather(*(keyrack.cars.list().page(size=1) for _ in range(CALLS))))

    with Proxy(shop.url, forward_only) as proxy:
        assert asyncio.run(read_all(proxy.url)) == CALLS
        assert proxy.count("/oauth2/token") == 2


def revoke(shop: Machine, token: str) -> None:
    form = {"token": token, "client_id": shop.client_id, "client_secret": shop.client_secret}
    headers = {"vendor-API-Key": shop.person.api_key}
    answer = fetch("POST", f"{shop.url}/oauth2/revoke", data=form, headers=headers)
    assert answer.status_code == 200, answer.text


def test_a_failed_renewal_is_shared(shop: Machine) -> None:
    """50 calls with a wrong secret ask for few tokens.

    The server limits failed attempts.
    """

    started = threading.Semaphore(0)

    def hold_the_first(number: int, method: str, path: str, forward: Callable[[], Answer]) -> Answer:
        if number == 1:
            assert all(started.acquire(timeout=DEADLINE) for _ in range(CALLS))
        return forward()

    with Proxy(shop.url, hold_the_first) as proxy, shop.client(proxy.url, client_secret="wrong") as keyrack:

        def read(_: int) -> str:
            started.release()
            with pytest.raises(errors.InvalidClient) as error:
                keyrack.cars.get(1)
            return error.value.code

        with ThreadPoolExecutor(CALLS) as threads:
            assert list(threads.map(read, range(CALLS))) == ["invalid-client"] * CALLS
        assert proxy.count("/oauth2/token") < CALLS / 2 and proxy.count("/cars/1") == 0


def test_a_missing_scope_does_not_renew_the_token(alice: Person, server: RunningServer) -> None:
    reader = machine_of(alice, server.url, ("cars:read",))
    with Proxy(server.url, lambda number, method, path, forward: forward()) as proxy:
        with reader.client(proxy.url) as keyrack, pytest.raises(errors.PermissionMissing) as error:
            keyrack.cars.create(name="A")
        assert isinstance(error.value, errors.Forbidden)
        assert (proxy.count("/oauth2/token"), proxy.count("/cars")) == (1, 1)


Row = tuple[int, dict[str, str]]


def scripted(*rows: Row) -> Callable[[int, str, str, Callable[[], Answer]], Answer]:
    """Answer requests with these rows, then forward them. Requests for tokens are forwarded."""
    left = list(rows)

    def disturb(number: int, method: str, path: str, forward: Callable[[], Answer]) -> Answer:
        if path == "/oauth2/token" or not left:
            return forward()
        status, headers = left.pop(0)
        return status, {"Content-Type": "text/plain"} | headers, b"Disturbed."

    return disturb


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_passing_error_is_retried_with_back_off(shop: Machine, short_pauses: list[float], status: int) -> None:
    with Proxy(shop.url, scripted((status, {}), (status, {}))) as proxy, shop.client(proxy.url) as keyrack:
        car = keyrack.cars.create(name=f"Retried after {status}")["id"]
        keys = {sent["Idempotency-Key"] for _, path, sent in proxy.requests if path == "/cars"}
        assert proxy.count("/cars") == 3 and len(keys) == 1
        assert [row["id"] for row in keyrack.cars.list(filter=f"name eq 'Retried after {status}'")] == [car]
    first, second = short_pauses
    assert 0.25 <= first <= 0.5 <= second <= 1.0


@pytest.mark.parametrize("status", [400, 404, 409, 422, 501])
def test_other_errors_are_raised_at_once(shop: Machine, status: int) -> None:
    with Proxy(shop.url, scripted((status, {}))) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(errors.ApiError, match=f"{status} Disturbed") as error:
            keyrack.cars.get(1)
        assert (error.value.code, error.value.detail, proxy.count("/cars/1")) == ("", "Disturbed.", 1)


def test_a_storm_of_429_obeys_retry_after(shop: Machine, short_pauses: list[float]) -> None:
    """A repeat that the server asked for is no failed attempt."""
    storm = scripted(*[(429, {"Retry-After": "3"})] * 8)
    with Proxy(shop.url, storm) as proxy, shop.client(proxy.url) as keyrack:
        assert keyrack.cars.list().page(size=1) is not None
        assert proxy.count("/cars") == 9
    assert len(short_pauses) == 8 and all(3.0 <= seconds <= 3.3 for seconds in short_pauses)


def test_retry_after_has_bounds(shop: Machine, short_pauses: list[float]) -> None:
    with Proxy(shop.url, scripted((503, {"Retry-After": "61"}))) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(errors.ServerError) as error:
            keyrack.cars.get(1)
        assert error.value.retry_after == 61 and short_pauses == []
    with Proxy(shop.url, scripted(*[(429, {"Retry-After": "25"})] * 4)) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(errors.TooManyRequests):
            keyrack.cars.get(1)
        assert proxy.count("/cars/1") == 3
    assert len(short_pauses) == 2


def test_one_attempt_is_no_retry(shop: Machine, short_pauses: list[float]) -> None:
    """Neither back-off nor `Retry-After` repeats a request then."""
    for row in ((503, {}), (429, {"Retry-After": "1"})):
        with Proxy(shop.url, scripted(row)) as proxy, shop.client(proxy.url, attempts=1) as keyrack:
            with pytest.raises(errors.ApiError):
                keyrack.cars.get(1)
            assert proxy.count("/cars/1") == 1
    assert short_pauses == []


def test_retry_after_can_be_a_date(short_pauses: list[float]) -> None:
    assert 55 < (_core.read_retry_after(formatdate(time.time() + 60, usegmt=True)) or 0) <= 60
    assert _core.read_retry_after(formatdate(time.time() - 60, usegmt=True)) == 0
    assert _core.read_retry_after("soon") is None and _core.read_retry_after("") is None


def test_a_key_in_flight_is_retried(shop: Machine) -> None:
    in_flight = scripted((409, {"Retry-After": "1"}))
    with Proxy(shop.url, in_flight) as proxy, shop.client(proxy.url) as keyrack:
        assert keyrack.cars.create(name="In flight")["id"]
        assert proxy.count("/cars") == 2


def test_the_attempts_end(shop: Machine) -> None:
    def drop(number: int, method: str, path: str, forward: Callable[[], Answer]) -> Answer | None:
        return forward() if path == "/oauth2/token" else None

    with Proxy(shop.url, drop) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(NoAnswer, match=r"no response in 5 attempts") as error:
            keyrack.cars.create(name="Lost")
        sent = {headers["Idempotency-Key"] for _, path, headers in proxy.requests if path == "/cars"}
        assert proxy.count("/cars") == 5 and sent == {error.value.key}


def test_the_token_endpoint_is_asked_three_times(shop: Machine) -> None:
    def drop(number: int, method: str, path: str, forward: Callable[[], Answer]) -> None:
        return None

    with Proxy(shop.url, drop) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(NoAnswer):
            keyrack.cars.get(1)
        assert proxy.count("/oauth2/token") == len(proxy.requests) == 3


def test_a_token_is_renewed_before_its_end(shop: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    with Proxy(shop.url, lambda number, method, path, forward: forward()) as proxy, shop.client(proxy.url) as keyrack:
        keyrack.cars.list().first()
        renew_at = vars(keyrack.core)["_token"].renew_at
        seconds = renew_at - time.monotonic()
        assert 3_500 < seconds <= 3_570
        monkeypatch.setattr(_core, "time", SimpleNamespace(monotonic=lambda: renew_at))
        keyrack.cars.list().first()
        assert proxy.count("/oauth2/token") == 2


def test_a_proxy_that_answers_html_is_named(shop: Machine) -> None:
    page = (200, {"Content-Type": "text/html"}, b"<html>")
    proxy = Proxy(shop.url, lambda number, method, path, forward: forward() if "token" in path else page)
    with proxy, shop.client(proxy.url) as keyrack, pytest.raises(errors.KeyrackError, match="not JSON but text/html"):
        keyrack.cars.get(1)


def test_a_server_with_plain_texts_is_understood(shop: Machine) -> None:
    """An error without a code has the class of its status."""
    plain = scripted((401, {}), (404, {}))
    with Proxy(shop.url, plain) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(errors.NotFound, match=r"404 Disturbed\."):
            keyrack.cars.get(1)
        assert proxy.count("/oauth2/token") == 2
    refused = scripted((401, {}), (401, {}))
    with Proxy(shop.url, refused) as proxy, shop.client(proxy.url) as keyrack:
        with pytest.raises(errors.Unauthorized):
            keyrack.cars.get(1)
        assert (proxy.count("/oauth2/token"), proxy.count("/cars/1")) == (2, 2)


def test_a_wait_has_more_time_than_the_client() -> None:
    """The timeout of a waiting request is longer than its wait."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if request.url.path == "/oauth2/token":
            return httpx.Response(200, json={"access_token": "t", "expires_in": 3600})
        return httpx.Response(200, headers={"Operation-Id": "o"}, json={"state": "Succeeded"})

    options: dict[str, Any] = {"api_key": "k", "client_id": "i", "client_secret": "s", "timeout": 5}
    with Keyrack("http://x", http=httpx.Client(transport=httpx.MockTransport(answer)), **options) as keyrack:
        keyrack.assignments.create(carId=1, userId=2, start="2030-05-01T00:00:00Z", wait=45)
    assert seen[-1].extensions["timeout"]["read"] > 45
    assert "wait=30" in seen[-1].headers["Prefer"]  # the most that the server waits


def test_a_long_poll_has_more_time_than_the_client() -> None:
    """The timeout of a long poll exceeds its wait."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"access_token": "t", "expires_in": 3600} if request.method == "POST" else [])

    options: dict[str, Any] = {"api_key": "k", "client_id": "i", "client_secret": "s", "timeout": 5}
    with Keyrack("http://x", http=httpx.Client(transport=httpx.MockTransport(answer)), **options) as keyrack:
        keyrack.webhooks.messages(1, wait=60)
        keyrack.call(operations.listMessagesOfWebhook, 1, query={"wait": 60})
        keyrack.request("GET", "/webhooks/1/messages", params={"wait": "60"})
        keyrack.request("GET", "/webhooks/1/messages")
        keyrack.request("GET", "/webhooks/1/messages", params={"wait": 60}, timeout=2)  # the caller decides
    timeouts = [request.extensions["timeout"]["read"] for request in seen if request.method == "GET"]
    assert [timeout > 60 for timeout in timeouts[:3]] == [True] * 3 and timeouts[3:] == [5, 2]


def test_a_forked_process_opens_its_own_connections() -> None:
    with Keyrack("http://x", api_key="k", client_id="i", client_secret="s") as keyrack:
        mine = vars(keyrack)["_http"]
        vars(keyrack)["_process"] = -1  # as in a child
        with pytest.raises(NoAnswer):
            keyrack.cars.get(1)
        assert vars(keyrack)["_http"] is not mine
        mine.close()


def test_wrong_options_are_named() -> None:
    with pytest.raises(ValueError, match="client_id and client_secret"):
        Keyrack("http://x", api_key="k")
    with pytest.raises(ValueError, match="api_key is missing"):
        AsyncKeyrack("http://x", client_id="i", client_secret="s")
    with pytest.raises(ValueError, match="must begin with http"):
        Keyrack("localhost:8080", api_key="k", client_id="i", client_secret="s")
    misspelt: dict[str, Any] = {"atempts": 1}
    with pytest.raises(TypeError, match=r"no option 'atempts'\. Did you mean 'attempts'"):
        Keyrack("http://x", api_key="k", client_id="i", client_secret="s", **misspelt)
