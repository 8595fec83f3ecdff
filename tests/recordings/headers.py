"""HTTP headers: conditions, idempotency, preferences, CORS and compression."""

from __future__ import annotations

import gzip
import json
from typing import Any

from tests.recordings.bench import Bench, replace
from tests.recordings.script import Script

PAGE = "https://pages.example.com"
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def run(bench: Bench) -> None:
    """Send requests whose headers matter."""
    for part in (conditions, idempotency, preferences, origins, compression, ids, languages, protocol):
        part(Script(bench, f"Headers {part.__name__}"))


def conditions(script: Script) -> None:
    """`If-Match` and `If-None-Match` of reads and changes."""
    car = script.made("PUT", "/cars", {"name": "Conditional car"})["id"]
    group = script.made("PUT", "/groups", {"name": "Conditional group"})["id"]
    body = {"url": f"http://{script.fleet.receiver}/hook", "kinds": ["car.created"], "enabled": False}
    webhook = script.made("PUT", "/webhooks", body)["id"]
    client = script.made("PUT", "/clients", {"name": "Conditional client", "scopes": ["cars:read"]})["id"]
    manager = script.cast.manager_ids["changed"]
    for path, step in (
        (f"/cars/{car}", replace("/name", "Changed car")),
        (f"/groups/{group}", replace("/name", "Changed group")),
        (f"/webhooks/{webhook}", replace("/kinds", ["car.deleted"])),
        (f"/clients/{client}", replace("/name", "Changed")),
        (f"/managers/{manager}", replace("/role", "Technician")),
        (f"/assignments/{script.fleet.assignments[4]}", replace("/end", "2041-05-03T08:00:00Z")),
    ):
        tag = script.tag(path)
        for value in (tag, f"W/{tag}", f'"other", {tag}', tag.replace('"', ""), "*", f'{tag[:-1]}-gzip"', '"other"'):
            script.send("GET", path, If_None_Match=value)
            script.send("GET", path, If_Match=value)
        script.send("PATCH", path, step, If_Match='"other"')
        script.send("PATCH", path, step, If_Match=f"W/{tag}")
        script.send("PATCH", path, step, If_None_Match="*")
        script.send("PATCH", path, step, If_Match='"other"', Accept="application/problem+json")
        changed = script.send("PATCH", path, step, If_Match=tag).header("ETag")
        script.send("PATCH", path, step, If_Match=tag, note="once more")
        if changed:
            script.send("PATCH", path, step, If_Match=changed, note="with the new tag")
        script.send("DELETE", path, If_Match='"other"')
        script.send("HEAD", path)
    for path in (f"/cars/{car}", f"/groups/{group}", f"/webhooks/{webhook}", f"/clients/{client}"):
        script.send("DELETE", path, If_Match=script.tag(path))
        script.send("DELETE", path, If_Match="*", note="once more")
    for path in (
        "/cars",
        "/users",
        "/brands",
        "/openapi.json",
        "/changes",
        "/operations?$orderby=applied",
        "/cars?$top=1&$count=true",
    ):
        tag = script.tag(path)
        script.send("GET", path, If_None_Match=tag, note="unchanged")
        script.send("HEAD", path, If_None_Match=tag, note="unchanged")
        script.send("GET", path, If_None_Match=tag, Accept_Encoding="gzip", note="unchanged, packed")


def idempotency(script: Script) -> None:
    """`Idempotency-Key`: a repeat gets the first response."""
    writes: list[tuple[str, str, Any]] = [
        ("PUT", "/cars", {"name": "Sent twice"}),
        ("PUT", "/users", {"emailAddress": "twice@example.org", "userData": {"firstName": "T", "lastName": "W"}}),
        ("PUT", "/groups", {"name": "Sent twice"}),
        ("PUT", "/assignments", script.bench.wish()),
        ("PUT", "/events", script.bench.event()),
        ("POST", "/batch", {"kind": "cars", "items": [{"op": "create", "body": {"name": "In a batch"}}]}),
        ("PUT", "/webhooks", {"url": f"http://{script.fleet.receiver}/hook", "kinds": ["car.deleted"]}),
        ("PUT", "/clients", {"name": "Sent twice", "scopes": ["cars:read"]}),
        ("PUT", "/cars", {"name": ""}),
    ]
    for number, (method, path, body) in enumerate(writes):
        key = f"key-{number}"
        for note in ("first", "again"):
            response = script.send(method, path, body, Idempotency_Key=key, note=f"{key} {note}")
        script.send(method, path, {**body, "name": "Other"}, Idempotency_Key=key, note=f"{key} with another body")
        script.send(method, path, body, Idempotency_Key=key, Prefer="return=representation", note=f"{key} preferring")
        script.send(method, f"{path}?$select=id", body, Idempotency_Key=key, note=f"{key} with another query")
        if method == "PUT" and path in ("/cars", "/webhooks", "/groups", "/clients") and response.status == 201:
            made = json.loads(response.body)["id"]
            for note in ("first", "again"):
                script.send("DELETE", f"{path}/{made}", Idempotency_Key=f"delete-{number}", note=note)
    script.send("PUT", "/cars", {"name": "Sent twice"}, Idempotency_Key="key-0", caller=script.cast.callers["manager"])
    script.send("PUT", "/cars", {"name": "Sent twice"}, Idempotency_Key="key-0", caller=script.cast.bob)
    script.send("PUT", "/cars", {"name": "x"}, Idempotency_Key="k" * 256)
    script.send("PUT", "/cars", {"name": "x"}, Idempotency_Key="")


