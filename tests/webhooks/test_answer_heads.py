"""The status line decides a delivery, whatever the endpoint sends after the head."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from keyrack.core.ssrf_guard import Guard
from keyrack.webhooks.answer_heads import MAX_BYTES, AnswerHead
from keyrack.webhooks.delivery_errors import CLOSED, NO_HTTP
from keyrack.webhooks.sender import Sender
from tests.webhooks.delivery_database import LOCAL, plain_request
from tests.webhooks.test_delivery import raw_server, send

Script = Callable[[socket.socket], None]
BRIEF = LOCAL.model_copy(update={"webhook_timeout": 1.0})


def reset(connection: socket.socket) -> None:
    """Close with RST instead of FIN."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def until_closed(connection: socket.socket) -> None:
    while connection.recv(65_536):
        pass


def sends(*parts: bytes, then: Script | None = None) -> Script:
    def script(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for part in parts:
            connection.sendall(part)
        if then is not None:
            then(connection)

    return script


def drips(connection: socket.socket) -> None:
    """An endless body in small chunks, sent as fast as the client reads."""
    with contextlib.suppress(OSError):
        while True:
            connection.sendall(b"1\r\nx\r\n")


OK = b"HTTP/1.1 200 OK\r\n"
BEHIND_THE_HEAD: dict[str, Script] = {
    "too long": sends(OK + b"Content-Length: 1\r\n\r\nok, thank you"),
    "too short": sends(OK + b"Content-Length: 9\r\n\r\nok"),
    "no number": sends(OK + b"Content-Length: many\r\n\r\nok"),
    "negative": sends(OK + b"Content-Length: -1\r\n\r\nok"),
    "two lengths": sends(OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\nok"),
    "length and chunked": sends(OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "no chunk": sends(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nok"),
    "no chunk, later": sends(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\nok\r\n", b"zz\r\nok"),
    "broken chunk": sends(OK + b"Transfer-Encoding: chunked\r\n\r\n9\r\nok"),
    "unknown coding": sends(OK + b"Transfer-Encoding: pigeon\r\n\r\nok"),
    "no gzip": sends(OK + b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"),
    "reset": sends(OK + b"Content-Length: 9\r\n\r\n", then=reset),
    "silent": sends(OK + b"Content-Length: 9\r\n\r\nok", then=until_closed),
    "endless": sends(OK + b"Transfer-Encoding: chunked\r\n\r\n", then=drips),
    "until the end": sends(OK + b"\r\nok"),
    "HTTP/1.0": sends(b"HTTP/1.0 200 OK\r\n\r\nok"),
    "no reason": sends(b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
    "line feeds": sends(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"),
    "a wrong header": sends(OK + b"Content Type: text\r\nContent-Length: 2\r\n\r\nok"),
    "interim": sends(b"HTTP/1.1 100 Continue\r\n\r\n" + OK + b"Content-Length: 2\r\n\r\nok"),
    "two interim": sends(b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n" * 2, OK + b"Content-Length: 1\r\n\r\nok"),
    "piece by piece": sends(*(bytes([byte]) for byte in OK + b"Content-Length: 1\r\n\r\nok")),
}


@pytest.mark.parametrize("script", BEHIND_THE_HEAD.values(), ids=BEHIND_THE_HEAD)
def test_a_status_counts_whatever_follows_the_head(script: Script) -> None:
    with raw_server(script) as url:
        attempt = send(url, BRIEF)
    assert (attempt.status, attempt.succeeded, attempt.error, attempt.hidden) == (200, True, None, None)


@pytest.mark.parametrize("body", [b"ok", b"0\r\n\r\n", b"HTTP/1.1 500 No\r\n\r\n"])
@pytest.mark.parametrize("length", [b"", b"Content-Length: 2\r\n", b"Transfer-Encoding: chunked\r\n"])
@pytest.mark.parametrize("status", [204, 304])
def test_a_forbidden_body_is_ignored(status: int, length: bytes, body: bytes) -> None:
    with raw_server(sends(b"HTTP/1.1 %d Status\r\n%s\r\n%s" % (status, length, body))) as url:
        attempt = send(url, BRIEF)
    assert (attempt.status, attempt.answer, attempt.succeeded) == (status, None, status == 204)


@pytest.mark.parametrize("status", [400, 410, 429, 500, 503])
def test_an_error_status_counts_whatever_follows_the_head(status: int) -> None:
    head = b"HTTP/1.1 %d No\r\nRetry-After:  77 \r\nContent-Length: x\r\n\r\n"
    with raw_server(sends(head % status)) as url:
        attempt = send(url, BRIEF)
    assert (attempt.status, attempt.retry_after) == (status, 77.0)
    assert attempt.error == f"The endpoint answered {status}."


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (sends(OK + b"Content-Length: 2"), CLOSED.text),
        (sends(OK, then=reset), CLOSED.text),
        (sends(b"HTTP/1.1 100 Continue\r\n\r\n"), CLOSED.text),
        (sends(b"HTTP/1.1 2000 OK\r\n\r\n"), NO_HTTP.text),
        (sends(b"ICY 200 OK\r\n\r\n"), NO_HTTP.text),
        (sends(b"200 OK\r\n\r\n"), NO_HTTP.text),
    ],
)
def test_an_answer_with_an_incomplete_head_fails(script: Script, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "is_public", lambda *_: True)
    with raw_server(script) as url:
        attempt = send(url, BRIEF)
    assert (attempt.status, attempt.succeeded, attempt.error) == (None, False, error)


def test_a_reused_connection_keeps_answers_apart() -> None:
    """The second answer of a connection decides the second delivery.

    An answer with surplus bytes ends its connection.
    """
    answers = [b"204 No", b"500 No", b"204 No\r\nContent-Length: 2\r\n\r\nok", b"200 OK"]
    opened: list[Any] = []

    def script(connection: socket.socket) -> None:
        opened.append(connection)
        while answers:
            answer = answers.pop(0)
            connection.sendall(b"HTTP/1.1 " + answer + (b"" if b"\r\n" in answer else b"\r\nContent-Length: 0\r\n\r\n"))
            if not connection.recv(65_536):
                return

    async def statuses(url: str) -> list[int | None]:
        sender = Sender(BRIEF)
        try:
            return [(await sender.send(plain_request(url))).status for _ in range(4)]
        finally:
            await sender.close()

    with raw_server(script) as url:
        assert asyncio.run(statuses(url)) == [204, 500, 204, 200]
    assert len(opened) == 2


def test_the_size_of_a_head_is_limited() -> None:
    head = AnswerHead()
    for _ in range(MAX_BYTES // 1_024 + 1):
        head.feed(b"HTTP/1.1 100 Continue\r\n\r\n".ljust(1_024, b"x"))
    head.feed(b"\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")
    assert head.status is None
