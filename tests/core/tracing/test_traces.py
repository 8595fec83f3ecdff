"""One trace covers a request across processes, up to the webhook."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from keyrack import __version__
from tests.core.tracing.conftest import Traced, a_trace
from tests.support.people import Person, Town, web
from tests.support.servers import eventually
from tests.webhooks.receiver import Receiver

pytestmark = pytest.mark.cluster

TOLD = {
    "db.collection.name", "db.operation.name", "db.query.summary", "db.system.name", "error.type",
    "http.request.method", "http.response.status_code", "http.route", "keyrack.operation.cause",
    "keyrack.operation.kind", "keyrack.operation.state", "keyrack.operation.waited", "keyrack.request_id",
    "server.address", "server.port",
}  # fmt: skip


def id_of_span(traceparent: str) -> str:
    return traceparent.split("-")[2]


def test_an_assignment_is_one_trace_from_the_caller_to_the_webhook(traced: Traced, tina: Person) -> None:
    car, user = tina.car_with_box("Tina's secret car"), tina.user("tina.secret@example.org")
    trace, parent = a_trace()
    collector = traced.collector
    with Receiver() as receiver:
        hook = tina.put("/webhooks", {"url": receiver.url + "/a-secret-path"}).json()["id"]
        body = {"carId": car, "userId": user, "start": "2026-01-01T00:00:00Z"}
        answer = tina.put("/assignments", body, headers={"traceparent": parent, "tracestate": "a=1,b@c=2"})
        assert answer.status_code == 204
        got = eventually(lambda: receiver.of("/a-secret-path"), "the webhook")[0]
        assert tina.delete(f"/webhooks/{hook}").status_code == 204
    request = collector.one(trace, "PUT /assignments")
    assert (request.kind, request.above, request.state) == ("server", id_of_span(parent), "a=1,b@c=2")
    assert request.told == {
        "http.request.method": "PUT", "http.route": "/assignments", "http.response.status_code": 204,
        "keyrack.request_id": trace,
    }  # fmt: skip
    asked = collector.one(trace, "insert operation")
    assert (asked.kind, asked.above) == ("client", request.id)
    assert asked.told == {
        "db.system.name": "postgresql", "db.operation.name": "insert", "db.collection.name": "operation",
        "db.query.summary": "insert operation",
    }  # fmt: skip
    operation = collector.one(trace, "operation CreateAssignment")
    assert (operation.kind, operation.above, operation.failed) == ("consumer", request.id, False)
    assert operation.id == uuid.UUID(answer.headers["operation-id"]).hex[16:]
    assert operation.told["keyrack.operation.state"] == "Succeeded"
    assert {span.name for span in collector.of(trace) if span.above == operation.id} >= {"insert assignment", "commit"}
    delivery = collector.one(trace, "POST")
    assert (delivery.kind, delivery.above, delivery.failed) == ("client", operation.id, False)
    assert delivery.told["http.response.status_code"] == 200
    assert got.headers["traceparent"] == f"00-{trace}-{delivery.id}-01"
    assert "tracestate" not in got.headers
    spans = collector.of(trace)
    known = {span.id for span in spans}
    assert all(span.above in known for span in spans if span is not request and span.id != request.id)
    assert all(span.begun <= span.ended for span in spans)
    assert asked.begun >= request.begun and asked.ended <= request.ended
    assert {span.who["service.name"] for span in spans} == {"keyrack"}
    assert {span.who["service.version"] for span in spans} == {__version__}
    assert len({span.who["process.pid"] for span in spans}) == 2
    assert {name for span in spans for name in span.told} <= TOLD
    assert "secret" not in str(spans).lower() and str(tina.customer) not in [str(v) for s in spans for v in s.told]


def test_a_failed_delivery_and_its_retry_have_separate_spans(traced: Traced, tina: Person) -> None:
    trace, parent = a_trace()
    answers = iter([(500, b"", {}), (200, b"", {})])
    with Receiver(lambda _: next(answers)) as receiver:
        hook = tina.put("/webhooks", {"url": receiver.url + "/twice"}).json()["id"]
        body = {"carId": tina.car(), "userId": tina.user(), "start": "2026-01-01T00:00:00Z"}
        assert tina.put("/assignments", body, headers={"traceparent": parent}).status_code == 204
        got = eventually(lambda: (found := receiver.of("/twice"))[1:] and found, "both tries")
        assert tina.delete(f"/webhooks/{hook}").status_code == 204
    operation = traced.collector.one(trace, "operation CreateAssignment")
    assert operation.failed and operation.told["keyrack.operation.state"] == "Failed"  # the car has no box
    assert operation.told["error.type"] == "refused"

    def tries() -> list[object]:
        found = {span.id: span for span in traced.collector.of(trace) if span.name == "POST"}
        ids = [id_of_span(request.headers["traceparent"]) for request in got]
        return [(found[id].failed, found[id].told.get("error.type"), found[id].above) for id in ids if id in found]

    eventually(lambda: len(tries()) == 2, "both spans")
    assert tries() == [(True, "500", operation.id), (False, None, operation.id)]


def test_callers_that_share_a_commit_have_their_own_traces(traced: Traced, tina: Person) -> None:
    cars = [tina.car_with_box() for _ in range(4)]
    user = tina.user()
    traces = [a_trace() for _ in cars]

    def ask(car: int, parent: str) -> int:
        body = {"carId": car, "userId": user, "start": "2026-01-01T00:00:00Z"}
        return tina.put("/assignments", body, headers={"traceparent": parent}).status_code

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(ask, cars, [parent for _, parent in traces])) == {204}
    for trace, _ in traces:
        request = traced.collector.one(trace, "PUT /assignments")
        own = [span for span in traced.collector.of(trace) if span.name == "insert operation"]
        assert [span.above for span in own] == [request.id] or request.links[0][0] in {other for other, _ in traces}
        assert traced.collector.one(trace, "operation CreateAssignment").above == request.id


def test_customers_have_their_own_traces(traced: Traced, tina: Person) -> None:
    other = Town(traced.sql, traced.house).person("theo")
    (mine, my_parent), (theirs, their_parent) = a_trace(), a_trace()
    assert tina.get("/cars", headers={"traceparent": my_parent}).status_code == 200
    assert other.get("/cars", headers={"traceparent": their_parent}).status_code == 200
    for trace in (mine, theirs):
        request = traced.collector.one(trace, "GET /cars")
        assert traced.collector.one(trace, "select car").above == request.id
    other.client.close()


def test_the_trace_is_that_of_the_error_body(traced: Traced, tina: Person) -> None:
    """The request id is the trace id by default. Otherwise the span has the request id."""
    accept = {"Accept": "application/problem+json"}
    answer = tina.get("/cars/2147483647", headers=accept)
    assert answer.status_code == 404
    trace = answer.json()["traceId"]
    request = traced.collector.one(trace, "GET /cars/{carId}")
    assert (request.above, request.failed) == ("", False)
    named, parent = a_trace()
    answer = tina.get("/cars/2147483647", headers={**accept, "X-Request-Id": "mine", "traceparent": parent})
    assert answer.json()["traceId"] == "mine"
    assert traced.collector.one(named, "GET /cars/{carId}").told["keyrack.request_id"] == "mine"
    answer = tina.get("/cars/2147483647", headers={**accept, "X-Request-Id": "only-mine"})
    found = eventually(
        lambda: [s for s in traced.collector.spans if s.told.get("keyrack.request_id") == "only-mine"], "the span"
    )
    assert len(found[0].trace) == 32 and found[0].above == ""


def test_every_line_of_the_log_names_the_trace(traced: Traced, tina: Person) -> None:
    trace, parent = a_trace()
    tina.get("/cars", headers={"traceparent": parent, "X-Request-Id": "a-line"})
    (line,) = eventually(
        lambda: [line for line in traced.house.lines("request") if line.get("request_id") == "a-line"], "the line"
    )
    assert line["trace_id"] == trace


@pytest.mark.parametrize("parent", ["nonsense", "00-{trace}-b7ad6b7169203331-01-more", "ff-{trace}-b7ad6b7169203331-01",
                                    "00-{trace}-0000000000000000-01"])  # fmt: skip
def test_an_invalid_traceparent_begins_a_new_trace(traced: Traced, tina: Person, parent: str) -> None:
    trace, _ = a_trace()
    answer = tina.get("/users", headers={"traceparent": parent.format(trace=trace), "tracestate": "a=1"})
    made = answer.headers["x-request-id"]
    assert made != trace
    request = traced.collector.one(made, "GET /users")
    assert (request.above, request.state) == ("", "")
    assert not traced.collector.of(trace)


def test_two_traceparents_begin_a_new_trace(traced: Traced, tina: Person) -> None:
    (first, parent), (second, other) = a_trace(), a_trace()
    headers = [*tina.headers.items(), ("traceparent", parent), ("traceparent", other)]
    answer = web().get(f"{traced.house.url}/v3/users", headers=headers)
    assert answer.status_code == 200
    assert traced.collector.one(answer.headers["x-request-id"], "GET /users").above == ""
    assert not traced.collector.of(first) and not traced.collector.of(second)


@pytest.mark.parametrize(
    ("state", "is_kept"),
    [
        ("a=1", True), (",".join(f"k{n}=v" for n in range(32)), True), (",".join(f"k{n}=v" for n in range(33)), False),
        ("a=" + "x" * 200, True), (",".join(f"k{n}={'x' * 60}" for n in range(9)), False), ("a", False),
        ("a=1,a=2", False), ("A=1", False),
    ],
)  # fmt: skip
def test_tracestate_is_limited(traced: Traced, tina: Person, state: str, is_kept: bool) -> None:
    trace, parent = a_trace()
    assert tina.get("/cars", headers={"traceparent": parent, "tracestate": state}).status_code == 200
    assert traced.collector.one(trace, "GET /cars").state == (state if is_kept else "")


def test_an_unknown_path_has_no_route_in_its_span(traced: Traced, tina: Person) -> None:
    trace, parent = a_trace()
    assert tina.get("/no/such/path", headers={"traceparent": parent}).status_code == 404
    assert "http.route" not in traced.collector.one(trace, "GET").told


def test_a_refused_request_is_traced_without_its_content(traced: Traced) -> None:
    trace, parent = a_trace()
    answer = web().get(
        f"{traced.house.url}/v3/cars?$filter=name eq 'a-name'",
        headers={"traceparent": parent, "vendor-API-Key": "a-wrong-key"},
    )
    assert answer.status_code == 401
    request = traced.collector.one(trace, "GET /cars")
    assert request.told["http.response.status_code"] == 401 and not request.failed
    assert "a-name" not in str(traced.collector.of(trace)) and "a-wrong-key" not in str(traced.collector.of(trace))


def test_the_trace_continues_over_202_with_any_flag_of_a_stranger(traced: Traced, tina: Person) -> None:
    trace, parent = a_trace(sampled=False)
    body = {"carId": tina.car_with_box(), "userId": tina.user(), "start": "2026-01-01T00:00:00Z"}
    answer = tina.put("/assignments", body, headers={"traceparent": parent, "Prefer": "return=representation"})
    assert answer.status_code == 202
    request = traced.collector.one(trace, "PUT /assignments")
    assert traced.collector.one(trace, "operation CreateAssignment").above == request.id


def test_what_a_request_does_itself_is_in_its_trace(traced: Traced, tina: Person) -> None:
    """Operations that an uninstallation causes are children of its request."""
    car = tina.car()
    product = tina.box_in(car)
    tina.assignment(car, tina.user())
    trace, parent = a_trace()
    answer = tina.delete("/installations", {"carId": car, "productId": product}, headers={"traceparent": parent})
    assert answer.status_code == 204, answer.text
    request = traced.collector.one(trace, "DELETE /installations")
    operation = traced.collector.one(trace, "operation DeleteAssignment")
    assert (operation.above, operation.told["keyrack.operation.cause"]) == (request.id, "Uninstallation")


def test_operations_in_the_api_have_no_trace(traced: Traced, tina: Person) -> None:
    listed = tina.get("/operations?$top=1")
    assert listed.status_code == 200 and "trace" not in json.dumps(listed.json()).lower()
