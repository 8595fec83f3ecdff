"""Metrics and logs of several processes, also of stopped and dead ones."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from keyrack.core.metrics.catalog import OF_DATABASE
from keyrack.core.metrics.reference import metrics_json
from tests.ops.monitoring.conftest import Family
from tests.ops.monitoring.scrape import parsed, ran
from tests.server.test_supervisor import serving
from tests.support.log_lines import log_lines
from tests.support.people import Person, fetch, web
from tests.support.servers import eventually

pytestmark = pytest.mark.cluster

TOTAL = "keyrack_http_requests_total"
SECONDS = "keyrack_http_request_duration_seconds"


FILTER = Path(__file__).parents[3] / "deploy/fail2ban/filter.d/keyrack.conf"
ADDRESS = r"(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]+)"  # the addresses that fail2ban's <ADDR> accepts here


def ask(url: str, times: int, **options: object) -> list[int]:
    """Send requests on separate connections, so that any process may answer."""
    return [fetch("GET", url, **options).status_code for _ in range(times)]


def test_requests_are_counted_by_route_over_all_processes(family: Family, ann: Person) -> None:
    car = ann.car()
    before = family.scrape().sum(TOTAL, route="/cars/{carId}", status="200")
    assert ask(f"{family.url}/v3/cars/{car}", 12, headers=ann.headers) == [200] * 12
    assert ask(f"{family.url}/cars/{car}?$select=id", 3, headers=ann.headers) == [200] * 3
    eventually(lambda: family.scrape().sum(TOTAL, route="/cars/{carId}", status="200") == before + 15, "the sum")
    page = family.scrape()
    route = {"route": "/cars/{carId}", "method": "GET"}
    assert page.sum(f"{SECONDS}_count", **route) == page.sum(f"{SECONDS}_bucket", le="+Inf", **route)
    assert page.sum(f"{SECONDS}_count", **route) >= 15 and page.sum(f"{SECONDS}_sum", **route) > 0
    assert {has["process"] for has, _ in page.samples[TOTAL]} <= {"0", "1"}


def test_labels_have_a_fixed_set_of_values(family: Family, ann: Person) -> None:
    """Pages count by template. Unknown paths share one route, and unknown methods one method."""
    ask(f"{family.url}/console/sign-in", 1)
    ask(f"{family.url}/nothing/of/this", 1, headers=ann.headers)
    ask(f"{family.url}/nothing/of/that", 1)
    ask(f"{family.url}/console/1/2/3/4/5/6/7", 1)
    ask(f"{family.url}/v3/cars?{'x' * 9_000}", 1)
    fetch("PURGE", f"{family.url}/v3/cars")
    wanted = {
        ("GET", "/console/sign-in", "200"), ("GET", "unknown", "404"), ("GET", "unknown", "401"),
        ("GET", "unknown", "303"), ("GET", "none", "414"), ("other", "/cars", "401"),
    }  # fmt: skip

    def found() -> set[tuple[str, str, str]]:
        return {(has["method"], has["route"], has["status"]) for has, _ in family.scrape().samples[TOTAL]}

    eventually(lambda: wanted <= found(), "all of them")
    routes = {has["route"] for has, _ in family.scrape().samples[TOTAL]}
    assert not [route for route in routes if "nothing" in route or route.strip("/").isdigit()]


def test_other_work_than_requests_is_measured(family: Family, ann: Person) -> None:
    ann.assignment(ann.car_with_box(), ann.user())
    wrong = {"username": ann.username, "password": "wrong", "grant_type": "password"}
    key = {"vendor-API-Key": ann.api_key}
    assert fetch("POST", f"{family.url}/v3/oauth2/token", data=wrong, headers=key).status_code == 401
    ann.event(ann.car(), ann.user())
    eventually(lambda: family.scrape().sum("keyrack_logins_total", result="wrong") >= 1, "the log-in")
    page = family.scrape()
    assert page.sum("keyrack_logins_total", result="accepted") >= 1
    assert page.sum("keyrack_operations_applied_total", result="succeeded") >= 1
    assert page.sum("keyrack_operation_wait_duration_seconds_count") >= 1
    assert page.sum("keyrack_events_total", result="accepted") >= 1
    assert page.sum("keyrack_access_cache_lookups_total", cache="tokens", result="hit") >= 1
    assert page.sum("keyrack_database_statement_duration_seconds_count", pool="keyrack worker") >= 1
    assert page.sum("keyrack_error_responses_total", code="wrong-credentials", status="401") >= 1
    assert [page.one("keyrack_database_listeners", process=place) for place in "012"] == [1, 1, 1]
    places = page.samples["keyrack_queue_capacity"]
    assert sorted((has["process"], value) for has, value in places if has["queue"] == "keyrack") == [
        ("0", 10), ("1", 10), ("2", 0),
    ]  # fmt: skip
    roles = {has["process"]: has["role"] for has, _ in page.samples["keyrack_process_info"]}
    assert roles == {"0": "serve", "1": "serve", "2": "work"}
    assert all(page.one("keyrack_process_resident_memory_bytes", process=place) > 10_000_000 for place in "012")


def test_database_metrics_are_reported_once(family: Family) -> None:
    good = "keyrack_housekeeping_last_success_timestamp_seconds"
    page = eventually(lambda: (page := family.scrape()).of(good) and page, "housekeeping")
    assert page.one("keyrack_database_up") == 1
    assert all("process" not in has for one in OF_DATABASE for has, _ in page.samples.get(one.name, ()))
    assert page.one("keyrack_operations_pending") == page.one("keyrack_operations_pending_oldest_age_seconds") == 0
    assert page.one("keyrack_database_size_bytes") > 1_000_000
    assert page.one("keyrack_database_connections", application="keyrack worker") >= 1
    assert page.one("keyrack_database_connections_max") > page.sum("keyrack_database_connections")


def test_metrics_match_their_documented_table(family: Family) -> None:
    kinds = family.scrape().kinds
    assert kinds == {row["name"]: row["kind"] for row in metrics_json()}


def test_selected_customers_have_a_limited_number_of_series(family: Family, ann: Person) -> None:
    for status, path in ((200, "/cars"), (404, "/cars/2147483647")):
        assert set(ask(f"{family.url}/v3{path}", 6, headers=ann.headers)) == {status}

    def done() -> bool:
        page = family.scrape()
        customers = {has["customer"] for has, _ in page.samples["keyrack_customer_requests_total"]}
        return customers == {"1"} and page.sum("keyrack_metrics_dropped_total") > 0

    eventually(done, "the bound")
    series = [name for name in family.scrape().samples if name.startswith("keyrack_customer_")]
    for place in "012":
        assert sum(len(family.scrape().of(name, process=place)) for name in series) <= 1


def test_metrics_are_served_in_both_formats_of_prometheus(family: Family) -> None:
    accept = "application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5"
    answer = web().get(family.port.url, headers={"Accept": accept, "Accept-Encoding": "gzip"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-encoding"] == "gzip"
    assert {found.name for found in text_string_to_metric_families(answer.text)} >= {"keyrack_process_up"}
    plain = web().get(family.port.url, headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers and parsed(plain.text).of("keyrack_process_up")
    assert web().head(family.port.url).content == b""


def test_the_metrics_port_serves_nothing_else(family: Family) -> None:
    base = family.port.url.removesuffix("/metrics")
    for path in ("/", "/metrics/", "/health", "/v3/cars"):
        assert web().get(base + path).status_code == 404
    assert web().post(family.port.url).status_code == 404
    assert web().get(f"{family.url}/metrics").status_code == 401  # the API's port serves no metrics


# The log


def line(family: Family, id: str) -> Any:
    """The log line of the request with this id."""
    return eventually(
        lambda: next((one for one in family.lines("request") if one["request_id"] == id), None), "the line"
    )


def test_each_request_has_a_log_line(family: Family, ann: Person) -> None:
    car = ann.car()
    answer = ann.get(f"/cars/{car}?$select=name", headers={"X-Request-Id": "a-read"})
    assert answer.headers["x-request-id"] == "a-read"
    told = line(family, "a-read")
    assert told.pop("seconds") > 0 and told.pop("timestamp")
    assert told == {
        "event": "request", "level": "info", "logger": "keyrack.requests", "request_id": "a-read",
        "method": "GET", "route": "/cars/{carId}", "path": f"/v3/cars/{car}", "status": 200,
        "bytes": len(answer.content), "customer": 1, "manager": told["manager"], "address": "127.0.0.1",
    }  # fmt: skip
    assert told["manager"] == family.sql.value("select manager_id from manager where username = $1", ann.username)


def test_log_lines_have_no_query_and_no_secret(family: Family, ann: Person) -> None:
    ann.get("/users?$filter=emailAddress eq 'alice.fisher@example.org'", headers={"X-Request-Id": "a-query"})
    line(family, "a-query")
    text = family.log.read_text()
    for secret in ("alice.fisher", ann.token, ann.api_key, ann.password):
        assert secret not in text


def test_rejected_requests_have_a_log_line_with_their_id(family: Family, ann: Person) -> None:
    """Covers rejections before routing, on pages and by the console."""
    cases = [
        (f"{family.url}/v3/cars?{'x' * 9_000}", "none", 414),
        (f"{family.url}/nothing", "unknown", 401),
        (f"{family.url}/console/api/v3/cars", "/cars", 401),
        (f"{family.url}/console/1/nothing", "unknown", 303),
        (f"{family.url}/v3/cars/x", "/cars/{carId}", 401),
    ]
    for url, route, status in cases:
        answer = fetch("GET", url)
        told = line(family, answer.headers["x-request-id"])
        assert (told["route"], told["status"]) == (route, answer.status_code) == (route, status), url
        assert told["customer"] is told["manager"] is None
    with socket.create_connection(("127.0.0.1", int(family.url.rpartition(":")[2]))) as raw:
        raw.sendall(b"nonsense\r\n\r\n")
        head = raw.makefile("rb").read().decode()
    (id,) = re.findall(r"x-request-id: (\w+)", head)
    assert (line(family, id)["route"], line(family, id)["status"]) == ("none", 400)
    problem = ann.get("/cars/2147483647", headers={"Accept": "application/problem+json"})
    assert problem.json()["traceId"] == problem.headers["x-request-id"]
    assert line(family, problem.json()["traceId"])["status"] == 404


def test_an_error_page_shows_the_request_id(family: Family, ann: Person) -> None:
    with ann.browser() as browser:
        answer = browser.get(f"/{ann.customer}/cars/2147483647", headers={"X-Request-Id": "a-page"})
    assert answer.status_code == 404
    assert "a-page" in answer.text and answer.headers["x-request-id"] == "a-page"
    told = line(family, "a-page")
    assert (told["customer"], told["route"]) == (ann.customer, "/console/{customer}/cars/{carId}")


def failed(family: Family, username: str, address: str) -> None:
    headers = {"X-Forwarded-For": address, "Origin": family.url}
    form = {"username": username, "password": "wrong"}
    answer = fetch("POST", f"{family.url}/console/sign-in", data=form, headers=headers)
    assert answer.status_code == 401


FORGED = '1", "event": "login failed", "address": "198.51.100.7", "logger": "keyrack.logins", "x": "'


@pytest.fixture(scope="module")
def guesses(family: Family) -> list[str]:
    """Log lines of failed logins from valid and invalid addresses, among others."""
    for address in ("203.0.113.9", "2001:db8::7", "::ffff:203.0.113.10", FORGED, "a.name.example"):
        failed(family, f"nobody {FORGED}", address)
    fetch("GET", f"{family.url}/v3/cars", headers={"X-Forwarded-For": FORGED})
    fetch("GET", f"{family.url}/{FORGED}")
    shown = ["203.0.113.9", "2001:db8::7", "203.0.113.10", "unknown", "unknown"]

    def addresses() -> list[str]:
        return [one["address"] for one in family.lines("login failed") if one["address"] != "127.0.0.1"]

    eventually(lambda: sorted(addresses()) == sorted(shown), "the lines")
    return log_lines(family.log)


def test_a_failed_login_is_logged_with_its_address(family: Family, guesses: list[str]) -> None:
    told = family.lines("login failed")
    assert {tuple(sorted(one)) for one in told} == {
        ("address", "event", "level", "logger", "request_id", "timestamp"),
    }  # no username, because it may be a mistyped password


def test_the_fail2ban_filter_finds_exactly_the_valid_addresses(guesses: list[str]) -> None:
    (expression,) = re.findall(r"^failregex = (.*)$", FILTER.read_text(), re.M)
    pattern = re.compile(expression.replace("<ADDR>", f"(?P<addr>{ADDRESS})"))
    found = [match["addr"] for one in guesses if (match := pattern.search(one))]
    assert set(found) - {"127.0.0.1"} == {"203.0.113.9", "2001:db8::7", "203.0.113.10"}
    by_journal = [f"host keyrack[12]: {one}" for one in guesses]
    assert len([one for one in by_journal if pattern.search(one)]) == len(found)


@pytest.mark.skipif(shutil.which("fail2ban-regex") is None, reason="fail2ban is not installed")
def test_fail2ban_accepts_the_filter(guesses: list[str], tmp_path: Path) -> None:
    log = tmp_path / "keyrack.log"
    log.write_text("\n".join(guesses) + "\n")
    found = ran("fail2ban-regex", "-o", "ip", str(log), str(FILTER)).split()
    assert set(found) - {"127.0.0.1"} == {"203.0.113.9", "2001:db8::7", "203.0.113.10"}


# Unresponsive processes


def test_a_stopped_process_does_not_delay_a_scrape(family: Family) -> None:
    """The process is down while the others report. Its counters continue afterwards."""
    stopped = serving(family.process.popen.pid)[0]
    before = family.scrape()
    os.kill(stopped, signal.SIGSTOP)
    try:
        page = family.scrape()
    finally:
        os.kill(stopped, signal.SIGCONT)
    ups = {has["process"]: value for has, value in page.samples["keyrack_process_up"]}
    (down,) = [place for place, value in ups.items() if not value]
    assert down in ("0", "1") and sum(ups.values()) == 2
    assert not page.of(TOTAL, process=down) and page.of("keyrack_process_info", process="2")
    assert page.one("keyrack_database_up") == 1
    eventually(lambda: set(family.ups().values()) == {1}, "all of them")
    assert family.scrape().sum(TOTAL, process=down) >= before.sum(TOTAL, process=down)


def test_the_successor_of_a_killed_process_starts_its_counters_again(family: Family) -> None:
    before = family.scrape()
    began = {place: before.one("keyrack_process_start_time_seconds", process=place) for place in "012"}
    os.kill(serving(family.process.popen.pid)[0], signal.SIGKILL)
    eventually(lambda: sorted(family.ups().values()) == [0, 1, 1], "one that is down")

    def again() -> set[str]:
        page = family.scrape()
        if page.of("keyrack_process_up") != [1, 1, 1]:
            return set()
        now = {place: page.one("keyrack_process_start_time_seconds", process=place) for place in "012"}
        return {place for place in "012" if now[place] != began[place]}

    (place,) = eventually(again, "its successor")
    page = family.scrape()
    assert place in ("0", "1")
    assert page.sum("keyrack_logins_total", process=place) == 0
    assert page.sum(TOTAL, process="1" if place == "0" else "0") > 0
