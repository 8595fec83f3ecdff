"""Hostile input gets a clear 4xx, never a 500 or stack trace."""

from __future__ import annotations

import base64
import json
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from keyrack.api.auth_schemes import CustomerAuth
from keyrack.api.endpoint import Endpoint, JsonBody
from keyrack.core.settings import Settings
from keyrack.http.routes import ALL
from keyrack.offline_keys.public_key import EXAMPLE_THUMBPRINT
from tests.http.test_contract import called, each, over, path_of, query_of
from tests.http.test_tenant_isolation import fixed_paths
from tests.support.people import Person, refused
from tests.support.servers import DEADLINE, RunningServer, eventually

JSON = {"Content-Type": "application/json"}
TOO_LARGE = "The body must be smaller than 1000000 bytes."
HEAD_TOO_LARGE = "The head of the request is too large."
HEAD_TOO_SLOW = "The head of the request took too long to arrive."
BODY_TOO_SLOW = "The body of the request took too long to arrive."


@pytest.fixture(autouse=True)
def alive(alice: Person) -> Iterator[None]:
    """Check after each test that the server still responds."""
    yield
    assert alice.get("/health").status_code == 200


@pytest.fixture(scope="module")
def hasty(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with a short timeout for requests."""
    with RunningServer(settings.model_copy(update={"request_read_timeout_seconds": 0.4}), dsn, worker=False) as running:
        yield running


def clear(answer: httpx.Response | Reply, *statuses: int) -> None:
    """Check that the response names the client's error and no internals."""
    status = answer.status_code if isinstance(answer, httpx.Response) else answer.status
    text = answer.text
    assert status in statuses, (status, text)
    assert text
    for word in ("Traceback", 'File "', "asyncpg", "pydantic", "Exception", "keyrack/"):
        assert word not in text


# Raw connections


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str


class Line:
    """A raw connection without the checks of a client library."""

    def __init__(self, server: RunningServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> bool:
        """Send the data. Returns False if the peer has gone."""
        try:
            self._socket.sendall(data)
        except OSError:
            return False
        return True

    def reply(self, *, bare: bool = False) -> Reply:
        """Read the next response. `bare` means a response to HEAD."""
        status = self._file.readline()
        assert status.startswith(b"HTTP/1.1 "), status
        headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            key, _, value = line.decode("latin-1").partition(":")
            headers[key.lower()] = value.strip()
        body = b"" if bare else self._file.read(int(headers.get("content-length", "0")))
        return Reply(int(status.split()[1]), headers, body.decode())

    def answered(self, seconds: float) -> bool:
        """Whether data arrives within the time."""
        return bool(select.select([self._socket], [], [], seconds)[0])

    def closed(self) -> bool:
        """Wait, and return whether the server closes the connection."""
        try:
            return self._file.read() == b""
        except ConnectionResetError:
            return True


def head(person: Person, method: str, path: str, *more: str) -> bytes:
    """Return the head of a valid request."""
    lines = [
        f"{method} {path} HTTP/1.1",
        "Host: keyrack",
        *(f"{key}: {value}" for key, value in person.headers.items()),
    ]
    return "\r\n".join([*lines, *more, "", ""]).encode("latin-1")


def test_a_declared_megabyte_is_rejected_before_the_body(server: RunningServer, alice: Person) -> None:
    for more in ((), ("Expect: 100-continue",)):
        with Line(server) as line:
            line.send(
                head(alice, "PUT", "/v3/cars", "Content-Type: application/json", "Content-Length: 1000000", *more)
            )
            reply = line.reply()
            assert (reply.status, reply.text) == (413, TOO_LARGE)


@pytest.mark.parametrize("declared", ["999999999999999999", "18446744073709551615"])
def test_an_absurd_content_length_is_rejected(server: RunningServer, alice: Person, declared: str) -> None:
    with Line(server) as line:
        line.send(head(alice, "PUT", "/v3/cars", "Content-Type: application/json", f"Content-Length: {declared}"))
        clear(line.reply(), 400, 413)


def test_a_client_that_sends_a_whole_large_body_gets_413(alice: Person) -> None:
    answer = alice.put("/cars", content=b" " * 12_000_000, headers=JSON)
    refused(answer, 413, TOO_LARGE)


def test_endless_chunks_get_413(server: RunningServer, alice: Person) -> None:
    with Line(server) as line:
        line.send(head(alice, "PUT", "/v3/cars", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        chunk = b"10000\r\n" + b" " * 65_536 + b"\r\n"
        for _ in range(17):
            line.send(chunk)
        reply = line.reply()
        assert (reply.status, reply.text) == (413, TOO_LARGE)


def test_chunks_that_fit_are_read(alice: Person) -> None:
    def parts() -> Iterator[bytes]:
        yield from (b'{"na', b'me": ', b'"Chunky"}')

    assert alice.put("/cars", content=parts(), headers=JSON).status_code == 201


@pytest.mark.parametrize("size", [32_768, 60_000, 300_000])
def test_a_large_header_gets_431(server: RunningServer, alice: Person, size: int) -> None:
    with Line(server) as line:
        line.send(head(alice, "GET", "/v3/cars", "X-Large: " + "x" * size))
        reply = line.reply()
        assert (reply.status, reply.text) == (431, HEAD_TOO_LARGE)
        assert line.closed()


def test_a_large_path_gets_431(server: RunningServer, alice: Person) -> None:
    with Line(server) as line:
        line.send(head(alice, "GET", "/v3/cars/" + "1" * 40_000))
        assert line.reply().status == 431


def test_headers_below_the_limit_are_accepted(alice: Person) -> None:
    assert alice.get("/cars", headers={"X-Large": "x" * 30_000}).status_code == 200
    body = json.dumps({"name": "A", "description": "x" * 4000, "unknown": "x" * 100_000})
    assert alice.put("/cars", content=body, headers={**JSON, "X-Large": "x" * 30_000}).status_code == 201


def test_endless_headers_end_the_connection(server: RunningServer) -> None:
    with Line(server) as line:
        line.send(b"GET / HTTP/1.1\r\n")
        sent = 0
        while sent < 1000 and line.send(b"X-More: " + b"x" * 500 + b"\r\n"):
            sent += 1
        assert sent < 1000 or line.closed()


def test_too_many_headers_get_431(server: RunningServer) -> None:
    with Line(server) as line:
        line.send(b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: x\r\n" % number for number in range(4_000)))
        reply = line.reply()
        assert (reply.status, reply.text) == (431, HEAD_TOO_LARGE)
        assert line.closed()


@pytest.mark.parametrize("start", [b"", b"G", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET / HTTP/1.1\r\nX: "])
def test_a_slow_head_gets_408(hasty: RunningServer, start: bytes) -> None:
    with Line(hasty) as line:
        line.send(start)
        reply = line.reply()
        assert (reply.status, reply.text) == (408, HEAD_TOO_SLOW)
        assert line.closed()


def test_a_head_that_arrives_byte_by_byte_gets_408(hasty: RunningServer) -> None:
    """The timeout starts with the first byte. Later bytes do not reset it."""
    with Line(hasty) as line:
        line.send(b"GET /")
        eventually(lambda: line.answered(0.05) or not line.send(b"x"), "an answer though bytes keep coming")
        reply = line.reply()
        assert (reply.status, reply.text) == (408, HEAD_TOO_SLOW)


def test_a_slow_second_head_gets_408(hasty: RunningServer) -> None:
    with Line(hasty) as line:
        line.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert line.reply().status == 200
        line.send(b"GET / HT")
        assert line.reply().status == 408
        assert line.closed()


@pytest.mark.parametrize("start", [b"", b"{"])
def test_a_slow_body_gets_408(hasty: RunningServer, alice: Person, start: bytes) -> None:
    with Line(hasty) as line:
        line.send(head(alice, "PUT", "/v3/cars", "Content-Type: application/json", "Content-Length: 10") + start)
        reply = line.reply()
        assert (reply.status, reply.text) == (408, BODY_TOO_SLOW)
        assert line.closed()


def test_slow_chunks_get_408(hasty: RunningServer, alice: Person) -> None:
    with Line(hasty) as line:
        line.send(head(alice, "PUT", "/v3/cars", "Content-Type: application/json", "Transfer-Encoding: chunked"))
        line.send(b"1\r\n{\r\n")
        assert line.reply().status == 408
        assert line.closed()


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("PUT", 413)])
def test_an_unread_body_closes_the_connection(hasty: RunningServer, alice: Person, method: str, status: int) -> None:
    with Line(hasty) as line:
        line.send(head(alice, method, "/v3/cars", "Content-Type: application/json", "Content-Length: 2000000") + b" ")
        assert line.reply().status == status
        line.send(b" ")
        assert line.closed()


def test_pipelined_requests_are_answered_in_order(server: RunningServer, alice: Person) -> None:
    body = b'{"name": "Pipelined"}'
    put = head(alice, "PUT", "/v3/cars", "Content-Type: application/json", f"Content-Length: {len(body)}") + body
    with Line(server) as line:
        line.send(put + head(alice, "GET", "/v3/customers") + head(alice, "GET", "/v3/nothing") + put)
        assert [line.reply().status for _ in range(4)] == [201, 200, 404, 201]


def test_a_head_in_single_bytes_is_read(server: RunningServer, alice: Person) -> None:
    request = head(alice, "GET", "/v3/customers")
    with Line(server) as line:
        for byte in request:
            line.send(bytes([byte]))
        assert line.reply().status == 200


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00\x00\x00\x00\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / FTP/1.1\r\n\r\n",
        b"HELLO / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad name: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PUT / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PUT /v3/cars HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /cars/\xff HTTP/1.1\r\n\r\n",
        b"GET /cars\0 HTTP/1.1\r\n\r\n",
        b"GET cars HTTP/1.1\r\n\r\n",
        b"CONNECT example.org:443 HTTP/1.1\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_bytes_that_are_not_http_get_400(server: RunningServer, data: bytes) -> None:
    with Line(server) as line:
        line.send(data)
        clear(line.reply(), 400, 401)


@pytest.mark.parametrize("target", ["*", "http://keyrack/v3/cars", "//cars", "/v3//cars", "/../cars", "/v3/../v3/cars"])
@pytest.mark.parametrize("method", ["GET", "OPTIONS"])
def test_strange_request_targets_get_no_500(server: RunningServer, alice: Person, method: str, target: str) -> None:
    with Line(server) as line:
        line.send(head(alice, method, target))
        assert line.reply().status in (200, 400, 404, 405)


@pytest.mark.parametrize(
    "more",
    [
        [
            "Connection: Upgrade",
            "Upgrade: websocket",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
        ],
        ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"],
    ],
    ids=["websocket", "h2c"],
)
def test_protocol_upgrades_are_ignored(server: RunningServer, alice: Person, more: list[str]) -> None:
    with Line(server) as line:
        line.send(head(alice, "GET", "/v3/customers", *more))
        reply = line.reply()
        assert (reply.status, json.loads(reply.text)[0]["id"]) == (200, str(alice.customer))


# Paths and queries


@pytest.mark.parametrize(
    "path", ["/cars/%FF", "/cars/%00", "/cars/%zz", "/cars/%ED%A0%80", "/cars/%F0%9F%9A%97", "/cars/%"]
)
def test_invalid_bytes_in_the_path_get_404(alice: Person, path: str) -> None:
    answer = alice.get(path)
    clear(answer, 404)


# Valid bodies, so that only the path is wrong
BODIES = {
    "/cars/{carId}/booking-settings": {"bookings": None, "bookingGap": None},
    "/assignment-requests/{requestId}/decision": {"decision": "reject"},
    "/users/{userId}/app-invitation": {},
    "/users/{userId}/lost-phones": {},
    "/webhooks/{webhookId}/messages/ack": {"upto": 1},
    "/boxes/{productId}/enrolment": {"enrolment": ""},
    "/boxes/{productId}/enrolment/approval": {"thumbprint": EXAMPLE_THUMBPRINT},
}
VALUES = {"/carId": 1, "/url": "https://example.org/", "/role": "Auditor"}  # values of steps for which "A" is invalid


@over([endpoint for endpoint in ALL if endpoint.parameters and isinstance(endpoint.auth, CustomerAuth)])
@pytest.mark.parametrize("id", ["2147483648", "-1", "99999999999999999999999", "%00", "%FF", "1.5", "NaN", "%D9%A3"])
def test_invalid_ids_in_the_path_get_404(endpoint: Endpoint, id: str, alice: Person) -> None:
    values = {parameter: id for parameter in endpoint.parameters if parameter != "searchDate"}
    path = endpoint.path.format(**values, searchDate="2026-01-01T00:00:00Z") + query_of(endpoint)
    whole = endpoint.body_adapter.json_schema() if endpoint.body_adapter else {}
    options: dict[str, Any] = {}
    if whole.get("type") == "array":
        path_of_step = whole["$defs"][whole["items"]["$ref"].rsplit("/", 1)[-1]]["properties"]["path"]
        first = fixed_paths(path_of_step)[0]
        options["json"] = [{"op": "replace", "path": first, "value": VALUES.get(first, "A")}]
    elif whole:
        member = next((key for key in whole.get("properties", {}) if is_id(key)), None)
        body = {member or "from": 1 if member else "2026-01-01T00:00:00Z"}
        options["json"] = BODIES.get(endpoint.path, body)
    answer = alice.call(endpoint.method, path, **options)
    clear(answer, 404)
    assert answer.text.startswith("Unable to find ")


@pytest.mark.parametrize(
    "query", ["%FF", "$filter=%FF", "$filter=name eq '%00'", "$top=%00", "a=%ED%A0%80", "%zz", "&&&=", "$"]
)
def test_invalid_bytes_in_the_query_get_no_500(alice: Person, query: str) -> None:
    answer = alice.client.get("/cars?" + query, headers=alice.headers)
    if answer.status_code != 200:
        clear(answer, 400, 501)


def test_raw_bytes_in_the_query(server: RunningServer, alice: Person) -> None:
    with Line(server) as line:
        line.send(b"GET /v3/cars?a=\xff HTTP/1.1\r\nHost: x\r\n\r\n")
        clear(line.reply(), 400)


def test_a_long_query_gets_414(alice: Person) -> None:
    refused(alice.get("/cars?" + "x" * 8_193), 414, "The query string is longer than 8192 bytes.")


# Bodies

WITH_JSON = [endpoint for endpoint in ALL if isinstance(endpoint.body, JsonBody)]


def wrap(endpoint: Endpoint, inner: bytes) -> bytes:
    """Place the JSON where the body expects a value."""
    assert endpoint.body_adapter is not None
    if endpoint.body_adapter.json_schema()["type"] == "array":
        return b'[{"op": "replace", "path": "/name", "value": ' + inner + b"}]"
    return b'{"name": ' + inner + b"}"


@over(WITH_JSON)
def test_deeply_nested_json_gets_400(endpoint: Endpoint, alice: Person, settings: Settings) -> None:
    deep = min(100_000, endpoint.body.max_bytes(settings) // 6)
    for body in (b"[" * deep, b'{"a":' * deep, wrap(endpoint, b"[" * 50_000 + b"]" * 50_000)):
        answer = called(endpoint, alice, content=body, headers=JSON)
        clear(answer, 400)
        assert answer.text.startswith("Couldn't ")


@over(WITH_JSON)
@pytest.mark.parametrize(
    "inner",
    [
        b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xed\xa0\x80"', b'"\xff"', b'"\x01"', b"1e999999", b"9" * 5_000, b"NaN",
        b"-Infinity", b"'x'",
    ],
    ids=["surrogate", "swapped", "encoded surrogate", "byte", "control", "huge", "long", "NaN", "Infinity", "quotes"],
)  # fmt: skip
def test_unusual_json_values_get_a_clear_error(endpoint: Endpoint, inner: bytes, alice: Person) -> None:
    answer = called(endpoint, alice, content=wrap(endpoint, inner), headers=JSON)
    clear(answer, 400, 404)


STRANGE: list[Any] = [
    None, True, 0, -1, 2**31, -(2**31) - 1, 2**63, 2**200, 1.5, 1e300, "", " ", "\0", "a\0b", "x" * 5_000,
    "\N{PILE OF POO}" * 5_000, "1", "null", "2026-13-01T00:00:00Z", [], [[]], [None], {}, {"a": {}},
    "\u2028", "\ufeff", "'; drop table car; --",
]  # fmt: skip


RIGHT = {
    "name": "A",
    "emailAddress": "hostile@example.org",
    "userData": {"firstName": "A", "lastName": "B"},
    "sdkKey": "x",
    "start": "2026-01-01T00:00:00Z",
    "dateTime": "2026-01-01T00:00:00",
    "utcDateTime": "2026-01-01T00:00:00Z",
    "userAgent": "x",
}


def members(endpoint: Endpoint) -> dict[str, Any]:
    """A body with every member, valid except for ids that do not exist."""
    assert endpoint.body_adapter is not None
    properties = endpoint.body_adapter.json_schema()["properties"]
    defaults = {key: schema.get("enum", [schema.get("default")])[0] for key, schema in properties.items()}
    return {key: RIGHT.get(key, 2147483647 if is_id(key) else defaults[key]) for key in properties}


def is_id(member: str) -> bool:
    return member.endswith("Id") and member not in ("uniqueId", "externalId")


@each([endpoint for endpoint in WITH_JSON if not endpoint.doc.is_extension])
def test_every_member_with_every_json_type_gets_a_clear_response(endpoint: Endpoint, carol: Person) -> None:
    assert endpoint.body_adapter is not None
    whole = endpoint.body_adapter.json_schema()
    if whole["type"] == "array":
        path = next(iter(whole["$defs"].values()))["properties"]["path"]
        bodies = [
            [{"op": "replace", "path": member, "value": value}] for member in fixed_paths(path) for value in STRANGE
        ] + [[{"op": value, "path": value}] for value in STRANGE]
    else:
        right = members(endpoint)
        bodies = [right | {member: value} for member in right for value in STRANGE]
    for body in bodies:
        answer = carol.call(endpoint.method, path_of(endpoint), content=json.dumps(body).encode(), headers=JSON)
        if answer.status_code not in (200, 201, 204):
            clear(answer, 400, 404, 409)


@over([endpoint for endpoint in WITH_JSON if not endpoint.doc.is_extension])
def test_ids_beyond_int32_in_the_body_get_400(endpoint: Endpoint, alice: Person) -> None:
    assert endpoint.body_adapter is not None
    for member in filter(is_id, endpoint.body_adapter.json_schema().get("properties", {})):
        for value in (2**31, -(2**31) - 1, 2**63, 10**40):
            answer = alice.call(endpoint.method, path_of(endpoint), members(endpoint) | {member: value})
            clear(answer, 400)
            assert f"No valid {member} provided. `{member}` must be at " in answer.text


# Headers


def token(header: object, claims: object = None) -> str:
    def part(value: object) -> str:
        raw = value if isinstance(value, bytes) else json.dumps(value).encode()
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    return f"{part(header)}.{part(claims or {})}.{part(b'signature')}"


@pytest.mark.parametrize(
    "value",
    [
        token(b"[" * 15_000),
        token(b'{"a":' * 3_000),
        token({"alg": [], "typ": "at+jwt"}),
        token({"alg": None}),
        token({"alg": "RS256", "kid": {}}),
        token({"alg": "RS256", "kid": "nobody's"}),
        token({"alg": "RS256", "crit": ["exp"]}),
        token({"alg": "RS256", "b64": False, "crit": ["b64"]}),
        token({"alg": "RS256", "zip": "DEF"}),
        token({"alg": "RS256", "jwk": {}, "jku": "http://127.0.0.1:1/"}),
        token([]),
        token("text"),
        token(b"\xff"),
        token(b"9" * 5_000),
        "....",
        "a.b",
        "a.b.c.d.e",
        "=.=.=",
        "\xe4.\xf6.\xfc",
        "x" * 30_000,
    ],
)  # fmt: skip
def test_malformed_tokens_get_401(alice: Person, value: str) -> None:
    for path in ("/cars", "/sdk/devices"):
        answer = alice.get(path, headers={"Authorization": ("Bearer " + value).encode("latin-1")})
        assert (answer.status_code, answer.json()) == (
            401,
            {"statusCode": 401, "message": "Unauthorized. Access token is missing or invalid."},
        )


@pytest.mark.parametrize(
    "header", ["traceparent", "Idempotency-Key", "X-Forwarded-For", "Content-Type", "Prefer", "Accept"]
)
@pytest.mark.parametrize("value", ["\xff" * 55, "x" * 20_000, "-" * 55, ",,,,", '"', "0" * 55, ";" * 1_000])
def test_malformed_headers_get_a_clear_error(alice: Person, header: str, value: str) -> None:
    for method, path in (("PUT", "/cars"), ("GET", "/cars")):
        content = {"content": b"{}"} if method == "PUT" else {}
        answer = alice.call(method, path, headers={**JSON, header: value.encode("latin-1")}, **content)
        if answer.status_code != 200:
            clear(answer, 400, 415)