def preferences(script: Script) -> None:
    """`Prefer`: the response of a write, and its strictness."""
    for prefer in (
        "return=representation",
        "return=minimal",
        "RETURN=Representation",
        'return="representation"',
        "return=other",
        "handling=strict",
        "handling=lenient",
        "return=representation, handling=strict",
        "respond-async",
        ";;;",
        "",
        "return=minimal, return=representation",
    ):
        made = script.send("PUT", "/cars", {"name": "Preferred", "colour": "red"}, Prefer=prefer)
        if made.status == 201:
            car = json.loads(made.body)["id"]
            script.send("PATCH", f"/cars/{car}", replace("/model", "M"), Prefer=prefer)
            script.send("DELETE", f"/cars/{car}", Prefer=prefer)
    whole = "return=representation"
    for query in (
        "$select=name",
        "$expand=products",
        "$select=id&$expand=groups",
        "$filter=id eq 1".replace(" ", "%20"),
        "$select=unknown",
        "$compute=length(name)%20as%20n",
    ):
        made = script.send("PUT", f"/cars?{query}", {"name": "Shaped"}, Prefer=whole)
        if made.status == 201:
            script.session.ask(script.cast.owner, "DELETE", f"/cars/{_newest(script)}")
    for path, body in (
        (
            "/users",
            {"emailAddress": "shown@example.org", "userData": {"firstName": "S", "lastName": "N"}, "type": "Normal"},
        ),
        ("/groups", {"name": "Shown"}),
        ("/events", script.bench.event()),
        ("/assignments", script.bench.wish()),
        ("/webhooks", {"url": f"http://{script.fleet.receiver}/hook", "kinds": ["car.deleted"]}),
        ("/clients", {"name": "Shown", "scopes": ["users:read"]}),
    ):
        script.send("PUT", path, body, Prefer=whole)
    script.send("PUT", "/cars", {"name": "x"}, Prefer=whole, caller=script.cast.callers["technician"])
    script.send("PATCH", f"/assignments/{script.fleet.assignments[4]}", replace("/end", None), Prefer=whole)


def _newest(script: Script) -> int:
    rows = script.session.ask(script.cast.owner, "GET", "/cars?$orderby=id%20desc&$top=1&$select=id")
    return rows[0]["id"]


def origins(script: Script) -> None:
    """Pages of other origins (CORS)."""
    asked: dict[str, Any] = {
        "Access_Control_Request_Method": "PATCH",
        "Access_Control_Request_Headers": "authorization,customer-id",
    }
    for row in script.session.document.rows:
        path = script.bench.call(row).path.partition("?")[0]
        script.send("OPTIONS", path, caller=script.cast.nobody, Origin=PAGE, **asked, note=row.name)
    for origin in (PAGE, "https://other.example.com", "null", "https://pages.example.com.evil.example", "*", ""):
        script.send("OPTIONS", "/cars", caller=script.cast.nobody, Origin=origin, **asked)
        script.send("GET", "/cars?$top=1", Origin=origin)
        script.send("GET", "/cars", caller=script.cast.nobody, Origin=origin)
    script.send("OPTIONS", "/cars", caller=script.cast.nobody, Origin=PAGE)
    script.send("OPTIONS", "/nothing", caller=script.cast.nobody, Origin=PAGE, **asked)
    script.send("OPTIONS", "*", caller=script.cast.nobody, base="")


def compression(script: Script) -> None:
    """`Accept-Encoding`, and compressed request bodies."""
    for accepted in (
        "gzip",
        "x-gzip",
        "*",
        "gzip;q=0",
        "identity;q=0",
        "gzip;q=0.1, identity",
        "br",
        "",
        "gzip, gzip;q=x",
        "identity;q=0, gzip;q=0",
        "a" * 600,
    ):
        for path in ("/openapi.json", "/cars", "/cars/1", "/nothing"):
            script.send("GET", path, Accept_Encoding=accepted)
    gateway = script.cast.callers["gateway"]
    samples = "".join(json.dumps(sample) + "\n" for sample in script.fleet.samples()).encode()
    for kind in ("application/x-ndjson", "application/jsonl", "application/json", "text/plain"):
        script.send("POST", "/ingest/telemetry", samples, caller=gateway, Content_Type=kind)
        packed = gzip.compress(samples, mtime=0)
        script.send("POST", "/ingest/telemetry", packed, caller=gateway, Content_Type=kind, Content_Encoding="gzip")
    script.send(
        "POST", "/ingest/telemetry", samples, caller=gateway, Content_Type="application/x-ndjson", Content_Encoding="br"
    )
    script.send(
        "POST",
        "/ingest/telemetry",
        b"\x1f\x8b\x08\x00",
        caller=gateway,
        Content_Type="application/x-ndjson",
        Content_Encoding="gzip",
    )
    bomb = gzip.compress(bytes(9_000_000), mtime=0)
    script.send(
        "POST",
        "/ingest/telemetry",
        bomb,
        caller=gateway,
        Content_Type="application/x-ndjson",
        Content_Encoding="gzip",
        note="nine megabytes of zeros",
    )
    script.send(
        "PUT",
        "/cars",
        gzip.compress(b'{"name": "x"}', mtime=0),
        Content_Type="application/json",
        Content_Encoding="gzip",
    )


