"""The sources of the TypeScript client, in Node and in Chromium."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from keyrack.core.settings import Settings
from tests.clients.tools import NODE
from tests.clients.typescript_client import (
    PROGRAMS,
    SOURCES,
    credentials,
    losing_every_second_response,
    page,
    run,
    without_types,
)
from tests.support.browser import launched, needed
from tests.support.killed_readers import check_no_change_is_lost
from tests.support.people import Person, Town, web
from tests.support.servers import RunningServer

MODULE = SOURCES / "index.ts"
BOOKINGS = 100
HOOK = "http://127.0.0.1:9/hook"
SCRIPT = """async ([module, scenario, given, secrets]) => {
  const client = await import(module)
  let refusal = "none"
  try { new client.Keyrack(secrets) } catch (error) { refusal = error.message }
  return [refusal, await (await import(scenario)).scenario(client, given)]
}"""


def expected(box: str) -> dict[str, Any]:
    return {
        "car": ["Golf", "VW", None],
        "batch": [201, 201, 201, 400],
        "names": ["Golf", "Without a box", "a", "b", "c"],
        "first": [],
        "counted": ["5", 1],
        "product": box,
        "booked": ["Succeeded", True],
        "moved": "Succeeded",
        "assignment": ["2030-05-03T00:00:00Z", 1],
        "free": ["Golf", "Without a box", "a", "b", "c"],
        "ready": True,
        "later": [400, "/colour"],
        "ended": "Succeeded",
        "operations": ["Succeeded"] * 3,
        "failed": "no-key-box",
        "missing": [404, "car-not-found", "string"],
        "wrong": ["invalid-members", "/end"],
        "event": "2026-05-01T10:15:00",
        "location": "no-iq-in-car",
        "group": 1,
        "webhook": [["car.*"], True],
        "resumed": 1,
        "kinds": ["car.created", "webhook.deleted", True],
        "gone": True,
        "aborted": "enough",
        "verified": "invalid",
    }


@pytest.fixture(scope="module")
def open_server(dsn: str, settings: Settings, server: RunningServer) -> Iterator[RunningServer]:
    """A server that pages of every origin may call. The worker is that of the other one."""
    values = {"cors_origins": "*", "assignment_rate": 100_000, "assignment_burst": 10_000}
    assert values.keys() <= Settings.model_fields.keys()
    with RunningServer(settings.model_copy(update=values), dsn, worker=False) as running:
        yield running


@pytest.fixture
def owner(town: Town) -> Person:
    return town.person("typescript")


def box(person: Person) -> str:
    serial = f"box of {person.customer}"
    person.service(person.product("Box", serial_number=serial))
    return serial


def test_the_scenario_in_node(owner: Person, open_server: RunningServer) -> None:
    serial = box(owner)
    given = credentials(owner, open_server.url) | {"box": serial, "hook": HOOK}
    assert run("node_scenario.ts", MODULE, given) == expected(serial)


@needed
def test_the_scenario_in_a_browser(owner: Person, open_server: RunningServer) -> None:
    serial = box(owner)
    secrets = credentials(owner, open_server.url)
    form = {name: secrets[option] for name, option in (("client_id", "clientId"), ("client_secret", "clientSecret"))}
    answer = web().post(
        f"{open_server.url}/v3/oauth2/token",
        data=form | {"grant_type": "client_credentials"},
        headers={"vendor-API-Key": owner.api_key},
    )
    given = {name: secrets[name] for name in ("url", "apiKey", "customerId")}
    given |= {"token": answer.json()["access_token"], "box": serial, "hook": HOOK}
    modules = {f"/src/{path.name}": without_types(path) for path in SOURCES.glob("*.ts")}
    modules["/scenario.ts"] = without_types(PROGRAMS / "scenario.ts")
    with page(modules) as url, launched() as browser:
        tab = browser.new_page()
        tab.goto(url)
        refusal, seen = tab.evaluate(SCRIPT, ["/src/index.ts", "/scenario.ts", given, secrets])
    assert refusal.startswith("A browser must not have clientSecret or login")
    assert seen == expected(serial)


def test_lost_responses_book_nothing_twice(owner: Person, open_server: RunningServer) -> None:
    car, user = owner.car_with_box(), owner.user()
    lost: list[str] = []
    with losing_every_second_response(open_server.url, lost) as url:
        given = credentials(owner, url) | {"carId": car, "userId": user, "count": BOOKINGS}
        assert run("flaky_bookings.ts", MODULE, given) == BOOKINGS
    starts = [row["start"] for row in owner.get(f"/cars/{car}/assignments").json()]
    assert len(starts) == len(set(starts)) == BOOKINGS
    assert lost.count("PUT /v3/assignments") > BOOKINGS / 4


def test_no_change_is_lost_by_a_kill(owner: Person, open_server: RunningServer, tmp_path: Path) -> None:
    """The program continues where it was."""
    options = json.dumps(credentials(owner, open_server.url))
    command = [NODE, PROGRAMS / "follow_changes.ts", MODULE, options, tmp_path / "position"]
    check_no_change_is_lost(owner, command, tmp_path, None, seed=43)


def test_messages_of_the_python_library_are_verified() -> None:
    secret, other = "whsec_" + "c2VjcmV0" * 4, "whsec_" + "b3RoZXIh" * 4
    now = datetime.now(UTC)
    body = json.dumps({"type": "assignment.created", "name": "Käfer"}, ensure_ascii=False)

    def message(at: datetime, signers: tuple[str, ...], secrets: list[str], sent: str = body) -> dict[str, Any]:
        signatures = " ".join(Webhook(signer).sign("m1", at, body) for signer in signers)
        headers = {"webhook-id": "m1", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signatures}
        return {"headers": headers, "body": sent, "secrets": secrets}

    messages = [
        message(now, (secret,), [secret]),
        message(now, (other, secret), [secret]),
        message(now, (secret,), [other, secret]),
        message(now, (secret,), [other]),
        message(now, (secret,), [secret], body + " "),
        message(now - timedelta(minutes=20), (secret,), [secret]),
    ]
    genuine, wrong = json.loads(body), "InvalidSignature"
    assert run("verify_lines.ts", MODULE, messages) == [genuine] * 3 + [wrong] * 3
