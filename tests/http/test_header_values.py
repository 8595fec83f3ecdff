"""Request heads by RFC 9110 and 9112: white space, Host, transfer codings and absolute addresses."""

from __future__ import annotations

import ast
import asyncio
import importlib
import re
import socket
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import keyrack
from keyrack.core.settings import Settings
from keyrack.http.connections import protocol
from tests.http.test_hostile_input import Line, Reply
from tests.support.people import Person
from tests.support.servers import RunningServer

SOURCE = Path(keyrack.__file__).parent
BLANKS = ("", " ", "\t", " \t ")
MODULES = [file for package in ("http", "console", "auth") for file in (SOURCE / package).rglob("*.py")]
BODY = b'{"name": "Blanks"}'


def sent(server: RunningServer, start: str, lines: list[str], body: bytes = b"") -> Reply:
    with Line(server) as line:
        line.send("\r\n".join([start, *lines, "", ""]).encode("latin-1") + body)
        return line.reply()


def values(operands: Sequence[ast.expr], module: ModuleType) -> list[object]:
    """Return the values of literals and module constants among the operands."""
    return [
        operand.value if isinstance(operand, ast.Constant) else vars(module).get(ast.unparse(operand))
        for operand in operands
    ]


# A text without a match has no node that `read_headers` looks for
READS_HEADERS = re.compile(r"get_header|headers\(|\bname(?:\.lower\(\))? (?:[=!<>]|(?:in|not|is)\b)")


def read_headers() -> set[str]:
    """Return the names of all headers that Keyrack reads.

    Finds calls of `get_header`, a page's `headers` and comparisons with a name.
    """
    names = set[str]()
    for file in MODULES:
        module = importlib.import_module(".".join(("keyrack", *file.relative_to(SOURCE).with_suffix("").parts)))
        text = file.read_text()
        for node in ast.walk(ast.parse(text)) if READS_HEADERS.search(text) else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                operands = node.args[:1] if node.func.attr in ("get_header", "headers") else []
                names |= {name for name in values(operands, module) if isinstance(name, str)}
            elif isinstance(node, ast.Compare) and ast.unparse(node.left) in ("name", "name.lower()"):
                names |= {name.decode() for name in values(node.comparators, module) if isinstance(name, bytes)}
    return {name.title() for name in names} | {"Vendor-Api-Key"}


async def received_headers(settings: Settings, head: bytes) -> dict[str, str]:
    """Return the headers that an application behind the server's protocol receives."""
    got: dict[str, str] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        got.update({name.decode().title(): value.decode() for name, value in scope["headers"]})
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    config = uvicorn.Config(app, port=0, http=protocol(settings), lifespan="off", log_config=None)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*listener.getsockname())
        writer.write(head)
        await reader.readuntil(b"\r\n\r\n")
        writer.close()
        server.should_exit = True
        await serving
    return got


@pytest.mark.parametrize("before", BLANKS)
@pytest.mark.parametrize("after", BLANKS)
def test_white_space_around_header_values_is_stripped(settings: Settings, before: str, after: str) -> None:
    names = read_headers()
    assert {"Customer-Id", "Device-Key", "Authorization", "Traceparent", "Range", "Cookie", "Keyrack-Position"} <= names
    values = {name: f"a  b,\tc of {name}" for name in names} | {"Transfer-Encoding": "chunked", "Host": "keyrack"}
    lines = [f"{name}:{before}{value}{after}" for name, value in values.items()]
    head = "\r\n".join(["PUT / HTTP/1.1", *lines, "", "0", "", ""]).encode()
    assert asyncio.run(received_headers(settings, head)) == values


@pytest.mark.parametrize("before", BLANKS)
@pytest.mark.parametrize("after", BLANKS)
def test_a_write_with_white_space_around_header_values_succeeds(
    server: RunningServer, alice: Person, before: str, after: str
) -> None:
    """Sends every header that a write reads. A wrong value of any of them would be an error."""
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
def test_empty_preconditions_and_keys_are_rejected(
    server: RunningServer, alice: Person, name: str, status: int
) -> None:
    """Otherwise the write would be done without its guard."""
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
def test_blanks_after_bearer_are_accepted(server: RunningServer, alice: Person, blanks: str) -> None:
    token = alice.headers["Authorization"].removeprefix("Bearer ")
    lines = [f"{key}: {text}" for key, text in alice.headers.items() if key != "Authorization"]
    lines += ["Host: keyrack", f"Authorization: Bearer{blanks}{token} "]
    assert sent(server, "GET /v3/cars HTTP/1.1", lines).status == 200


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [("1.1", [], 400), ("1.1", ["a", "b"], 400), ("1.1", ["a", "a"], 400), ("1.1", ["a"], 200), ("1.1", [""], 200),
     ("1.0", [], 200), ("1.0", ["a"], 200)],
)  # fmt: skip
def test_a_request_needs_exactly_one_host(server: RunningServer, version: str, hosts: list[str], status: int) -> None:
    reply = sent(server, f"GET /v3/health HTTP/{version}", [f"Host: {host}" for host in hosts])
    assert reply.status == status
    assert (status == 200) == ("exactly one Host" not in reply.text)


