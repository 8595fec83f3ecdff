"""A client's session: sign-in, renewal, retries, and errors in the server's words."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from keyrack.core.api_client import responses as answers
from keyrack.core.api_client.credentials import Login, ServerAddress, StoredToken
from keyrack.core.api_client.responses import ApiError
from keyrack.core.api_client.retries import RetryPolicy
from keyrack.core.api_client.session import Client
from tests.support.people import Person
from tests.support.servers import DEADLINE, RunningServer, free_port

QUICK = RetryPolicy(attempts=4, first_pause=0.01, max_pause=0.02, max_retry_after=2, timeout=DEADLINE)
ANN = Login("ann", "secret")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Scripted:
    """A server with scripted answers, which records its requests."""

    def __init__(self, handler: Handler, **token: Any) -> None:
        self.handler = handler
        self.token: dict[str, Any] = {"access_token": "t1", "expires_in": "3600", "token_type": "Bearer"} | token
        self.forms: list[dict[str, str]] = []
        self.seen: list[web.Request] = []

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/v3/oauth2/token":
            self.forms.append({name: str(value) for name, value in (await request.post()).items()})
            self.token["access_token"] = f"t{len(self.forms)}"
            return web.json_response(self.token)
        self.seen.append(request)
        return await self.handler(request)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[ServerAddress]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        port = free_port()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield ServerAddress(f"http://127.0.0.1:{port}/v3/", "the-key", 7, "acme")
        finally:
            await runner.cleanup()


def call(script: Scripted, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        async with script.running() as server:
            given = {"login": ANN, "patience": QUICK} | options
            async with Client(server, **given) as client:
                return await work(client)

    return asyncio.run(run())


def saying(*responses: Callable[[], web.Response]) -> Handler:
    """One answer after the other. The last one repeats."""
    left = list(responses)

    async def handler(request: web.Request) -> web.Response:
        return (left.pop(0) if len(left) > 1 else left[0])()

    return handler


def fine() -> web.Response:
    return web.json_response({"id": 1})


def test_a_request_has_key_token_and_customer() -> None:
    script = Scripted(saying(fine))
    assert call(script, lambda client: client.get("/cars/1?$select=id,name")) == {"id": 1}
    (request,) = script.seen
    assert request.headers["acme-API-Key"] == "the-key"
    assert request.headers["Authorization"] == "Bearer t1"
    assert request.headers["Customer-ID"] == "7"
    assert request.query["$select"] == "id,name"
    assert script.forms == [ANN.form()]
    assert "secret" not in repr(ANN), "nothing of a secret is shown by chance"


def test_a_token_is_renewed_before_it_expires_and_reported() -> None:
    kept: list[StoredToken] = []
    script = Scripted(saying(fine), expires_in="20", refresh_token="again")
    call(script, lambda client: client.get("/a"), token=StoredToken("old", time.time() - 1), on_token=kept.append)
    assert [form["grant_type"] for form in script.forms] == ["password"]
    assert (kept[-1].access, kept[-1].refresh) == ("t1", "again")
    call(script, lambda client: client.get("/a"), token=kept[-1], login=None)
    assert script.forms[-1] == {"grant_type": "refresh_token", "refresh_token": "again"}
    with pytest.raises(ApiError, match="Log in again"):
        call(Scripted(saying(fine)), lambda client: client.get("/a"), token=StoredToken("old", 1), login=None)


def test_a_token_that_the_server_forgot_is_renewed_once_for_all_callers() -> None:
    async def handler(request: web.Request) -> web.Response:
        return fine() if request.headers["Authorization"] == "Bearer t1" else web.Response(status=401)

    async def many(client: Client) -> None:
        await asyncio.gather(*(client.get(f"/{number}") for number in range(5)))

    script = Scripted(handler)
    call(script, many, token=StoredToken("forgotten"))
    assert len(script.forms) == 1
    never = Scripted(saying(lambda: web.json_response({"statusCode": 401, "message": "No such key."}, status=401)))
    with pytest.raises(ApiError, match="401 No such key"):
        call(never, lambda client: client.get("/a"))
    assert len(never.forms) == 2


def test_a_request_is_retried_after_the_time_of_the_server() -> None:
    def later() -> web.Response:
        return web.Response(status=429, headers={"Retry-After": "1"})

    began = time.monotonic()
    script = Scripted(saying(later, lambda: web.Response(status=502), fine))
    assert call(script, lambda client: client.get("/a")) == {"id": 1}
    assert time.monotonic() - began >= 1
    too_late = Scripted(saying(lambda: web.Response(status=503, text="Later.", headers={"Retry-After": "3600"})))
    with pytest.raises(ApiError, match="503 Later") as refused:
        call(too_late, lambda client: client.get("/a"))
    assert (refused.value.status, len(too_late.seen)) == (503, 1)


def test_a_write_is_sent_again_with_its_key_and_never_without_one() -> None:
    script = Scripted(
        saying(lambda: web.Response(status=500), lambda: web.Response(status=409, headers={"Retry-After": "0"}), fine)
    )
    assert call(script, lambda client: client.write("PUT", "/cars", {"name": "A"})) == {"id": 1}
    assert len({request.headers["Idempotency-Key"] for request in script.seen}) == 1
    assert len(script.seen) == 3
    bare = Scripted(saying(lambda: web.Response(status=500), fine))
    assert call(bare, lambda client: client.call("PUT", "/cars", b"{}")).status == 500
    refused = Scripted(saying(lambda: web.Response(status=503, headers={"Retry-After": "0"}), fine))
    assert call(refused, lambda client: client.call("PUT", "/cars", b"{}")).status == 200
    unknown = Scripted(saying(lambda: web.Response(status=503), fine))  # the outcome is unknown
    assert call(unknown, lambda client: client.call("PUT", "/cars", b"{}")).status == 503


def test_closed_and_refused_connections() -> None:
    async def closing(request: web.Request) -> web.Response:
        if len(script.seen) < 3 and request.transport is not None:
            request.transport.abort()
        return fine()

    script = Scripted(closing)
    assert call(script, lambda client: client.get("/a")) == {"id": 1}
    script.seen.clear()
    with pytest.raises(ApiError, match="PUT /cars: ") as refused:
        call(script, lambda client: client.call("PUT", "/cars", b"{}"))
    assert refused.value.status is None

    async def alone() -> None:
        async with Client(ServerAddress(f"http://127.0.0.1:{free_port()}", "k"), ANN, patience=QUICK) as client:
            await client.get("/a")

    with pytest.raises(ApiError, match="oauth2/token: Cannot connect"):
        asyncio.run(alone())


@pytest.mark.parametrize(
    ("response", "text", "code"),
    [
        (lambda: web.Response(status=404, text="No car."), "GET /a: 404 No car.", None),
        (
            lambda: web.json_response({"title": "T", "detail": "No car.", "code": "car-not-found"}, status=404),
            "GET /a: 404 No car.",
            "car-not-found",
        ),
        (
            lambda: web.Response(status=301, headers={"Location": "https://b"}),
            "GET /a: 301 redirects to https://b",
            None,
        ),
        (lambda: web.Response(text="<html>"), "GET /a: 200, but the body is not JSON.", None),
    ],
)
def test_an_error_has_the_words_of_the_server(response: Any, text: str, code: str | None) -> None:
    with pytest.raises(ApiError) as refused:
        call(Scripted(saying(response)), lambda client: client.get("/a"))
    assert str(refused.value).startswith(text)
    assert refused.value.code == code


def test_the_size_of_an_answer_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "LONGEST", 1_000)
    with pytest.raises(ApiError, match="longer than 1,000 bytes"):
        call(Scripted(saying(lambda: web.json_response("x" * 2_000))), lambda client: client.get("/a"))


def listing(*known: str) -> Handler:
    """A list of 25 rows, from a server that supports these options."""

    async def handler(request: web.Request) -> web.Response:
        rows = [{"id": number} for number in range(1, 26)]
        asked = {name: value for name, value in request.query.items() if name in known}
        if "$filter" in asked:
            rows = [row for row in rows if row["id"] > int(asked["$filter"].rpartition(" ")[2])]
        rows = rows[int(asked.get("$skip", 0)) :]
        return web.json_response(rows[: int(asked.get("$top", 1_000))])

    return handler


@pytest.mark.parametrize(
    ("known", "requests"), [(("$filter", "$top"), 3), (("$skip", "$top"), 4), ((), 1)], ids=["filter", "skip", "none"]
)
@pytest.mark.parametrize("size", [10, 25])
def test_every_row_of_a_list_comes_once(known: tuple[str, ...], requests: int, size: int) -> None:
    async def walk(client: Client) -> list[int]:
        return [row["id"] async for page in client.pages("/cars", size=size) for row in page]

    script = Scripted(listing(*known))
    assert call(script, walk) == list(range(1, 26))
    assert size == 25 or len(script.seen) == requests


def test_lists_of_a_real_server(server: RunningServer, alice: Person) -> None:
    cars = [alice.car(f"Car {number}") for number in range(7)]

    async def run() -> list[list[int]]:
        access = ServerAddress(f"{server.url}/v3", alice.api_key, alice.customer)
        async with Client(access, Login(alice.username, alice.password)) as client:
            query = {"$filter": f"id ge {cars[1]} and name ne 'a+b'", "$select": "id"}
            return [[row["id"] for row in page] async for page in client.pages("/cars", query=query, size=4)]

    assert asyncio.run(run()) == [cars[1:5], cars[5:]]
