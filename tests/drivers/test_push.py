"""Web Push to drivers: subscriptions, causes and delivery."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keyrack.core.settings import Settings
from tests.drivers.push_service import PushBrowser, PushService
from tests.offline_keys.offline_world import driver as phone_of
from tests.offline_keys.offline_world import garage
from tests.support.drivers import Booking, SignedInDriver, at, signed_in_driver
from tests.support.people import Person, Town, done
from tests.support.servers import Process, RunningServer, Sql, eventually, migrated_database

pytestmark = pytest.mark.cluster

# Not for a message that a worker has claimed
PASSED = "update driver_push set sent_at = null, due_at = now() where endpoint = $1 and attempts = 0 and due_at > now()"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PushService]:
    with PushService(tmp_path_factory.mktemp("push")) as running:
        yield running


@pytest.fixture(scope="module")
def push_settings(settings: Settings, service: PushService) -> Settings:
    return settings.model_copy(update={"push": True, "push_services": f"{service.host}, *.push.example"})


@pytest.fixture(scope="module")
def push_dsn(database_server: str) -> Iterator[str]:
    with migrated_database(database_server) as dsn:
        yield dsn


@pytest.fixture(scope="module")
def push_server(push_settings: Settings, push_dsn: str, service: PushService) -> Iterator[RunningServer]:
    env = {
        "KEYRACK_DATABASE_URL": push_dsn, "KEYRACK_PUSH": "true", "KEYRACK_PUSH_SERVICES": service.host,
        "KEYRACK_PUSH_CONTACT": "mailto:operator@example.com", "KEYRACK_PUSH_INTERVAL_SECONDS": "3600",
        "KEYRACK_WORKER_POLL": "0.1", "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8, ::1",
        "SSL_CERT_FILE": str(service.certificate),
    }  # fmt: skip
    with RunningServer(push_settings, push_dsn, worker=False) as running:
        worker = Process("work", env=env, log=Path(service.certificate).with_suffix(".log"))
        yield running
        worker.stop()
        worker.popen.communicate()


@pytest.fixture(scope="module")
def push_sql(push_dsn: str) -> Iterator[Sql]:
    sql = Sql(push_dsn)
    yield sql
    sql.close()


@pytest.fixture(scope="module")
def push_town(push_sql: Sql, push_server: RunningServer) -> Town:
    return Town(push_sql, push_server)


@pytest.fixture(scope="module")
def dora(push_town: Town) -> Iterator[Person]:
    person = push_town.person("dora")
    yield person
    person.client.close()


def subscribed(driver: SignedInDriver, service: PushService) -> PushBrowser:
    browser = PushBrowser(service)
    done(driver.put("/push", browser.subscription))
    return browser


def next_message(person: Person, browser: PushBrowser, before: int = 0) -> None:
    """Let the interval pass, and wait for the message."""

    def arrived() -> bool:
        person.sql.execute(PASSED, browser.endpoint)
        return len(browser.messages) > before and is_idle(person, browser)

    eventually(arrived, "the message")


def settled(person: Person, browser: PushBrowser) -> dict[str, Any]:
    """The subscription once nothing is queued."""
    nothing_is_queued(person)
    (row,) = person.sql.rows("select * from driver_push where endpoint = $1", browser.endpoint)
    return dict(row)


def nothing_is_queued(person: Person) -> None:
    eventually(lambda: not person.sql.value("select count(*) from driver_push_change"), "the queue")


def is_idle(person: Person, browser: PushBrowser) -> bool:
    """Whether no change is queued, and no message is pending."""
    queued = person.sql.value("select count(*) from driver_push_change")
    idle = "select count(*) = 1 from driver_push where endpoint = $1 and due_at is null"
    return not queued and person.sql.value(idle, browser.endpoint)


def test_a_message_has_one_text_without_personal_data(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    Booking(dora, driver)
    next_message(dora, browser)
    message = browser.messages[0]
    assert browser.decrypt(message.body) == b"Your keys have changed"
    shown = {name: message.headers[name] for name in ("content-encoding", "ttl", "topic", "urgency")}
    assert shown == {"content-encoding": "aes128gcm", "ttl": "86400", "topic": "keys", "urgency": "normal"}
    key = driver.get("/settings").json()["pushKey"]
    assert message.headers["authorization"].startswith("vapid t=")
    assert message.headers["authorization"].endswith(f", k={key}")


def test_changes_of_an_assignment_cause_messages(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    booking = Booking(dora, driver)
    next_message(dora, browser)
    patch = [{"op": "replace", "path": "/end", "value": at(5)}]
    done(dora.patch(f"/assignments/{booking.id}", patch))
    next_message(dora, browser, 1)
    done(dora.delete(f"/assignments/{booking.id}"))
    next_message(dora, browser, 2)


def test_changes_within_the_interval_share_a_message(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    Booking(dora, driver)
    next_message(dora, browser)
    for _ in range(3):
        Booking(dora, driver)
    row = settled(dora, browser)
    assert len(browser.messages) == 1
    assert (row["due_at"] - row["sent_at"]).total_seconds() == 3_600
    next_message(dora, browser, 1)
    assert len(browser.messages) == 2


def test_a_revoked_key_is_news_to_all_drivers_of_the_box(dora: Person, service: PushService) -> None:
    car, _ = garage(dora)
    drivers = [signed_in_driver(dora), signed_in_driver(dora), signed_in_driver(dora)]
    for driver in drivers[:2]:
        dora.assignment(car, driver.user)
        assert phone_of(dora, driver.user).fetch()["keys"]
    phone = dora.get(f"/users/{drivers[0].user}/devices").json()[0]["id"]
    nothing_is_queued(dora)
    first, second, other = (subscribed(driver, service) for driver in drivers)
    done(dora.delete(f"/users/{drivers[0].user}/devices/{phone}"))
    next_message(dora, first)
    next_message(dora, second)
    assert settled(dora, other)["changes"] == 0


def test_a_decision_of_a_request_causes_a_message(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    booking = Booking(dora, driver)
    nothing_is_queued(dora)
    browser = subscribed(driver, service)
    id = booking.ask(kind="extend", end=at(6)).json()["id"]
    assert settled(dora, browser)["changes"] == 0  # the driver knows it
    done(dora.put(f"/assignment-requests/{id}/decision", {"decision": "reject"}))
    next_message(dora, browser)


def test_other_drivers_and_other_customers_get_no_message(dora: Person, push_town: Town, service: PushService) -> None:
    driver, other = signed_in_driver(dora), signed_in_driver(dora)
    stranger = push_town.person("erik")
    done(stranger.put("/users/assignments/customers", {"emailAddress": driver.address}))
    browser, others = subscribed(driver, service), subscribed(other, service)
    Booking(stranger, driver)  # the account gives that customer no access
    assert settled(dora, browser)["changes"] == 0
    Booking(dora, driver)
    next_message(dora, browser)
    assert settled(dora, others)["changes"] == 0
    stranger.client.close()


@pytest.mark.parametrize("status", [404, 410])
def test_an_ended_subscription_is_deleted(dora: Person, service: PushService, status: int) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    service.replies[browser.path] = (status, b"", {})
    Booking(dora, driver)
    eventually(
        lambda: not dora.sql.value("select count(*) from driver_push where endpoint = $1", browser.endpoint), "the end"
    )
    assert len(browser.messages) == 1


def test_a_busy_service_is_asked_again_when_it_wants(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    service.replies[browser.path] = (503, b"x" * 100_000, {"Retry-After": "7200"})
    Booking(dora, driver)
    wait = "select due_at > now() + interval '1 hour' from driver_push where endpoint = $1"
    eventually(lambda: dora.sql.value(wait, browser.endpoint), "the back-off")
    del service.replies[browser.path]
    dora.sql.execute("update driver_push set due_at = now() where endpoint = $1", browser.endpoint)
    next_message(dora, browser, 1)
    assert len(browser.messages) == 2


def test_a_rejected_message_is_not_repeated(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser = subscribed(driver, service)
    service.replies[browser.path] = (403, b"wrong key", {})
    Booking(dora, driver)
    next_message(dora, browser)
    assert len(browser.messages) == 1


def test_no_redirect_is_followed(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    browser, inside = subscribed(driver, service), PushBrowser(service)
    service.replies[browser.path] = (307, b"", {"Location": inside.endpoint})
    Booking(dora, driver)
    next_message(dora, browser)
    assert inside.messages == []


@pytest.mark.parametrize(
    "endpoint",
    [
        "https://127.0.0.1/push", "https://localhost/push", "http://eu.push.example/1", "https://push.example/1",
        "https://eu.push.example:8443/1", "https://a@eu.push.example/1", "https://eu.push.example\\@127.0.0.1/1",
        "https://127.0.0.1#.push.example/1", "https://eu.push.example.evil/1", "https://eu.push.example",
        "eu.push.example",
    ],
)  # fmt: skip
def test_an_endpoint_of_another_host_is_rejected(dora: Person, service: PushService, endpoint: str) -> None:
    driver = signed_in_driver(dora)
    answer = driver.put("/push", PushBrowser(service).subscription | {"endpoint": endpoint})
    assert answer.status_code == 400, answer.text
    assert "Allowed hosts" in answer.text
    done(driver.put("/push", PushBrowser(service).subscription | {"endpoint": "https://eu.push.example/1"}))
    done(driver.delete("/push"))


@pytest.mark.parametrize(
    "keys", [{"p256dh": "BAAA"}, {"auth": "AAAA"}, {"auth": "not base64!"}, {"endpoint": "x" * 1001}]
)
def test_a_malformed_subscription_is_rejected(dora: Person, service: PushService, keys: dict[str, str]) -> None:
    assert signed_in_driver(dora).put("/push", PushBrowser(service).subscription | keys).status_code == 400


def test_a_subscription_ends_with_its_session(dora: Person, service: PushService) -> None:
    driver = signed_in_driver(dora)
    phone = signed_in_driver(dora, driver.user)
    first, second = subscribed(driver, service), subscribed(phone, service)
    kept = "select count(*) from driver_push where endpoint = any($1)"
    both = [first.endpoint, second.endpoint]
    done(driver.delete("/session"))
    assert dora.sql.value(kept, both) == 1
    done(phone.delete("/push"))
    done(phone.delete("/push"))
    assert dora.sql.value(kept, both) == 0


def test_a_browser_has_one_subscription(dora: Person, service: PushService) -> None:
    """A browser in which another driver signs in brings the same endpoint."""
    driver, other = signed_in_driver(dora), signed_in_driver(dora)
    browser = subscribed(driver, service)
    done(other.put("/push", browser.subscription))
    Booking(dora, driver)
    Booking(dora, other)
    next_message(dora, browser)
    assert dora.sql.value("select user_id from driver_push where endpoint = $1", browser.endpoint) == other.user


def test_without_push_there_is_no_key(alice: Person, service: PushService) -> None:
    driver = signed_in_driver(alice)
    assert driver.get("/settings").json()["pushKey"] is None
    answer = driver.put("/push", PushBrowser(service).subscription)
    assert (answer.status_code, answer.text) == (409, "This server sends no push messages.")
