"""Passkeys in a browser, with the authenticator that Chromium has for tests; and the pages of second factors."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, Page, expect

from keyrack.auth import totp
from keyrack.core.settings import Settings
from tests.cli.test_operator_commands import Operator
from tests.console import axe
from tests.support.people import Person, Town
from tests.support.servers import DEADLINE, NUMBERS, RunningServer, Sql

OPTIONS = {
    "protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True,
    "isUserVerified": True, "automaticPresenceSimulation": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def named(settings: Settings, dsn: str) -> Iterator[RunningServer]:
    """A server whose public address has a name, as passkeys need one."""
    with RunningServer(settings, dsn, worker=False, public_url="http://localhost:{port}") as running:
        yield running


class Device:
    """A tab with an authenticator of its own, for a person."""

    def __init__(self, chromium: Browser, server: RunningServer, **options: Any) -> None:
        self.url = f"http://localhost:{server.port}"
        self.context = chromium.new_context(base_url=self.url, locale="en-GB", timezone_id="Europe/Berlin", **options)
        self.context.set_default_timeout(DEADLINE * 1000)
        self.page: Page = self.context.new_page()
        self.cdp: CDPSession = self.context.new_cdp_session(self.page)
        self.cdp.send("WebAuthn.enable")
        self.id = self.cdp.send("WebAuthn.addVirtualAuthenticator", {"options": OPTIONS})["authenticatorId"]

    def credentials(self) -> list[Any]:
        return self.cdp.send("WebAuthn.getCredentials", {"authenticatorId": self.id})["credentials"]

    def sign_in(self, person: Person) -> None:
        self.page.goto("/console/sign-in")
        self.page.get_by_label("User name").fill(person.username)
        self.page.get_by_label("Password").fill(person.password)
        self.page.get_by_role("button", name="Sign in", exact=True).click()

    def factors(self, person: Person) -> None:
        self.page.goto(f"/console/{person.customer}/settings/factors")

    def register(self, person: Person, name: str = "Laptop") -> None:
        self.sign_in(person)
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        self.factors(person)
        self.page.get_by_label("Name of the new passkey").fill(name)
        self.page.get_by_role("button", name="Add a passkey").click()
        expect(self.page.get_by_text("The passkey is added.")).to_be_visible()

    def sign_out(self) -> None:
        self.context.clear_cookies()

    def by_passkey(self) -> None:
        self.page.goto("/console/sign-in")
        self.page.get_by_role("button", name="Sign in with a passkey").click()


@pytest.fixture
def device(chromium: Browser, named: RunningServer) -> Iterator[Device]:
    made = Device(chromium, named)
    yield made
    made.context.close()


def amr(sql: Sql, person: Person) -> list[str]:
    return sql.value(
        "select amr from session join manager using (manager_id) where username = $1 order by session_id desc limit 1",
        person.username,
    )


def test_somebody_registers_a_passkey_and_signs_in_without_a_password(device: Device, town: Town, sql: Sql) -> None:
    person = town.person("paula")
    device.register(person)
    assert {"pwd", "user", "mfa"} < set(amr(sql, person))
    device.sign_out()
    device.by_passkey()
    expect(device.page).to_have_url(re.compile(rf"/console/{person.customer}"))
    assert set(amr(sql, person)) & {"hwk", "swk"} and {"user", "mfa"} < set(amr(sql, person))
    assert "pwd" not in amr(sql, person)
    # The password alone leads to the second page, and the passkey from there on
    device.sign_out()
    device.sign_in(person)
    expect(device.page.get_by_role("heading", name="Enter your second factor")).to_be_visible()
    assert axe.faults(device.page) == []
    device.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(device.page).to_have_url(re.compile(rf"/console/{person.customer}"))


def test_a_user_who_is_not_verified_is_refused(device: Device, town: Town) -> None:
    person = town.person("una")
    device.register(person)
    device.sign_out()
    device.cdp.send("WebAuthn.setUserVerified", {"authenticatorId": device.id, "isUserVerified": False})
    device.by_passkey()
    expect(device.page.get_by_text("The passkey was not read.")).to_be_visible()
    # Nor does it help to ask the device for less than the server wants
    device.page.goto("/console/sign-in")
    device.page.evaluate(
        """() => {
        const get = navigator.credentials.get.bind(navigator.credentials);
        navigator.credentials.get = (asked) => get({publicKey: {...asked.publicKey, userVerification: 'discouraged'}});
        }"""
    )
    device.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(device.page.get_by_text("The passkey was not accepted.")).to_be_visible()


def test_a_copy_of_a_passkey_is_refused_and_recorded(device: Device, town: Town, sql: Sql) -> None:
    person = town.person("clara")
    device.register(person)
    device.sign_out()
    device.by_passkey()
    expect(device.page).to_have_url(re.compile(rf"/console/{person.customer}"))
    sql.execute(
        "update passkey set sign_count = 1000 from manager m where m.manager_id = passkey.manager_id and username = $1",
        person.username,
    )
    for _ in range(2):  # and from then on
        device.sign_out()
        device.by_passkey()
        expect(device.page.get_by_text("The passkey was not accepted.")).to_be_visible()
    told = sql.value(
        "select count(*) from (select kind, after, resource_id from change_inbox union all"
        " select kind, after, resource_id from change) c join passkey p on p.passkey_id::text = c.resource_id"
        " join manager using (manager_id)"
        " where kind = 'passkey.updated' and after->>'isRefused' = 'true' and username = $1",
        person.username,
    )
    assert told == 1


def test_a_challenge_is_one_browsers_and_once(device: Device, town: Town) -> None:
    person = town.person("cora")
    device.register(person)
    device.sign_out()
    device.page.goto("/console/sign-in")
    sent: list[str] = []
    device.page.on(
        "request", lambda asked: sent.append(asked.post_data or "") if "/sign-in/passkey" in asked.url else 0
    )
    device.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(device.page).to_have_url(re.compile(rf"/console/{person.customer}"))
    headers = {"Origin": device.url, "Content-Type": "application/x-www-form-urlencoded"}
    again = device.context.request.post("/console/sign-in/passkey", data=sent[0], headers=headers, max_redirects=0)
    assert again.status == 401


def test_a_prepared_passkey_is_worth_nothing_after_the_first_proof(device: Device, town: Town, dsn: str) -> None:
    """The inviter opens the shown link and leaves a passkey in the account."""
    address = f"victim.{next(NUMBERS)}@corp.example"
    evil = town.person("an owner who prepares accounts")
    made = evil.put("/managers", {"emailAddress": address, "role": "Viewer"}).json()
    code = made["link"].partition("#")[2]
    form = {"code": code, "new": "yes", "new_password": evil.password}
    device.context.request.post("/console/invitation/accept", form=form, headers={"Origin": device.url})
    attacker = replace(evil, username=address)
    device.factors(attacker)
    device.page.get_by_label("Name of the new passkey").fill("Not of the person")
    device.page.get_by_role("button", name="Add a passkey").click()
    expect(device.page.get_by_text("The passkey is added.")).to_be_visible()
    device.sign_out()
    device.by_passkey()
    expect(device.page).to_have_url(re.compile(rf"/console/{evil.customer}"))
    link = Operator(dsn).json("manager", "prove", address)["link"]
    device.page.reload()
    expect(device.page).to_have_url(re.compile("/console/sign-in"))
    device.by_passkey()
    expect(device.page.get_by_text("The passkey was not accepted.")).to_be_visible()
    # The page does not ask the person for the attacker's factor
    device.page.goto(f"/console/password#{link.partition('#')[2]}")
    device.page.get_by_label("New password").fill(attacker.password + " anew")
    device.page.get_by_role("button", name="Save").click()
    device.sign_in(replace(attacker, password=attacker.password + " anew"))
    expect(device.page).to_have_url(re.compile(rf"/console/{evil.customer}"))
    evil.client.close()


def test_a_passkey_that_was_removed_is_refused(device: Device, town: Town) -> None:
    person = town.person("remo")
    device.register(person, "Old laptop")
    expect(device.page.get_by_role("row", name="Old laptop")).to_be_visible()
    device.page.get_by_role("button", name="Remove Old laptop").click()
    expect(device.page.get_by_text("It is removed.")).to_be_visible()
    device.sign_out()
    device.by_passkey()
    expect(device.page.get_by_text("The passkey was not accepted.")).to_be_visible()


def test_an_app_and_recovery_codes_are_set_up_in_the_console(device: Device, town: Town, sql: Sql) -> None:
    person = town.person("anna")
    device.sign_in(person)
    expect(device.page.get_by_role("heading", level=1)).to_be_visible()
    device.factors(person)
    device.page.get_by_role("button", name="Set up an app").click()
    expect(device.page.get_by_role("img", name="QR code")).to_be_visible()
    secret = device.page.get_by_role("region", name="Secret of the app").inner_text().strip()
    assert axe.faults(device.page) == []
    device.page.get_by_label("Current code of the app").fill("1")
    device.page.get_by_role("button", name="Confirm").click()
    expect(device.page.get_by_text("The code is wrong.").first).to_be_visible()
    device.page.get_by_label("Current code of the app").fill(totp.code(secret, int(time.time()) // 30))
    device.page.get_by_role("button", name="Confirm").click()
    expect(device.page.get_by_text("The app is set up.")).to_be_visible()
    device.page.get_by_role("button", name="Create new recovery codes").click()
    shown = device.page.get_by_role("region", name="Recovery codes").inner_text().split()
    assert len(shown) == 10
    # An owner requires it, and a person with a factor continues
    device.factors(person)
    device.page.get_by_label("Owner").check()
    device.page.get_by_role("button", name="Save rule").click()
    expect(device.page.get_by_text("The rule is saved.")).to_be_visible()
    device.sign_out()
    device.sign_in(person)
    device.page.get_by_label("Code of your app, or a recovery code").fill(shown[0])
    device.page.get_by_role("button", name="Sign in", exact=True).click()
    expect(device.page).to_have_url(re.compile(rf"/console/{person.customer}"))


def test_who_needs_a_factor_is_led_to_it(device: Device, town: Town, sql: Sql) -> None:
    person = town.person("ned")
    sql.execute("insert into factor_rule values ($1, 'Owner')", person.customer)
    device.sign_in(person)
    expect(device.page.get_by_text("Your role needs a second factor")).to_be_visible()
    assert axe.faults(device.page) == []
    device.page.get_by_label("Name of the new passkey").fill("Phone")
    device.page.get_by_role("button", name="Add a passkey").click()
    expect(device.page.get_by_text("The passkey is added.")).to_be_visible()
    device.page.goto(f"/console/{person.customer}/cars")
    expect(device.page.get_by_role("heading", name="Cars", exact=True)).to_be_visible()


def test_an_address_of_numbers_has_no_passkeys(server: RunningServer, chromium: Browser) -> None:
    page = chromium.new_page(base_url=server.url)
    page.goto("/console/sign-in")
    expect(page.get_by_role("button", name="Sign in", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Sign in with a passkey")).to_have_count(0)
    page.close()
