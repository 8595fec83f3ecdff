"""Attacks on drivers' accounts: other customers, earlier credentials, and concurrent requests."""

from __future__ import annotations

import threading
from base64 import urlsafe_b64decode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import httpx
import pytest

from keyrack.auth.passkeys import KNOWN, NOT_VERIFIED
from keyrack.drivers import accounts, app_access, links
from keyrack.drivers.links import LINK_EXPIRED
from tests.drivers.software_authenticator import SoftwareAuthenticator
from tests.drivers.test_account_abuse import (
    START,
    accept,
    customers,
    invitation,
    is_wrong,
    left,
    link,
    shared,
    user_of,
)
from tests.drivers.test_passkeys import at, dana, local
from tests.drivers.test_passkeys import sign_in as by_passkey
from tests.support.drivers import (
    COOKIE,
    PASSWORD,
    DriverBrowser,
    SignedInDriver,
    driver_address,
    driver_browser,
    signed_in_driver,
)
from tests.support.people import CHEAP, Person, done, refused
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually

__all__ = ("dana", "local")  # fixtures
OWN = "the password of the driver"
WAITING = "select count(*) from pg_locks where not granted and $1 = any(pg_blocking_pids(pid))"


def reset_meanwhile(
    dsn: str, driver: SignedInDriver, table: str, attack: Callable[[], httpx.Response]
) -> httpx.Response:
    """The response to a request that a reset of the account overtakes.

    Another transaction locks the `table` that the request writes to, and resets the account as `accounts.accept` does.
    """
    other, answers = Sql(dsn), list[httpx.Response]()
    try:
        other.execute("begin")
        other.execute(f"lock table {table} in exclusive mode")
        request = threading.Thread(target=lambda: answers.append(attack()))
        request.start()
        eventually(lambda: other.value(WAITING, other.raw.get_server_pid()), "the wait for the reset")
        other.execute(accounts.DELETE, driver.user)
        other.execute(accounts.CREATE, driver.user, uuid4(), CHEAP.hash(OWN), True)
        other.execute("commit")
        request.join(DEADLINE)
    finally:
        other.close()
    (answer,) = answers
    return answer


def belongs_to_its_driver(attacker: DriverBrowser, driver: SignedInDriver, own: DriverBrowser) -> None:
    """Check that the account has the credentials of its driver alone."""
    assert not attacker.is_in
    assert is_wrong(attacker.sign_in(driver.address))
    assert own.sign_in(driver.address, OWN).status_code == 201
    assert own.get("/passkeys").json() == []


def test_a_sign_in_with_the_password_of_before_opens_no_reset_account(alice: Person, dsn: str) -> None:
    driver, attacker = signed_in_driver(alice), driver_browser(alice)
    answer = reset_meanwhile(dsn, driver, "driver_session", lambda: attacker.sign_in(driver.address))
    assert answer.status_code == 403, answer.text
    belongs_to_its_driver(attacker, driver, driver_browser(alice))


@pytest.mark.parametrize("attack", ["password", "account"])
def test_a_session_of_before_changes_no_reset_account(alice: Person, dsn: str, attack: str) -> None:
    driver = signed_in_driver(alice)
    change = {"current": "my own password", "password": "another password"}
    calls = {"password": lambda: driver.put("/password", change), "account": lambda: driver.delete("/account")}
    reset_meanwhile(dsn, driver, "driver_account", calls[attack])
    belongs_to_its_driver(driver, driver, driver_browser(alice))


def test_a_passkey_of_before_opens_no_reset_account(dana: Person, local: RunningServer, dsn: str) -> None:
    driver, attacker = signed_in_driver(dana), driver_browser(dana, **at(local))
    driver.http.headers["Origin"] = local.settings.public_url
    device, late = (SoftwareAuthenticator(local.settings.public_url) for _ in range(2))
    credential = device.create(driver.post("/passkeys/options").json()["publicKey"])
    assert driver.post("/passkeys", {"credential": credential}).status_code == 201
    challenge = attacker.post("/session/options").json()["publicKey"]
    signed = {"credential": device.get(challenge)}
    reset_meanwhile(dsn, driver, "driver_session", lambda: attacker.post("/session/passkey", signed))
    belongs_to_its_driver(attacker, driver, driver_browser(dana, **at(local)))
    # A new passkey, which the session of before has begun
    again = SignedInDriver(driver_browser(dana, **at(local)).http, driver.user, driver.address, driver.customer)
    assert again.sign_in(driver.address, OWN).status_code == 201
    credential = late.create(again.post("/passkeys/options").json()["publicKey"])
    reset_meanwhile(dsn, again, "driver_account", lambda: again.post("/passkeys", {"credential": credential}))
    belongs_to_its_driver(again, driver, driver_browser(dana, **at(local)))


