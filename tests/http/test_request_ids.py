"""Request ids: from the client, its trace or generated, in every response and operation."""

from __future__ import annotations

import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyrack.api.endpoint import Endpoint
from keyrack.http.request_ids import request_id
from keyrack.http.routes import ALL
from tests.http.test_contract import ENDLESS, content, over, path_of
from tests.http.test_hostile_input import Line
from tests.support.people import Person
from tests.support.servers import RunningServer

MADE = re.compile(r"[0-9a-f]{32}").fullmatch
TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def id_of(answer: httpx.Response) -> str:
    (id,) = answer.headers.get_list("x-request-id")
    return id


@over([endpoint for endpoint in ALL if endpoint not in ENDLESS])
def test_every_answer_has_the_id_of_its_request(endpoint: Endpoint, alice: Person) -> None:
    for headers in ({}, {"Authorization": None}, {"Content-Type": "text/plain"}):
        given = {**content(endpoint), **headers}
        answer = alice.call(endpoint.method, path_of(endpoint), headers={**given, "X-Request-Id": "a-b_c.1"})
        assert id_of(answer) == "a-b_c.1"
        assert MADE(id_of(alice.call(endpoint.method, path_of(endpoint), headers=given)))


def test_generated_ids_differ(alice: Person) -> None:
    assert len({id_of(alice.get("/cars")) for _ in range(20)}) == 20


@pytest.mark.parametrize("id", ["x", "x" * 128, "A.z_0~+/=:@-", "00-" + TRACE])
def test_a_valid_id_of_the_client_is_used(alice: Person, id: str) -> None:
    assert id_of(alice.get("/cars", headers={"X-Request-Id": id})) == id


@pytest.mark.parametrize(
    "id", ["", "x" * 129, "a b", "a,b", 'a"b', "<a>", "a;b", "\xe4", "a\tb", "{}", "a\x7f", "%0d%0aX:1", "a'b"]
)
def test_an_invalid_id_is_replaced(alice: Person, id: str) -> None:
    assert MADE(id_of(alice.get("/cars", headers={"X-Request-Id": id.encode("latin-1")})))


@pytest.mark.parametrize(
    ("parent", "is_valid"),
    [
        (f"00-{TRACE}-{PARENT}-01", True), (f"00-{TRACE}-{PARENT}-00", True), (f"cc-{TRACE}-{PARENT}-01", True),
        (f"cc-{TRACE}-{PARENT}-01-what-the-future-brings", True), (f"00-{TRACE}-{PARENT}-01-more", False),
        (f"cc-{TRACE}-{PARENT}-01.what", False), (f"ff-{TRACE}-{PARENT}-01", False),
        (f"00-{'0' * 32}-{PARENT}-01", False), (f"00-{TRACE}-{'0' * 16}-01", False),
        (f"00-{TRACE.upper()}-{PARENT}-01", False), (f"00-{TRACE}-{PARENT}", False), (f"0-{TRACE}-{PARENT}-01", False),
        (f"00-{TRACE[1:]}-{PARENT}-01", False), ("nonsense", False), ("", False),
    ],
)  # fmt: skip
def test_the_trace_id_is_the_default(alice: Person, parent: str, is_valid: bool) -> None:
    found = id_of(alice.get("/cars", headers={"traceparent": parent}))
    assert found == TRACE if is_valid else MADE(found) and found != TRACE
    assert id_of(alice.get("/cars", headers={"traceparent": parent, "X-Request-Id": "mine"})) == "mine"
    assert (id_of(alice.get("/cars", headers={"traceparent": parent, "X-Request-Id": "no id"})) == TRACE) is is_valid


@given(st.binary(), st.binary())
def test_any_headers_result_in_a_valid_id(id: bytes, parent: bytes) -> None:
    found = request_id([(b"x-request-id", id), (b"traceparent", parent)])
    assert re.fullmatch(r"[A-Za-z0-9._~+/=:@-]{1,128}", found)


def test_the_body_of_415_has_the_id(alice: Person) -> None:
    for headers in ({"X-Request-Id": "mine"}, {}):
        answer = alice.put("/cars", content=b"{}", headers={"Content-Type": "text/plain", **headers})
        assert answer.status_code == 415
        assert answer.json()["traceId"] == id_of(answer)


def test_operations_store_the_id(alice: Person) -> None:
    body = {"carId": alice.car_with_box(), "userId": alice.user(), "start": "2026-01-01T00:00:00Z"}
    answer = alice.put("/assignments", body, headers={"X-Request-Id": "from-the-client"})
    found = alice.sql.value(
        "select request_id from operation where operation_id = $1::text::uuid", answer.headers["operation-id"]
    )
    assert found == "from-the-client"


def test_errors_before_the_router_have_the_id(server: RunningServer) -> None:
    for start in (b"GET /?x=" + b"x" * 9_000, b"GET /nothing", b"GET *", b"PURGE /", b"GET /health"):
        with Line(server) as line:
            line.send(start + b" HTTP/1.1\r\nHost: x\r\nX-Request-Id: mine\r\n\r\n")
            assert line.reply().headers["x-request-id"] == "mine"
    with Line(server) as line:
        line.send(b"nonsense\r\n\r\n")
        reply = line.reply()
        assert reply.status == 400 and MADE(reply.headers["x-request-id"])


def test_each_request_on_a_connection_has_its_own_id(server: RunningServer) -> None:
    with Line(server) as line:
        for id in (b"one", b"two"):
            line.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Request-Id: " + id + b"\r\n\r\n")
            assert line.reply().headers["x-request-id"] == id.decode()
        line.send(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert MADE(line.reply().headers["x-request-id"])