def ids(script: Script) -> None:
    """Request ids."""
    cases: list[dict[str, Any]] = [
        {"X_Request_Id": "my-id-1"},
        {"X_Request_Id": "not allowed"},
        {"X_Request_Id": "x" * 129},
        {"X_Request_Id": None},
        {"X_Request_Id": None, "traceparent": TRACE},
        {"X_Request_Id": None, "traceparent": "00-x"},
        {"X_Request_Id": "mine", "traceparent": TRACE},
        {"X_Request_Id": "", "tracestate": "a=b"},
    ]
    for number, headers in enumerate(cases):
        for path in ("/cars/1", "/cars/99999", "/nothing"):
            script.send("GET", path, Accept="application/problem+json", **headers, note=f"id {number}")


def languages(script: Script) -> None:
    """`Accept`: JSON, plain text or problem details."""
    for accept in (
        "application/json",
        "text/plain",
        "application/problem+json",
        "*/*",
        "text/html",
        "image/png",
        "",
        "application/problem+json;q=0",
        "application/*",
        "application/problem+json, text/plain;q=0.5",
        "x/",
    ):
        for path, caller in (
            ("/cars/1", "owner"),
            ("/cars/99999", "owner"),
            ("/cars?$top=x", "owner"),
            ("/cars/1", "app"),
            ("/managers", "viewer"),
            ("/nothing", "owner"),
            ("/docs", "owner"),
            ("/", "owner"),
        ):
            script.send("GET", path, caller=script.cast.callers[caller], Accept=accept)
    for accept in ("application/json", "application/statuslist+cwt", "*/*", "text/event-stream"):
        script.send("GET", f"/boxes/{script.fleet.box}/status", Accept=accept)


def protocol(script: Script) -> None:
    """Malformed requests."""
    owner = "".join(f"{name}: {value}\r\n" for name, value in script.cast.owner.headers.items())
    host = "Host: keyrack.test\r\nX-Request-Id: recording\r\n"
    get, put = f"GET /v3/cars/1 HTTP/1.1\r\n{host}{owner}", f"PUT /v3/cars HTTP/1.1\r\n{host}{owner}"
    as_json, close = "Content-Type: application/json\r\n", "Connection: close\r\n\r\n"
    cases = {
        "no host": f"GET /v3/cars/1 HTTP/1.1\r\n{owner}\r\n",
        "two hosts": f"{get}{host}\r\n",
        "HTTP/1.0": f"GET /v3/cars/1 HTTP/1.0\r\n{host}{owner}\r\n",
        "a live stream over HTTP/1.0": f"GET /v3/live HTTP/1.0\r\n{host}{owner}\r\n",
        "HTTP/9": f"GET /v3/cars/1 HTTP/9.9\r\n{host}{owner}\r\n",
        "no version": "GET /v3/cars/1\r\n\r\n",
        "nonsense": "\x16\x03\x01\x02\r\n\r\n",
        "a length that is none": f"{put}Content-Length: x\r\n\r\n",
        "two lengths": f"{put}Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "a body that is too large": f"{put}{as_json}Content-Length: 1000001\r\n\r\n",
        "length and chunks": f"{put}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        "a header without a colon": f"{get}nonsense\r\n\r\n",
        "a head that is too long": f"{get}X: {'x' * 40_000}\r\n\r\n",
        "a whole address": f"GET http://keyrack.test/v3/cars/1 HTTP/1.1\r\n{host}{owner}{close}",
        "the API key twice": f"{get}vendor-API-Key: x\r\n{close}",
        "the customer twice": f"{get}Customer-ID: 2\r\n{close}",
        "chunks": f'{put}{as_json}Transfer-Encoding: chunked\r\n{close}10\r\n{{"name": "Chunk"\r\n1\r\n}}\r\n0\r\n\r\n',
    }
    for title, text in cases.items():
        script.session.record_raw(text.encode("latin-1"), title)
    for path in (
        "",
        "/",
        "/v3",
        "/v3/",
        "/v2/cars",
        "/openapi.json",
        "/docs",
        "/docs/errors",
        "/health",
        "/health/live",
        "/health/ready",
        "/favicon.ico",
        "/robots.txt",
        "/.well-known/jwks.json",
        "/console",
        "/metrics",
        "/v3/../cars",
        "/v3/%2e%2e/cars",
        "/v3/cars%2F1",
        "/v3//cars",
        "/v3/cars;x=1",
        "/v3/cars#x",
    ):
        script.send("GET", path or "/", base="", note="whole path")