def test_a_password_of_before_opens_no_account_after_its_change(alice: Person, dsn: str) -> None:
    driver, attacker = signed_in_driver(alice), driver_browser(alice)
    other, answers = Sql(dsn), list[httpx.Response]()
    other.execute("begin")
    other.execute(accounts.CHANGE, driver.user, CHEAP.hash(OWN))
    request = threading.Thread(target=lambda: answers.append(attacker.sign_in(driver.address)))
    request.start()
    eventually(lambda: other.value(WAITING, other.raw.get_server_pid()), "the wait for the change")
    other.execute("commit")
    request.join(DEADLINE)
    other.close()
    assert answers[0].status_code == 403, answers[0].text
    belongs_to_its_driver(attacker, driver, driver_browser(alice))


def test_a_start_password_lifts_no_withdrawal(alice: Person) -> None:
    address = driver_address()
    user, browser = user_of(alice, address), driver_browser(alice)
    early = browser.sign_in(address, START).json()["link"]
    done(alice.delete(f"/users/{user}/app-access"))
    refused(browser.sign_in(address, START), 403, accounts.NO_ACCESS)
    refused(accept(browser, early), 404, LINK_EXPIRED)
    for kind in ("invitation", "setup"):  # made by a request that began before
        refused(accept(browser, link(alice, user, kind)), 404, LINK_EXPIRED)
    assert accept(browser, invitation(alice, user)).status_code == 201
    assert customers(browser) == [alice.customer]


def test_a_link_that_was_accepted_during_a_withdrawal_gives_no_access(alice: Person, dsn: str) -> None:
    user, browser = user_of(alice, driver_address()), driver_browser(alice)
    secret = invitation(alice, user)
    other, answers = Sql(dsn), list[httpx.Response]()
    other.execute("begin")
    other.execute(app_access.WITHDRAW, alice.customer, user)
    request = threading.Thread(target=lambda: answers.append(accept(browser, secret)))
    request.start()
    eventually(lambda: other.value(WAITING, other.raw.get_server_pid()), "the wait for the withdrawal")
    other.execute("commit")
    request.join(DEADLINE)
    other.close()
    refused(answers[0], 404, LINK_EXPIRED)
    assert alice.get(f"/users/{user}/app-access").json()["isWithdrawn"]


def test_a_link_is_accepted_once_by_concurrent_requests(alice: Person, dsn: str) -> None:
    user = user_of(alice, driver_address())
    secret, browsers = invitation(alice, user), [driver_browser(alice) for _ in range(2)]
    other = Sql(dsn)
    other.execute("begin")
    other.execute(links.LOCK, user)
    with ThreadPoolExecutor(2) as threads:
        requests = [threads.submit(accept, browser, secret, reset=True) for browser in browsers]
        waiting = "select count(*) from pg_locks where not granted"
        eventually(lambda: other.value(waiting) >= len(browsers), "the wait for the person")
        other.execute("commit")
        statuses = sorted(request.result().status_code for request in requests)
    other.close()
    assert statuses == [201, 404]
    assert [browser.is_in for browser in browsers].count(True) == 1


@pytest.mark.parametrize("is_proven", [True, False])
def test_an_invitation_ends_no_account_of_another_customer(alice: Person, bob: Person, is_proven: bool) -> None:
    """A manager adds a known address, and accepts its own invitation."""
    driver, thief = signed_in_driver(alice, is_proven=is_proven), driver_browser(bob)
    shared(bob, driver.address)
    secret = invitation(bob, driver.user)
    assert not thief.post("/links/preview", {"secret": secret}).json()["canReset"]
    for reset in (False, True):
        refused(accept(thief, secret, reset=reset), 409, accounts.RESET_REFUSED)
    assert driver.is_in
    assert driver.sign_in(driver.address).status_code == 201
    # The own fleet resets an account whose password is forgotten
    secret = invitation(alice, driver.user)
    assert thief.post("/links/preview", {"secret": secret}).json()["canReset"]
    assert accept(driver_browser(alice), secret, reset=True).status_code == 201


def test_an_invitation_of_the_only_customer_resets_a_proven_account(alice: Person, bob: Person) -> None:
    driver = signed_in_driver(alice, is_proven=True)
    shared(bob, driver.address)
    left(alice, driver.address)
    assert customers(driver) == [bob.customer]
    assert accept(driver_browser(bob), invitation(bob, driver.user), reset=True).status_code == 201
    assert not driver.is_in


def withdrawn(driver: SignedInDriver, alice: Person) -> None:
    done(alice.delete(f"/users/{driver.user}/app-access"))


def signed_out(driver: SignedInDriver, _: Person) -> None:
    done(driver.delete("/session"))


def lost(driver: SignedInDriver, alice: Person) -> None:
    other = driver_browser(alice)
    assert other.sign_in(driver.address).status_code == 201
    assert other.post("/lost", {"phones": [], "endSessions": True}).status_code == 200


