"""Second factors: codes, recovery codes, rules of owners, and passwords alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from keyrack.auth import totp
from tests.cli.test_operator_commands import Operator
from tests.docs.code_blocks import block
from tests.support.people import JOIN, Person, Town, http_client
from tests.support.servers import Sql, eventually

# RFC 6238, appendix B, the last six digits of its SHA-1 values
VECTORS = {59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037"}
SEED = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"  # "12345678901234567890"

RECORDED_CHANGES = """
select kind, after::text from (
  select customer_id, resource, resource_id, kind, after from change_inbox
  union all select customer_id, resource, resource_id, kind, after from change) c
where customer_id = $1 and resource = any($2) and resource_id = any($3)
"""


@pytest.mark.parametrize(("at", "code"), VECTORS.items())
def test_codes_are_those_of_the_rfc(at: int, code: str) -> None:
    assert totp.code(SEED, at // 30) == code


def test_a_clock_may_be_one_step_off() -> None:
    now = 1111111109.0
    step = int(now) // 30
    for skew in (-1, 0, 1):
        assert totp.step_of(SEED, totp.code(SEED, step + skew), now) == step + skew
    for skew in (-2, 2):
        assert totp.step_of(SEED, totp.code(SEED, step + skew), now) is None
    assert totp.step_of(SEED, "0818 04", now) == step
    for wrong in ("", "81804", "０８１８０４", "x" * 1000):
        assert totp.step_of(SEED, wrong, now) is None


class Browser:
    """A browser without a script."""

    def __init__(self, person: Person) -> None:
        root = person.client.base_url.join("/")
        self.person = person
        self.http = http_client(base_url=root, headers={"Origin": str(root).rstrip("/")})

    def sign_in(self) -> httpx.Response:
        form = {"username": self.person.username, "password": self.person.password}
        return self.http.post("/console/sign-in", data=form)

    def show(self, code: str) -> httpx.Response:
        return self.http.post("/console/sign-in/second", data={"code": code})

    def api(self, method: str, path: str, json: Any = None, customer: int | None = None) -> httpx.Response:
        headers = {"Customer-ID": str(customer or self.person.customer)}
        return self.http.request(method, f"/console/api{path}", json=json, headers=headers)

    @property
    def is_in(self) -> bool:
        return self.api("GET", "/me").status_code == 200


@pytest.fixture
def opened() -> Iterator[list[Browser]]:
    found: list[Browser] = []
    yield found
    for browser in found:
        browser.http.close()


def browser(person: Person, opened: list[Browser]) -> Browser:
    made = Browser(person)
    opened.append(made)
    return made


def with_app(browser: Browser) -> str:
    """Set up an app for the manager of this browser. Returns its secret.

    The present code is used up.
    """
    assert browser.sign_in().status_code == 303
    secret = browser.api("POST", "/me/totp").json()["secret"]
    answer = browser.api("PUT", "/me/totp", {"code": now(secret)})
    assert answer.status_code == 204, answer.text
    return secret


def now(secret: str) -> str:
    """The present code, which is valid for at least 30 seconds.

    An older one could be too old on arrival.
    """
    return totp.code(secret, int(time.time()) // 30)


def unused(sql: Sql, person: Person) -> None:
    """Make used codes valid again, so that no test waits for the clock."""
    sql.execute(
        "update totp set last_step = 0 from manager m where m.manager_id = totp.manager_id and username = $1",
        person.username,
    )


def grant(person: Person) -> httpx.Response:
    form = {"username": person.username, "password": person.password, "grant_type": "password"}
    return person.client.post("/oauth2/token", data=form, headers={"vendor-API-Key": person.api_key})


def test_an_app_is_asked_for_after_the_password_and_its_code_works_once(
    town: Town, sql: Sql, opened: list[Browser]
) -> None:
    person = town.person("tina")
    secret = with_app(browser(person, opened))
    unused(sql, person)
    first, second = browser(person, opened), browser(person, opened)
    for each in (first, second):
        answer = each.sign_in()
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in/second?next=")
        assert not each.is_in
    code = now(secret)
    assert first.show(code).status_code == 303
    assert first.is_in
    assert second.show(code).status_code == 401
    assert not second.is_in
    assert sql.value(
        "select amr from session join manager using (manager_id) where username = $1 order by session_id desc limit 1",
        person.username,
    ) == ["pwd", "otp", "mfa"]


def test_concurrent_uses_of_one_code_succeed_once(town: Town, sql: Sql, opened: list[Browser]) -> None:
    person = town.person("twice")
    secret = with_app(browser(person, opened))
    unused(sql, person)
    both = [browser(person, opened), browser(person, opened)]
    for each in both:
        each.sign_in()
    code = now(secret)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda each: each.show(code).status_code, both))
    assert sorted(answers) == [303, 401]


def test_a_recovery_code_works_once_and_new_ones_end_the_old(town: Town, sql: Sql, opened: list[Browser]) -> None:
    person = town.person("rita")
    owner = browser(person, opened)
    assert owner.sign_in().status_code == 303
    assert owner.api("POST", "/me/recovery-codes").status_code == 409  # there is no factor to replace
    with_app(owner)
    unused(sql, person)
    owner.sign_in()
    sql.execute("update session set amr = '{pwd,otp,mfa}' from manager m where m.username = $1", person.username)
    old = owner.api("POST", "/me/recovery-codes").json()["codes"]
    new = owner.api("POST", "/me/recovery-codes").json()["codes"]
    assert len(set(old) | set(new)) == 20
    other = browser(person, opened)
    other.sign_in()
    assert other.show(old[0]).status_code == 401
    assert other.show(new[0].lower().replace("-", " ")).status_code == 303
    assert owner.api("GET", "/me/factors").json()["recoveryCodes"] == 9
    again = browser(person, opened)
    again.sign_in()
    assert again.show(new[0]).status_code == 401
    stored = sql.value(
        "select array_to_string(hashes, ' ') from recovery join manager using (manager_id) where username = $1",
        person.username,
    )
    assert new[1] not in stored


def test_attempts_of_codes_after_one_password_are_limited(town: Town, sql: Sql, opened: list[Browser]) -> None:
    person = town.person("gus")
    secret = with_app(browser(person, opened))
    unused(sql, person)
    guesser = browser(person, opened)
    guesser.sign_in()
    assert [guesser.show("000000").status_code for _ in range(4)] == [401] * 4
    for code in ("000000", now(secret)):  # the last try, and one too many
        answer = guesser.show(code)
        assert (answer.status_code, answer.headers["location"].split("?")[0]) == (303, "/console/sign-in")
    assert not guesser.is_in


def test_a_step_is_valid_for_five_minutes_in_one_browser(town: Town, sql: Sql, opened: list[Browser]) -> None:
    person = town.person("step")
    secret = with_app(browser(person, opened))
    unused(sql, person)
    late, other = browser(person, opened), browser(person, opened)
    late.sign_in()
    assert not other.is_in
    assert other.show(now(secret)).headers["location"].startswith("/console/sign-in")
    sql.execute("update sign_in_step set created_at = now() - interval '6 minutes'")
    assert late.show(now(secret)).headers["location"].startswith("/console/sign-in")
    assert not late.is_in


def test_a_password_alone_gets_no_token_any_more(town: Town, opened: list[Browser]) -> None:
    person, neighbour = town.person("pat"), town.person("nora")
    assert grant(person).status_code == 200
    with_app(browser(person, opened))
    answer = grant(person)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert "second factor" in answer.json()["error_description"]
    wrong = person.client.post(
        "/oauth2/token",
        data={"username": person.username, "password": "wrong", "grant_type": "password"},
        headers={"vendor-API-Key": person.api_key},
    )
    assert "second factor" not in wrong.text  # only a caller with the password learns of it
    assert grant(neighbour).status_code == 200


def test_factors_change_only_soon_after_a_sign_in(town: Town, sql: Sql, opened: list[Browser]) -> None:
    person = town.person("fred")
    owner = browser(person, opened)
    owner.sign_in()
    old = "update session set created_at = now() - interval '11 minutes' from manager m where m.username = $1"
    sql.execute(old + " and m.manager_id = session.manager_id", person.username)
    for method, path in (("POST", "/me/totp"), ("POST", "/me/passkeys/options"), ("DELETE", "/me/totp")):
        answer = owner.api(method, path)
        assert answer.status_code == 403
        assert answer.text.startswith("This change requires a sign-in within the last 10 minutes")
    # A stolen password is not enough if there is a factor, for example with a token from before it
    with_app(browser(person, opened))
    assert person.post("/me/totp").status_code == 403
    assert person.delete("/me/totp").status_code == 403


@pytest.fixture
def ruled(town: Town, sql: Sql, opened: list[Browser]) -> tuple[Person, Browser]:
    """An owner who has signed in with a code, under a rule for owners."""
    person = town.person("olga")
    owner = browser(person, opened)
    secret = with_app(owner)
    unused(sql, person)
    owner.sign_in()
    assert owner.show(now(secret)).status_code == 303
    assert owner.api("PUT", "/factor-rules", {"roles": ["Owner", "Viewer"]}).status_code == 204
    return person, owner


def test_a_rule_refuses_managers_without_a_second_factor(ruled: tuple[Person, Browser], sql: Sql, town: Town) -> None:
    person, owner = ruled
    eventually(lambda: person.get("/cars").status_code == 403, "the rule")
    answer = person.get("/cars", headers={"Accept": "application/problem+json"})
    assert answer.json()["code"] == "second-factor-needed"
    assert owner.api("GET", "/cars").status_code == 200
    assert owner.api("GET", "/factor-rules").json() == {"roles": ["Owner", "Viewer"]}
    # Own factors stay available, and so do other customers
    assert person.get("/me/factors").json()["isNeeded"]
    elsewhere = town.another_fleet(person)
    assert elsewhere.get("/cars").status_code == 200
    assert owner.api("POST", "/me/totp").status_code == 409  # there is one
    # The last factor stays while it is needed
    assert owner.api("DELETE", "/me/totp").status_code == 409
    assert owner.api("PUT", "/factor-rules", {"roles": []}).status_code == 204
    eventually(lambda: person.get("/cars").status_code == 200, "the rule lifted")
    assert owner.api("DELETE", "/me/totp").status_code == 204
    assert grant(person).status_code == 200


def test_a_rule_applies_to_its_role_and_customer_only(ruled: tuple[Person, Browser], town: Town, sql: Sql) -> None:
    person, _ = ruled
    neighbour = town.person("nils")
    dispatcher = town.person("dora", "Dispatcher")
    join = (
        "insert into manager_customer (manager_id, customer_id) select manager_id, $2 from manager where username = $1"
    )
    sql.execute(join, dispatcher.username, person.customer)
    sql.execute(
        "insert into manager_role (customer_id, manager_id, role)"
        " select $2, manager_id, 'Dispatcher' from manager where username = $1",
        dispatcher.username, person.customer,
    )  # fmt: skip
    here = {"Customer-ID": str(person.customer)}
    eventually(lambda: dispatcher.get("/cars", headers=here).status_code == 200, "the role")
    assert neighbour.get("/cars").status_code == 200
    assert neighbour.get("/factor-rules").json() == {"roles": []}
    assert dispatcher.get("/factor-rules", headers=here).status_code == 403
    assert dispatcher.put("/factor-rules", {"roles": []}, headers=here).status_code == 403
    assert neighbour.put("/factor-rules", {"roles": ["Owner"]}, headers=here).status_code == 404


def test_an_owner_without_a_factor_cannot_set_a_rule(town: Town) -> None:
    person = town.person("lock")
    answer = person.put("/factor-rules", {"roles": ["Owner"]})
    assert (answer.status_code, person.get("/cars").status_code) == (409, 200)
    assert person.put("/factor-rules", {"roles": ["Owner", "Boss"]}).status_code == 400


def test_a_role_that_needs_a_factor_gets_no_token(ruled: tuple[Person, Browser], town: Town, sql: Sql) -> None:
    person, _ = ruled
    viewer = town.person("vera")
    assert grant(viewer).status_code == 200
    sql.execute(JOIN, viewer.username, person.customer, "Viewer")
    assert grant(viewer).json()["error"] == "invalid_grant"


def test_the_change_log_has_no_secrets_of_factors(ruled: tuple[Person, Browser], sql: Sql) -> None:
    person, _ = ruled
    manager = sql.value("select manager_id from manager where username = $1", person.username)
    rules = sql.rows(RECORDED_CHANGES, person.customer, ["factorRule"], ["Owner", "Viewer"])
    assert [row["kind"] for row in rules] == ["factorRule.set"] * 2
    app = sql.rows(RECORDED_CHANGES, 0, ["totp"], [str(manager)])
    assert {row["kind"] for row in app} == {"totp.created", "totp.updated"}
    assert all('"secret": "***"' in row["after"] for row in app if row["kind"] == "totp.created")


def test_the_operator_removes_factors_of_a_lost_phone(town: Town, sql: Sql, opened: list[Browser], dsn: str) -> None:
    person = town.person("lost")
    owner = browser(person, opened)
    with_app(owner)
    command = block("docs/second-factor.md", "lost").text.replace("kim@example.com", person.username).split()[1:]
    told = Operator(dsn).run(*command)
    assert "The second factors of manager" in told.stdout
    assert not owner.is_in
    other = browser(person, opened)
    assert other.sign_in().headers["location"] != "/console/sign-in/second?next="
    assert other.is_in
