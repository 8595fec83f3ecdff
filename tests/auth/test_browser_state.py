"""Sign-in state in the browser's cookie: bound, expiring, and used once.

It is bound to browser, purpose and installation. Strangers leave nothing in the database, and cannot make another
sign-in fail.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from keyrack.auth import browser_state, passkeys
from keyrack.auth.sso import login_flow
from keyrack.core.settings import Settings
from keyrack.db.connection import Database
from keyrack.db.encryption.bootstrap import open_vault
from keyrack.db.encryption.cipher import Encryption
from tests.auth.authenticator import PasskeyBrowser, SoftwarePasskey
from tests.support.people import Town
from tests.support.servers import SELDOM, RunningServer, Sql

FLOOD = 1_000  # challenges
PUBLIC = "http://localhost:{port}"
KEPT = """
select (select count(*) from sign_in_step where kind = 'passkey') + (select count(*) from login_state)
  + (select count(*) from used_login_state)
"""


@pytest.fixture(scope="module")
def servers(dsn: str, settings: Settings) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two processes of one installation, at the address of the first one."""
    server = RunningServer(settings, dsn, worker=False, public_url=PUBLIC)
    two = RunningServer(settings, dsn, worker=False, public_url=server.settings.public_url)
    with server, two:
        yield server, two


@pytest.fixture
def named(servers: tuple[RunningServer, RunningServer]) -> RunningServer:
    return servers[0]


@pytest.fixture
def passkey(town: Town, sql: Sql, named: RunningServer) -> SoftwarePasskey:
    return SoftwarePasskey(sql, town.person("pia"), named)


def challenge_of(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    challenge = answer.json()["publicKey"]["challenge"]
    assert isinstance(challenge, str)
    return challenge


def is_in(answer: httpx.Response) -> bool:
    """Whether the answer begins a session; otherwise the form says that the passkey was not accepted."""
    if answer.status_code == 303:
        return "keyrack-session" in answer.cookies
    assert (answer.status_code, "The passkey was not accepted." in answer.text) == (401, True), answer.text
    return False


def sealed(dsn: str, settings: Settings, made: Callable[[Encryption], Awaitable[bytes]]) -> str:
    """A cookie that is sealed with the key of the installation."""

    async def run() -> bytes:
        db = await Database.connect(dsn, settings, size=1)
        try:
            return await made(await open_vault(db, settings))
        finally:
            await db.close()

    return urlsafe_b64encode(asyncio.run(run())).rstrip(b"=").decode()


def test_a_challenge_signs_in_once_over_all_processes(
    servers: tuple[RunningServer, RunningServer], passkey: SoftwarePasskey
) -> None:
    browser = PasskeyBrowser(servers[0])
    credential = passkey.sign(challenge_of(browser.challenge(servers[0])))
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda server: is_in(browser.show(credential, server)), servers * 4))
    assert sorted(answers) == [False] * 7 + [True]


def test_each_tab_of_a_browser_has_its_challenge(named: RunningServer, passkey: SoftwarePasskey) -> None:
    browser = PasskeyBrowser(named)
    first, second = challenge_of(browser.challenge()), challenge_of(browser.challenge())
    assert [is_in(browser.show(passkey.sign(code))) for code in (first, second)] == [True, True]
    oldest = challenge_of(browser.challenge())
    for _ in range(browser_state.MOST):
        browser.challenge()
    assert len(browser.cookie) <= browser_state.LONGEST
    assert not is_in(browser.show(passkey.sign(oldest)))


def test_another_browsers_challenge_is_refused(named: RunningServer, passkey: SoftwarePasskey) -> None:
    own, other = PasskeyBrowser(named), PasskeyBrowser(named)
    credential = passkey.sign(challenge_of(own.challenge()))
    assert not is_in(other.show(credential))
    other.challenge()
    assert not is_in(other.show(credential))
    assert is_in(own.show(credential))


@pytest.mark.parametrize("changed", ["first", "middle", "last", "shorter", "longer", "not base64", "too long"])
def test_a_changed_cookie_is_refused(named: RunningServer, passkey: SoftwarePasskey, changed: str) -> None:
    browser = PasskeyBrowser(named)
    credential = passkey.sign(challenge_of(browser.challenge()))
    right = browser.cookie
    middle, other = len(right) // 2, {"A": "B"}
    browser.cookie = {
        "first": other.get(right[0], "A") + right[1:],
        "middle": right[:middle] + other.get(right[middle], "A") + right[middle + 1 :],
        "last": right[:-4] + "".join(other.get(character, "A") for character in right[-4:]),
        "shorter": right[:-4],
        "longer": right + "AAAA",
        "not base64": "%" * 20,
        "too long": right + "." + "A" * browser_state.LONGEST,
    }[changed]
    assert not is_in(browser.show(credential))
    browser.cookie = right
    assert is_in(browser.show(credential))


