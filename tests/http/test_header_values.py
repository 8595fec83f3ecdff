"""Heads of requests by RFC 9110 and 9112: white space around values, Host, transfer codings, absolute addresses."""

from __future__ import annotations

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from keyrack.core.settings import Settings
from keyrack.http.connections import protocol
from tests.http.test_hostile_input import Line, Reply
from tests.support.people import Person
from tests.support.servers import RunningServer

BLANKS = ("", " ", "\t", " \t ")
BODY = b'{"name": "Blanks"}'


def sent(server: RunningServer, start: str, lines: list[str], body: bytes = b"") -> Reply:
    with Line(server) as line:
        line.send("\r\n".join([start, *lines, "", ""]).encode("latin-1") + body)
        return line.reply()


@pytest.mark.parametrize("before", BLANKS)
@pytest.mark.parametrize("after", BLANKS)
def test_white_space_around_a_value_is_no_part_of_it(
    server: RunningServer, alice: Person, before: str, after: str
) -> None:
    """Each header that a write reads at once: a wrong value of any of them would be refused."""
    headers = alice.headers | {
        "Host": "keyrack", "Accept": "application/json", "Accept-Encoding": "identity", "Connection": "close",
        "Content-Type": "application/json", "Content-Length": str(len(BODY)), "Content-Encoding": "identity",
        "Prefer": "return=representation", "Idempotency-Key": f"blanks-{before!r}-{after!r}",
    }  # fmt: skip
    lines = [f"{name}:{before}{value}{after}" for name, value in headers.items()]
    reply = sent(server, "PUT /v3/cars HTTP/1.1", lines, BODY)
    assert (reply.status, '"name":"Blanks"' in reply.text) == (201, True), reply


@pytest.mark.parametrize("name", ["If-None-Match", "Keyrack-Position", "Last-Event-ID", "If-Modified-Since", "Prefer"])
@pytest.mark.parametrize("value", ["", " ", "\t\t"])
def test_a_header_without_a_value_is_missing(server: RunningServer, alice: Person, name: str, value: str) -> None:
    lines = [f"{key}: {text}" for key, text in alice.headers.items()]
    assert sent(server, "GET /v3/cars HTTP/1.1", ["Host: keyrack", *lines, f"{name}:{value}"]).status == 200


@pytest.mark.parametrize(("name", "status"), [("If-Match", 400), ("Idempotency-Key", 400), ("Prefer", 201)])
def test_a_guard_without_a_value_is_refused(server: RunningServer, alice: Person, name: str, status: int) -> None:
    """The write would be done unguarded."""
    headers = alice.headers | {"Host": "keyrack", "Content-Type": "application/json", "Content-Length": str(len(BODY))}
    lines = [f"{key}: {text}" for key, text in headers.items()]
    path, body = ("/v3/cars", BODY)
    if name == "If-Match":
        path, body = f"/v3/cars/{alice.car()}", b'[{"op":"add"}]'
        lines = [line for line in lines if not line.startswith("Content-")]
        lines += ["Content-Type: application/json-patch+json", f"Content-Length: {len(body)}"]
    method = "PATCH" if name == "If-Match" else "PUT"
    assert sent(server, f"{method} {path} HTTP/1.1", [*lines, f"{name}: "], body).status == status


@pytest.mark.parametrize("blanks", [" ", "  ", "   "])
def test_blanks_behind_bearer(server: RunningServer, alice: Person, blanks: str) -> None:
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    lines = [f"{key}: {text}" for key, text in alice.headers.items() if key != "Authorization"]
    lines += ["Host: keyrack", f"Authorization: Bearer{blanks}{token} "]
    assert sent(server, "GET /v3/cars HTTP/1.1", lines).status == 200


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", [], 400), ("1.1", ["a", "b"], 400), ("1.1", ["a", "a"], 400), ("1.1", ["a"], 200), ("1.1", [""], 200),
     ("1.0", [], 200), ("1.0", ["a"], 200)],
)  # fmt: skip
def test_a_request_has_one_host(server: RunningServer, version: str, hosts: list[str], status: int) -> None:
    reply = sent(server, f"GET /v3/health HTTP/{version}", [f"Host: {host}" for host in hosts])
    assert reply.status == status
    assert (status == 200) == ("exactly one Host" not in reply.text)


def test_a_fault_of_one_request_is_not_that_of_the_next(server: RunningServer) -> None:
    """Two requests on one connection: the counts begin anew."""
    with Line(server) as line:
        for _ in range(2):
            line.send(b"GET /v3/health HTTP/1.1\r\nHost: keyrack\r\n\r\n")
            assert line.reply().status == 200


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip", "identity", "chunked, chunked"])
def test_another_transfer_coding_is_not_implemented(server: RunningServer, alice: Person, coding: str) -> None:
    lines = ["Host: keyrack", *(f"{key}: {text}" for key, text in alice.headers.items())]
    lines += ["Content-Type: application/json", f"Transfer-Encoding: {coding}"]
    assert sent(server, "PUT /v3/cars HTTP/1.1", lines).status in (400, 501)


@pytest.mark.parametrize("target", ["http://keyrack", "HTTP://keyrack:80", "http://keyrack?a=b", "http://keyrack/"])
def test_an_absolute_address_without_a_path_is_the_root(server: RunningServer, target: str) -> None:
    root = sent(server, "GET / HTTP/1.1", ["Host: keyrack"])
    assert sent(server, f"GET {target} HTTP/1.1", ["Host: keyrack"]).status == root.status != 400


def test_a_uvicorn_without_an_overridden_method_is_refused_at_the_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(HttpToolsProtocol, "_start_asgi_task")
    with pytest.raises(RuntimeError, match=r"uvicorn [\d.]+ has no _start_asgi_task"):
        protocol(settings)