def new_password(driver: SignedInDriver, alice: Person) -> None:
    other = driver_browser(alice)
    assert other.sign_in(driver.address).status_code == 201
    done(other.put("/password", {"current": PASSWORD, "password": OWN}))


@pytest.mark.parametrize("end", [withdrawn, signed_out, lost, new_password])
def test_a_phone_gets_no_keys_after_the_end_of_its_session(
    alice: Person, end: Callable[[SignedInDriver, Person], None]
) -> None:
    driver = signed_in_driver(alice)
    token = driver.post("/token", customer=alice.customer).json()["idToken"]
    app = replace(alice, headers={"Authorization": f"Bearer {token}"})
    assert app.get("/sdk/devices").status_code == 200
    end(driver, alice)
    assert app.get("/sdk/devices").status_code == 401
    assert app.post("/sdk/devices/nonce").status_code == 401
    assert app.get("/sdk/keys").status_code == 401


EVIL = "https://evil.example"


def test_a_passkey_of_another_page_host_or_user_opens_nothing(dana: Person, local: RunningServer) -> None:
    driver, stranger = signed_in_driver(dana), signed_in_driver(dana)
    for each in (driver, stranger):
        each.http.headers["Origin"] = local.settings.public_url
    device = SoftwareAuthenticator(local.settings.public_url)
    options = driver.post("/passkeys/options").json()["publicKey"]
    for wrong in (SoftwareAuthenticator(EVIL), SoftwareAuthenticator(local.settings.public_url, "evil.example")):
        refused(driver.post("/passkeys", {"credential": wrong.create(options)}), 422, NOT_VERIFIED)
        options = driver.post("/passkeys/options").json()["publicKey"]
    # The challenge of one driver, answered in the session of another
    refused(stranger.post("/passkeys", {"credential": device.create(options)}), 422, NOT_VERIFIED)
    stranger.post("/passkeys/options")
    refused(stranger.post("/passkeys", {"credential": device.create(options)}), 422, NOT_VERIFIED)
    assert driver.post("/passkeys", {"credential": device.create(options)}).status_code == 201
    own = device.handle
    options = stranger.post("/passkeys/options").json()["publicKey"]
    refused(stranger.post("/passkeys", {"credential": device.create(options)}), 409, KNOWN)
    for handle in (stranger_handle(stranger), b"", bytes(16)):
        device.handle = handle
        assert is_wrong(by_passkey(driver_browser(dana, **at(local)), device))
    device.handle = own
    assert by_passkey(driver_browser(dana, **at(local)), device).status_code == 201


def stranger_handle(driver: SignedInDriver) -> bytes:
    text = driver.post("/passkeys/options").json()["publicKey"]["user"]["id"]
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def test_another_host_in_the_request_reaches_no_link(alice: Person) -> None:
    user = user_of(alice, driver_address())
    for name in ("Host", "X-Forwarded-Host", "Forwarded"):
        answer = alice.post(f"/users/{user}/app-invitation", {}, headers={name: "evil.example"})
        assert answer.status_code != 201 or "evil.example" not in answer.text
        shown = alice.client.get(alice.client.base_url.join("/drive"), headers={name: "evil.example"})
        assert (shown.status_code, shown.headers["location"]) == (308, "/drive/")


def test_a_planted_cookie_signs_nobody_in(alice: Person) -> None:
    """A neighbouring host has set a cookie, too. The browser sends both."""
    driver, attacker = signed_in_driver(alice), signed_in_driver(alice)
    own, planted = f"{COOKIE}={driver.cookie}", f"{COOKIE}={attacker.cookie}"
    browser = driver_browser(alice)
    for cookie in (f"{own}; {planted}", f"{planted}; {own}"):
        assert browser.get("/session", headers={"Cookie": cookie}).status_code == 401
    assert browser.get("/session", headers={"Cookie": own}).status_code == 200


@pytest.mark.parametrize(
    "name", ["\u202emoc.elpmaxe", "\x00", "x" * 101], ids=["direction", "zero", "long"]
)  # fmt: skip
def test_a_name_cannot_reverse_the_text_of_a_page(alice: Person, name: str) -> None:
    driver = signed_in_driver(alice)
    assert driver.post("/passkeys", {"credential": {}, "name": name}).status_code == 400
    comment = {"assignmentId": 1, "kind": "end", "comment": name * 3}
    assert driver.put("/requests", comment, customer=alice.customer).status_code == 400


def test_a_nested_or_large_credential_is_refused(alice: Person) -> None:
    browser = driver_browser(alice)
    headers = {"Content-Type": "application/json"}
    nested = b'{"credential": ' + b'{"a": ' * 50_000 + b"1" + b"}" * 50_001
    large = b'{"credential": {"id": "' + b"x" * 20_000_000 + b'"}}'
    for body, statuses in ((nested, (400, 401)), (large, (413,))):
        answer = browser.call("POST", "/session/passkey", content=body, headers=headers)
        assert answer.status_code in statuses, answer.text
