"""CORS: the allowed origins, and the response headers that their pages can read."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page
from pydantic import ValidationError

from keyrack.api.endpoint import Endpoint
from keyrack.core.settings import Settings
from keyrack.http.routes import ALL
from tests.http.test_contract import PATHS, over, path_of
from tests.http.test_hostile_input import Line, head
from tests.support.browser import launched, needed
from tests.support.people import Person, web
from tests.support.servers import RunningServer

CONSOLE = "https://console.example.com"
ORIGINS = f"{CONSOLE}, http://Localhost:5173,https://[2001:DB8::1]:8443 ,capacitor://localhost,https://four.example:443"
EXPOSED = (
    "Changes-Epoch, Changes-Newest, Changes-Oldest, ETag, Idempotency-Replayed, Keyrack-Ignored, Keyrack-Mode,"
    " Keyrack-Position, Last-Event-ID, Link, Location, Operation-Id, Operation-Location, Preference-Applied, RateLimit,"
    " RateLimit-Policy, Retry-After, X-Request-Id, X-Total-Count"
)


@pytest.fixture(scope="module")
def open_server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that allows some origins."""
    with RunningServer(settings.model_copy(update={"cors_origins": ORIGINS}), dsn, worker=False) as running:
        yield running


@pytest.fixture(scope="module")
def world_server(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server that allows every origin."""
    with RunningServer(settings.model_copy(update={"cors_origins": "*"}), dsn, worker=False) as running:
        yield running


def call(
    server: RunningServer, method: str, path: str, headers: dict[str, str], origin: str | None = CONSOLE, **more: Any
) -> httpx.Response:
    told = headers | ({} if origin is None else {"Origin": origin})
    return web().request(method, f"{server.url}{path}", headers=told, **more)


def preflight(
    server: RunningServer, path: str, origin: str | None = CONSOLE, method: str = "PATCH", **headers: str
) -> httpx.Response:
    return call(server, "OPTIONS", path, {"Access-Control-Request-Method": method} | headers, origin)


def cors(answer: httpx.Response) -> dict[str, str]:
    return {key: value for key, value in answer.headers.items() if key.startswith("access-control-")}


TOLD = {"access-control-allow-origin": CONSOLE, "access-control-expose-headers": EXPOSED}


# Disabled


def test_cors_is_disabled_by_default(alice: Person, server: RunningServer) -> None:
    answer = call(server, "GET", "/v3/cars", alice.headers)
    assert (answer.status_code, cors(answer)) == (200, {})
    assert "Origin" not in answer.headers.get("vary", "")
    answer = preflight(server, "/v3/cars")
    assert (answer.status_code, cors(answer)) == (401, {})
    answer = call(server, "OPTIONS", "/v3/cars", alice.headers | {"Access-Control-Request-Method": "GET"})
    assert (answer.status_code, cors(answer)) == (405, {})


# Preflights


@over(PATHS)
@pytest.mark.parametrize("base", ["/v3", ""], ids=["v3", "root"])
def test_a_preflight_needs_no_credentials(endpoint: Endpoint, base: str, open_server: RunningServer) -> None:
    answer = preflight(open_server, base + path_of(endpoint), **{"Access-Control-Request-Headers": "authorization"})
    assert (answer.status_code, answer.content) == (204, b"")
    methods = {row.method for row in ALL if row.path == endpoint.path}
    if "GET" in methods:
        methods.add("HEAD")
    assert cors(answer) == {
        **TOLD,
        "access-control-allow-methods": ", ".join(sorted(methods)),
        "access-control-allow-headers": "Authorization, Content-Encoding, Content-Type, Customer-ID, Device-Key,"
        " Idempotency-Key, If-Match, If-None-Match, Keyrack-Mode, Keyrack-Position, Last-Event-ID, Prefer,"
        " traceparent, tracestate, X-Request-Id, vendor-API-Key",
        "access-control-max-age": "600",
    }
    assert answer.headers["vary"] == "Origin"
    assert "content-type" not in answer.headers


def test_the_max_age_of_preflights_is_a_setting(dsn: str, settings: Settings) -> None:
    bounds = {"cors_origins": CONSOLE, "cors_max_age": 5, "brand": "acme"}
    with RunningServer(settings.model_copy(update=bounds), dsn, worker=False) as running:
        answer = preflight(running, "/v3/cars")
    assert answer.headers["access-control-max-age"] == "5"
    assert answer.headers["access-control-allow-headers"].endswith(", acme-API-Key")


def test_other_options_requests_are_checked_as_usual(alice: Person, open_server: RunningServer) -> None:
    for headers, status in (({}, 401), (alice.headers, 405)):
        answer = call(open_server, "OPTIONS", "/v3/cars", headers)
        assert (answer.status_code, cors(answer)) == (status, TOLD)
    for headers, status in (({}, 401), (alice.headers, 404)):
        answer = preflight(open_server, "/v3/nothing", **headers)
        assert (answer.status_code, cors(answer)) == (status, TOLD)
    answer = call(open_server, "GET", "/v3/cars", alice.headers | {"Access-Control-Request-Method": "GET"})
    assert answer.status_code == 200


# Responses


def test_responses_expose_headers_to_allowed_origins(alice: Person, open_server: RunningServer) -> None:
    car = alice.car("Seen")
    answer = call(open_server, "GET", f"/v3/cars/{car}", alice.headers)
    assert (answer.status_code, cors(answer)) == (200, TOLD)
    assert answer.headers["vary"] == "Origin"
    body = {"name": "Made"}
    answer = call(open_server, "PUT", "/v3/cars", alice.headers | {"Prefer": "return=minimal"}, json=body)
    assert (answer.status_code, cors(answer)) == (201, TOLD)
    assert answer.headers["vary"] == "Prefer, Origin"
    if (tag := call(open_server, "GET", f"/v3/cars/{car}", alice.headers).headers.get("etag")) is not None:
        answer = call(open_server, "GET", f"/v3/cars/{car}", alice.headers | {"If-None-Match": tag})
        assert (answer.status_code, cors(answer)) == (304, TOLD)
    plain = call(open_server, "GET", f"/v3/cars/{car}", alice.headers, None)
    assert (plain.status_code, cors(plain), plain.headers["vary"]) == (200, {}, "Origin")


def test_error_responses_expose_headers_to_allowed_origins(alice: Person, open_server: RunningServer) -> None:
    cases: list[tuple[str, str, dict[str, str], dict[str, Any], int]] = [
        ("GET", "/v3/cars", {}, {}, 401),
        ("GET", "/v3/cars", {"vendor-API-Key": alice.api_key, "Authorization": "Bearer x"}, {}, 401),
        ("GET", "/v3/cars/0", alice.headers, {}, 404),
        ("GET", "/v3/nothing", alice.headers, {}, 404),
        ("POST", "/v3/cars", alice.headers, {}, 405),
        ("PUT", "/v3/cars", alice.headers, {"content": b"{}"}, 415),
        ("PUT", "/v3/cars", alice.headers, {"json": {}}, 400),
        ("GET", "/v3/cars?x=" + "y" * 9_000, alice.headers, {}, 414),
    ]
    for method, path, headers, more, status in cases:
        answer = call(open_server, method, path, headers, **more)
        assert (answer.status_code, cors(answer)) == (status, TOLD), path
        assert answer.headers["vary"].endswith("Origin")
        problem = call(open_server, method, path, headers | {"Accept": "application/problem+json"}, **more)
        assert (problem.status_code, cors(problem)) == (status, TOLD), path
        assert (problem.json()["status"], problem.headers["vary"]) == (status, "Accept, Origin")
        other = call(open_server, method, path, headers, "https://evil.example", **more)
        assert (other.status_code, other.text, cors(other)) == (status, answer.text, {}) or status == 415


# Origins


@pytest.mark.parametrize(
    "origin",
    [
        CONSOLE,
        "https://CONSOLE.example.com",
        "https://console.example.com:443",
        "http://localhost:5173",
        "https://[2001:db8::1]:8443",
        "capacitor://localhost",
        "https://four.example",
    ],
)
def test_an_allowed_origin_matches_in_every_spelling(origin: str, alice: Person, open_server: RunningServer) -> None:
    for answer in (
        call(open_server, "GET", "/v3/cars", alice.headers, origin),
        preflight(open_server, "/v3/cars", origin),
    ):
        assert answer.status_code < 300
        assert answer.headers["access-control-allow-origin"] == origin
        assert "access-control-allow-credentials" not in answer.headers


FOREIGN = [
    "null",
    "",
    "*",
    "https://evil.example",
    "http://console.example.com",
    "https://console.example.com:8443",
    "https://console.example.com.evil.example",
    "https://evilconsole.example.com",
    "https://x.console.example.com",
    "https://example.com",
    "https://console.example.com.",
    "https://console.example.com/",
    "https://console.example.com@evil.example",
    "https://console.example.com, https://evil.example",
    "https://console.example.com https://evil.example",
    "http://localhost",
    "http://localhost:51730",
    "http://127.0.0.1:5173",
    "https://c\xf6nsole.example.com",
    "\xff" * 100,
    "https://" + "a" * 20_000,
]


@pytest.mark.parametrize("origin", FOREIGN, ids=range(len(FOREIGN)))
def test_an_unlisted_origin_gets_no_cors_headers(origin: str, alice: Person, open_server: RunningServer) -> None:
    told: Any = alice.headers | {"Origin": origin.encode("latin-1")}
    answer = web().get(f"{open_server.url}/v3/cars", headers=told)
    assert (answer.status_code, cors(answer)) == (200, {})
    assert "Origin" in answer.headers["vary"]
    asked: Any = {"Origin": origin.encode("latin-1"), "Access-Control-Request-Method": "GET"}
    answer = web().options(f"{open_server.url}/v3/cars", headers=asked)
    assert (answer.status_code, cors(answer)) == (401, {})
    answer = web().options(f"{open_server.url}/v3/cars", headers=alice.headers | asked)
    assert (answer.status_code, cors(answer)) == (405, {})


def test_several_origin_headers_get_no_cors_headers(alice: Person, open_server: RunningServer) -> None:
    with Line(open_server) as line:
        line.send(head(alice, "GET", "/v3/customers", f"Origin: {CONSOLE}", "Origin: https://evil.example"))
        answer = line.reply()
    assert (answer.status, "access-control-allow-origin" in answer.headers) == (200, False)


def test_every_origin_may_be_allowed_without_cookies(alice: Person, world_server: RunningServer) -> None:
    for origin in ("https://anybody.example", "http://localhost"):
        answer = call(world_server, "GET", "/v3/cars", alice.headers, origin)
        assert (answer.status_code, cors(answer)) == (200, {**TOLD, "access-control-allow-origin": "*"})
        assert preflight(world_server, "/v3/cars", origin).status_code == 204
    assert cors(call(world_server, "GET", "/v3/cars", alice.headers, "null")) == {}
    assert preflight(world_server, "/v3/cars", "null").status_code == 401


def test_openapi_stays_open_to_every_origin(open_server: RunningServer) -> None:
    for origin, told in (("https://evil.example", "*"), (CONSOLE, CONSOLE), (None, "*")):
        answer = call(open_server, "GET", "/openapi.json", {}, origin)
        assert answer.headers.get_list("access-control-allow-origin") == [told]


@pytest.mark.parametrize(
    "text",
    [
        "console.example.com",
        "https://",
        "https://console.example.com/",
        "https://console.example.com/path",
        "https://console.example.com?x",
        "https://user@console.example.com",
        "https://*.example.com",
        "https://console.example.com:x",
        "https://console.example.com:99999",
        "https://console.example.com:",
        "https://c\xf6nsole.example.com",
        "https://con sole.example.com",
        "https://[::1",
        "https://[::1%eth0]",
        "https://[nonsense]",
        "https://-.example..com",
        "null",
        "*, https://console.example.com",
        "https://good.example, nonsense",
        "https://good.example https://other.example",
    ],
)
def test_an_invalid_origin_in_the_setting_is_rejected(text: str) -> None:
    with pytest.raises(ValidationError, match=r"is not an origin|allows every origin"):
        Settings(cors_origins=text)


# A real browser

READ = """async ([url, headers]) => {
  try {
    const answer = await fetch(url, {headers})
    const start = (await answer.text()).slice(0, 1)
    return [answer.status, start, ...["X-Total-Count", "ETag", "Date"].map(name => answer.headers.get(name))]
  } catch (error) { return [String(error)] }
}"""
WRITE = """async ([url, headers]) => {
  const more = {"Content-Type": "application/json", "Prefer": "return=representation"}
  const body = JSON.stringify({name: "By a page"})
  const answer = await fetch(url.split("?")[0], {method: "PUT", headers: {...headers, ...more}, body})
  return [answer.status, (await answer.json()).name, answer.headers.get("Preference-Applied")]
}"""


class Blank(http.server.BaseHTTPRequestHandler):
    """An empty page with a separate origin."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>Page</title>")

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def page_server() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Blank)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@needed
def test_a_browser_lets_only_pages_of_allowed_origins_read_responses(
    alice: Person, dsn: str, settings: Settings
) -> None:
    alice.car("In a list")
    with page_server() as allowed, page_server() as foreign:
        told = settings.model_copy(update={"cors_origins": allowed})
        with RunningServer(told, dsn, worker=False) as running, launched() as browser:
            url = f"{running.url}/v3/cars?$count=true"

            def ask(page: Page, origin: str, script: str) -> list[Any]:
                page.goto(origin)
                return page.evaluate(script, [url, alice.headers])

            status, start, total, tag, date = ask(browser.new_page(), allowed, READ)
            assert (status, start, date) == (200, "[", None)  # the server sends a Date, but does not expose it to pages
            direct = web().get(url, headers=alice.headers)
            assert (total, tag) == (direct.headers["x-total-count"], direct.headers.get("etag"))
            assert int(total) >= 1 and "date" in direct.headers
            assert ask(browser.new_page(), allowed, WRITE) == [201, "By a page", "return=representation"]
            assert ask(browser.new_page(), foreign, READ) == ["TypeError: Failed to fetch"]
