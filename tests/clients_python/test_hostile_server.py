"""The client against a server that is hostile, or is not Keyrack."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from keyrack_client import AsyncKeyrack, Keyrack, KeyrackError, errors, operations

OPTIONS: dict[str, Any] = {"api_key": "k", "client_id": "i", "client_secret": "s", "attempts": 2}
TOKEN: dict[str, Any] = {"access_token": "the-token", "expires_in": 3600}
JSON = {"Content-Type": "application/json"}
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    def sleep(seconds: float) -> None:
        """Pauses take no time."""

    monkeypatch.setattr("keyrack_client._sync.time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))


def transport(answer: Answer, token: dict[str, Any] = TOKEN) -> httpx.MockTransport:
    def respond(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=token) if request.url.path == "/oauth2/token" else answer(request)

    return httpx.MockTransport(respond)


def client(answer: Answer, token: dict[str, Any] = TOKEN, **options: Any) -> Keyrack:
    http = httpx.Client(transport=transport(answer, token), follow_redirects=True)
    return Keyrack("http://x", http=http, **OPTIONS | options)


def always(status: int, content: bytes, **headers: str) -> Answer:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda request: httpx.Response(status, headers=JSON | sent, content=content)


@pytest.mark.parametrize("seconds", ["Mon, 01 Jan 99999999999999999999 00:00:00 GMT", "9" * 5_000, "-1", "nan"])
def test_a_senseless_retry_after_is_an_api_error(seconds: str) -> None:
    with client(always(503, b"", Retry_After=seconds)) as keyrack, pytest.raises(errors.ServerError):
        keyrack.cars.get(1)


@pytest.mark.parametrize("status", [200, 400])
@pytest.mark.parametrize(
    ("content", "type"),
    [
        (b"[" * 200_000, "application/json"), (b"abc", "text/plain; charset=zlib_codec"),
        (b"abc", "text/plain; charset=idna"), (b"\xff", "application/json"),
    ],
)  # fmt: skip
def test_an_unreadable_body_is_an_error_of_the_package(status: int, content: bytes, type: str) -> None:
    with client(always(status, content, Content_Type=type)) as keyrack, pytest.raises(KeyrackError):
        keyrack.cars.get(1)


@pytest.mark.parametrize("page", [[{"id": 1}], [{"id": 3}, {"id": 2}], [{}], [1], {"id": 1}, None])
def test_a_list_without_an_end_is_an_error(page: Any) -> None:
    """The server ignores the filter, so each page is the first one."""
    answer = always(200, json.dumps(page).encode())
    with client(answer) as keyrack:
        with pytest.raises(KeyrackError, match=r"order of their ids|not a list"):
            list(keyrack.cars.list())
        with pytest.raises(KeyrackError, match=r"order of their ids|not a list"):
            list(keyrack.changes(since="epoch:1", wait=None))

    async def read() -> None:
        async with httpx.AsyncClient(transport=transport(answer)) as http:
            async for _ in AsyncKeyrack("http://x", http=http, **OPTIONS).cars.list():
                pass

    with pytest.raises(KeyrackError, match=r"order of their ids|not a list"):
        asyncio.run(read())


def test_a_large_body_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed body of some kilobytes can have gigabytes."""
    monkeypatch.setattr("keyrack_client._core.LONGEST_BODY", 1_000_000)
    bomb = always(200, gzip.compress(b" " * 5_000_000 + b"1"), Content_Encoding="gzip")
    with client(bomb) as keyrack, pytest.raises(KeyrackError, match="larger than 1000000 bytes"):
        keyrack.cars.get(1)
    fits = always(200, gzip.compress(b" " * 900_000 + b"1"), Content_Encoding="gzip")
    with client(fits) as keyrack:
        assert keyrack.cars.get(1) == 1

    async def read() -> None:
        async with httpx.AsyncClient(transport=transport(bomb)) as http:
            await AsyncKeyrack("http://x", http=http, **OPTIONS).cars.get(1)

    with pytest.raises(KeyrackError, match="larger than 1000000 bytes"):
        asyncio.run(read())


@pytest.mark.parametrize("content", [b"", b"[]", b"{}"])
def test_an_accepted_write_without_its_operation_is_an_error(content: bytes) -> None:
    with client(always(200, content)) as keyrack, pytest.raises(KeyrackError, match="Is the URL that of Keyrack"):
        keyrack.assignments.create(carId=1, userId=2, start="2030-05-01T00:00:00Z")


def test_a_redirect_gets_no_secret() -> None:
    """httpx would follow the redirect, with the API key."""
    hosts: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(307, headers={"Location": "http://other.example/"})

    with client(redirect) as keyrack, pytest.raises(errors.ApiError, match="307"):
        keyrack.cars.get(1)
    assert hosts == ["x"]


def test_no_error_shows_a_secret() -> None:
    """A line break after a secret is common in files of secrets."""
    with pytest.raises(ValueError, match="api_key has") as error:
        client(always(200, b"{}"), api_key="my-api-key\n")
    assert "my-api-key" not in str(error.value)
    with (
        client(always(200, b"{}"), {"access_token": "my-token\r\nX: y", "expires_in": 3600}) as keyrack,
        pytest.raises(KeyrackError, match="did not return a token") as failure,
    ):
        keyrack.cars.get(1)
    assert "my-token" not in str(failure.value)


@pytest.mark.parametrize("id", ["", ".", ".."])
def test_an_id_does_not_change_the_path(id: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        operations.getOperation.fill((id,))
    assert operations.getOperation.fill(("../cars",)) == "/operations/..%2Fcars"
