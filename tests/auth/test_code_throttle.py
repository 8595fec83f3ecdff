"""The limit on six-digit codes per manager, over all processes and addresses.

Right passwords do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from keyrack.core.settings import Settings
from tests.auth.authenticator import PasskeyBrowser, SoftwarePasskey
from tests.auth.test_mfa import RECORDED_CHANGES, Browser, browser, now, opened, unused, with_app
from tests.support.log_lines import captured_events
from tests.support.people import Person, Town, http_client
from tests.support.servers import NUMBERS, RunningServer, Sql

__all__ = ["opened"]  # a fixture

BURST = 10
PUBLIC = "http://localhost:{port}"


@pytest.fixture(scope="module")
def servers(dsn: str, settings: Settings) -> Iterator[tuple[RunningServer, RunningServer]]:
    """Two processes of one installation, with the default limits."""
    limits = {name: Settings.model_fields[name].default for name in ("mfa_codes_per_hour", "mfa_code_burst")}
    own = settings.model_copy(update=limits)
    server = RunningServer(own, dsn, worker=False, public_url=PUBLIC)
    two = RunningServer(own, dsn, worker=False, public_url=server.settings.public_url)
    with server, two:
        yield server, two


class Guesser(Browser):
    """A browser at another process, with another address."""

    def __init__(self, person: Person, server: RunningServer, address: str) -> None:
        super().__init__(person)
        self.http.close()
        headers = {"Origin": server.settings.public_url, "X-Forwarded-For": address}
        self.http = http_client(base_url=server.url, headers=headers)

    def wrong(self) -> httpx.Response:
        return self.show("000000")


def guess(
    person: Person, servers: tuple[RunningServer, RunningServer], opened: list[Browser], times: int
) -> list[httpx.Response]:
    """The answers to wrong codes, each after a right password, from changing addresses."""
    answers: list[httpx.Response] = []
    for number in range(times):
        guesser = Guesser(person, servers[number % 2], f"10.9.{next(NUMBERS) % 250}.{number}")
        opened.append(guesser)
        assert guesser.sign_in().status_code == 303
        answers.append(guesser.wrong())
    return answers


@pytest.fixture
def guessed(
    town: Town, sql: Sql, servers: tuple[RunningServer, RunningServer], opened: list[Browser]
) -> tuple[Person, str]:
    """A manager with an exhausted limit, and the secret of the app."""
    person = town.person("coco")
    secret = with_app(browser(person, opened))
    unused(sql, person)
    statuses = [answer.status_code for answer in guess(person, servers, opened, BURST)]
    assert statuses == [401] * BURST
    return person, secret


def test_codes_are_limited_over_all_addresses_processes_and_right_passwords(
    guessed: tuple[Person, str],
    servers: tuple[RunningServer, RunningServer],
    opened: list[Browser],
    town: Town,
    sql: Sql,
) -> None:
    person, secret = guessed
    for answer in guess(person, servers, opened, 2):
        assert answer.status_code == 429 and "Too many wrong codes." in answer.text
        assert 0 < int(answer.headers["retry-after"]) <= 180  # one in three minutes
    late = browser(person, opened)
    late.sign_in()
    assert [late.show(now(secret)).status_code for _ in range(4)] == [429] * 4, "the right one as well"
    assert not late.is_in
    neighbour = town.person("nils")
    other = with_app(browser(neighbour, opened))
    unused(sql, neighbour)
    second = browser(neighbour, opened)
    second.sign_in()
    assert second.show(now(other)).status_code == 303


def test_the_limit_is_refilled_and_the_right_code_returns_its_own(
    guessed: tuple[Person, str], opened: list[Browser], sql: Sql
) -> None:
    person, secret = guessed
    manager = sql.value("select manager_id from manager where username = $1", person.username)
    refill = "update rate_limit set full_at = full_at - interval '3 minutes' where key = $1"
    sql.execute(refill, f"codes:{manager}")
    for _ in range(3):
        unused(sql, person)
        again = browser(person, opened)
        again.sign_in()
        assert again.show(now(secret)).status_code == 303
    last = browser(person, opened)
    last.sign_in()
    assert [last.show("000000").status_code for _ in range(2)] == [401, 429]


def test_recovery_codes_and_passkeys_still_work(
    guessed: tuple[Person, str], servers: tuple[RunningServer, RunningServer], opened: list[Browser], sql: Sql
) -> None:
    person, _ = guessed
    owner = browser(person, opened)
    owner.sign_in()
    passkey = SoftwarePasskey(sql, person, servers[0])
    device = PasskeyBrowser(servers[0])
    credential = passkey.sign(device.challenge().json()["publicKey"]["challenge"])
    answer = device.show(credential)
    assert answer.status_code == 303
    session = http_client(base_url=servers[0].url, cookies=answer.cookies)
    headers = {"Origin": servers[0].settings.public_url, "Customer-ID": str(person.customer)}
    codes = session.post("/console/api/me/recovery-codes", headers=headers).json()["codes"]
    session.close()
    assert owner.show("AAAA-BBBB-CCCC-DDDD").status_code == 401
    assert owner.show(codes[0]).status_code == 303
    assert owner.is_in


def test_confirming_an_app_takes_from_the_same_limit(town: Town, opened: list[Browser]) -> None:
    owner = browser(town.person("enno"), opened)
    owner.sign_in()
    secret = owner.api("POST", "/me/totp").json()["secret"]
    answers = [owner.api("PUT", "/me/totp", {"code": "000000"}).status_code for _ in range(BURST)]
    assert answers == [422] * BURST
    refused = owner.api("PUT", "/me/totp", {"code": now(secret)})
    assert refused.status_code == 429 and 0 < int(refused.headers["retry-after"]) <= 180


def test_many_wrong_codes_are_logged_and_recorded_once_a_day(
    town: Town, sql: Sql, servers: tuple[RunningServer, RunningServer], opened: list[Browser]
) -> None:
    """A patient attacker below the limit is reported as well."""
    person = town.person("paul")
    with_app(browser(person, opened))
    manager = sql.value("select manager_id from manager where username = $1", person.username)
    with captured_events("repeated wrong second factor codes") as logs:
        for number in range(3 * BURST):
            sql.execute("delete from rate_limit where key = $1", f"codes:{manager}")  # time passes
            (answer,) = guess(person, servers, opened, 1)
            assert answer.status_code == 401
            assert len(logs) == (number >= BURST - 1)
    (line,) = logs
    assert (line["manager"], line["alert"], line["log_level"]) == (manager, True, "warning")
    rows = sql.rows(RECORDED_CHANGES, 0, ["totp"], [str(manager)])
    assert [row["kind"] for row in rows].count("totp.wrongCodes") == 1