@pytest.mark.parametrize("lie", ["none", "expired", "purpose", "installation"])
def test_a_cookie_is_bound_to_time_purpose_and_installation(
    named: RunningServer, passkey: SoftwarePasskey, dsn: str, settings: Settings, lie: str
) -> None:
    challenge = urlsafe_b64encode(secrets.token_bytes(64)).rstrip(b"=").decode()
    expires = time.time() + (-1 if lie == "expired" else 60)
    text = json.dumps({"expires": int(expires), "challenge": challenge})
    purpose = login_flow.MANAGERS.purpose if lie == "purpose" else passkeys.MANAGERS.purpose

    async def made(vault: Encryption) -> bytes:
        if lie == "installation":
            # Two installations share no key, and a process cannot be given the keys of another one
            vault._keys = dict.fromkeys(vault._keys, secrets.token_bytes(32))
        return await vault.seal_message(purpose, text)

    browser = PasskeyBrowser(named)
    browser.cookie = sealed(dsn, settings, made)
    assert is_in(browser.show(passkey.sign(challenge))) is (lie == "none")


def test_a_cookie_of_the_previous_version_is_refused_with_a_message(
    named: RunningServer, passkey: SoftwarePasskey
) -> None:
    """It has a secret of 43 characters, whose challenge the database had."""
    browser = PasskeyBrowser(named)
    challenge = challenge_of(browser.challenge())
    browser.cookie = secrets.token_urlsafe(32)
    assert not is_in(browser.show(passkey.sign(challenge)))


def test_a_flood_from_one_address_is_refused_and_shuts_out_no_other_address(
    town: Town, sql: Sql, dsn: str, settings: Settings
) -> None:
    """No challenge is stored, so none is displaced, however many there are."""
    few = settings.model_copy(update={"login_rate_per_address": SELDOM, "login_burst_per_address": 100})
    with RunningServer(few, dsn, worker=False, public_url=PUBLIC) as server:
        passkey, honest = SoftwarePasskey(sql, town.person("flo"), server), PasskeyBrowser(server, "203.0.113.78")
        challenge, kept = challenge_of(honest.challenge()), sql.value(KEPT)
        attacker = PasskeyBrowser(server, "198.51.100.66")
        answers = [attacker.challenge() for _ in range(FLOOD)]
        statuses = [answer.status_code for answer in answers]
        assert statuses[:100] == [200] * 100 and statuses.count(429) >= FLOOD - 150
        assert answers[-1].json()["status"] == "429" and int(answers[-1].headers["retry-after"]) > 0
        assert sql.value(KEPT) == kept
        assert is_in(honest.show(passkey.sign(challenge)))


def test_networks_of_ipv6_are_limited_together_and_no_48_shuts_out_another(
    town: Town, sql: Sql, dsn: str, settings: Settings
) -> None:
    """100 /64 of one /56, then 256 /56 of one /48."""
    few = settings.model_copy(update={"login_rate_per_address": SELDOM, "login_burst_per_address": 3})
    with RunningServer(few, dsn, worker=False, public_url=PUBLIC) as server:
        passkey = SoftwarePasskey(sql, town.person("ivy"), server)
        honest = PasskeyBrowser(server, "2001:db8:8::1")
        challenge = challenge_of(honest.challenge())

        def statuses(*addresses: str) -> list[int]:
            with ThreadPoolExecutor(8) as threads:
                browsers = [PasskeyBrowser(server, address) for address in addresses]
                return [answer.status_code for answer in threads.map(PasskeyBrowser.challenge, browsers)]

        of_one_56 = statuses(*(f"2001:db8:7:{n:x}::1" for n in range(100)))
        assert of_one_56.count(200) >= 4 * 3 and of_one_56.count(429) >= 50  # some are refilled meanwhile
        of_one_48 = statuses(*(f"2001:db8:7:{n << 8:x}::1" for n in range(256)))
        assert of_one_48.count(200) >= (16 - 4) * 3 and of_one_48.count(429) >= 128
        assert statuses("2001:db8:8:1::1", "2001:db8:9::1", "203.0.113.79") == [200, 200, 200]
        assert is_in(honest.show(passkey.sign(challenge)))