@pytest.mark.parametrize(
    ("host", "status"),
    [("keyrack.example:443", 200), ("127.0.0.1:8080", 200), ("[::1]:80", 200), ("under_score", 200), ("k%41", 200),
     ("a b", 400), ("x@y", 400), ("x/z", 400), ("[::1", 400), ("a:b", 400), ("a:80:90", 400), ("%zz", 400), ("é", 400)],
)  # fmt: skip
def test_a_host_must_be_well_formed(server: RunningServer, host: str, status: int) -> None:
    assert sent(server, "GET /v3/health HTTP/1.1", [f"Host: {host}"]).status == status


CHUNKS = b'5\r\n{"nam\r\n' + f"{len(BODY) - 5:x}\r\n".encode() + BODY[5:] + b"\r\n"


def chunked(person: Person, *without: str) -> list[str]:
    """Return the head of a write with a chunked body."""
    lines = [f"{key}: {text}" for key, text in person.headers.items() if key not in without]
    return ["Host: keyrack", *lines, "Content-Type: application/json", "Transfer-Encoding: chunked"]


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("name", ["Authorization", "Customer-ID", "If-None-Match", "Host", "Idempotency-Key"])
def test_trailers_are_not_read_as_headers(server: RunningServer, alice: Person, name: str, is_split: bool) -> None:
    headers = {"Customer-ID": "2147483647", "If-None-Match": "*", "Host": "b", "Idempotency-Key": '""'} | alice.headers
    is_needed = name == "Authorization"
    head = "\r\n".join(["PUT /v3/cars HTTP/1.1", *chunked(alice, *[name] * is_needed), "", ""]).encode()
    trailer = f"0\r\n{name}: {headers[name]}\r\nX-Other: 1\r\n\r\n".encode()
    with Line(server) as line:
        for part in (head + CHUNKS, trailer) if is_split else (head + CHUNKS + trailer,):
            line.send(part)
        assert line.reply().status == (401 if is_needed else 201)


@pytest.mark.parametrize("kind", ["trailers", "one trailer", "extensions"])
def test_trailers_and_chunk_extensions_are_limited(server: RunningServer, alice: Person, kind: str) -> None:
    head = "\r\n".join(["PUT /v3/cars HTTP/1.1", *chunked(alice), "", ""]).encode()
    more = {
        "trailers": [b"0\r\n", *[b"X-%d: %s\r\n" % (n, b"x" * 50_000) for n in range(200)]],
        "one trailer": [b"0\r\nX: ", *[b"x" * 50_000] * 200],
        "extensions": [b"1;%s\r\n \r\n" % (b"x" * 50_000)] * 200,
    }[kind]
    with Line(server) as line:
        line.send(head + CHUNKS)
        sent_parts = 0
        while sent_parts < len(more) and line.send(more[sent_parts]):
            sent_parts += 1
        assert sent_parts < len(more) or line.closed()


def test_many_small_chunks_are_read(server: RunningServer, alice: Person) -> None:
    body = b'{"name": "Small chunks", "description": "' + b"x" * 4_000 + b'"}'
    head = "\r\n".join(["PUT /v3/cars HTTP/1.1", *chunked(alice), "", ""]).encode()
    with Line(server) as line:
        line.send(head)
        for byte in body:
            line.send(b"1\r\n%c\r\n" % byte)
        line.send(b"0\r\n\r\n")
        assert line.reply().status == 201


def test_counters_are_reset_for_each_request(server: RunningServer) -> None:
    """Sends two requests on one connection."""
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
def test_an_absolute_target_without_a_path_is_the_root(server: RunningServer, target: str) -> None:
    root = sent(server, "GET / HTTP/1.1", ["Host: keyrack"])
    assert sent(server, f"GET {target} HTTP/1.1", ["Host: keyrack"]).status == root.status != 400


def test_startup_rejects_a_uvicorn_without_an_overridden_method(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(HttpToolsProtocol, "_start_asgi_task")
    with pytest.raises(RuntimeError, match=r"uvicorn [\d.]+ has no _start_asgi_task"):
        protocol(settings)
