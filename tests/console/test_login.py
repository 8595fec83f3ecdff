"""Signing in and out, sessions, and rejections of a page."""

from __future__ import annotations

import re
from inspect import getsource
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import expect

from keyrack import console
from keyrack.auth.endpoints.me import NO_SESSION, WRONG_PASSWORD
from keyrack.console import PAGES
from keyrack.core import error_codes
from keyrack.core.settings import Settings
from tests.auth.test_invitations import code_of, posted
from tests.console.conftest import COOKIE, Desk
from tests.support.people import PASSWORD, Person, Town, done, http_client, refused, web
from tests.support.servers import SELDOM, RunningServer, Sql, eventually


def stranger(server: RunningServer, **headers: str) -> httpx.Client:
    """A browser without a session."""
    given = {"Origin": server.url} | {name.replace("_", "-"): value for name, value in headers.items()}
    return http_client(base_url=server.url, headers=given)


def sign_in(client: httpx.Client, person: Person, **fields: str) -> httpx.Response:
    return client.post("/console/sign-in", data={"username": person.username, "password": PASSWORD, **fields})


def test_a_manager_signs_in_and_out(alice: Person, desk: Desk) -> None:
    page = desk(None)
    page.goto(f"/console/{alice.customer}/sessions-of-nobody")
    expect(page.get_by_role("heading", level=1)).to_have_text("Sign in to Keyrack")
    page.get_by_label("User name").fill(alice.username)
    page.get_by_label("Password").fill("not this one")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The user name or the password is wrong.")
    expect(page.get_by_label("User name")).to_have_value(alice.username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    page.wait_for_url(f"**/console/{alice.customer}/sessions-of-nobody")
    assert {row["userAgent"].partition("/")[0] for row in alice.get("/sessions").json()} >= {"Mozilla"}


@pytest.mark.parametrize("tag, heading", [("de", "Bei Keyrack anmelden"), ("fr,de-AT;q=0.9", "Bei Keyrack anmelden"),
                                          ("fr", "Sign in to Keyrack"), ("", "Sign in to Keyrack")])  # fmt: skip
def test_the_language_is_the_browsers(server: RunningServer, tag: str, heading: str) -> None:
    page = stranger(server, Accept_Language=tag).get("/console/sign-in")
    assert heading in page.text


def test_the_cookie_is_out_of_reach(alice: Person, server: RunningServer) -> None:
    answer = sign_in(stranger(server), alice)
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert (cookie.partition("=")[0], attributes) == (COOKIE, ["Path=/", "Max-Age=604800", "HttpOnly", "SameSite=Lax"])


def test_under_https_the_cookie_is_bound_to_the_host(alice: Person, dsn: str, settings: Settings) -> None:
    with RunningServer(settings, dsn, worker=False, public_url="https://keys.example.org") as running:
        client = stranger(running, Origin="https://keys.example.org")
        cookie = sign_in(client, alice).headers["set-cookie"]
        assert cookie.startswith("__Host-keyrack-session=") and cookie.endswith("; Secure")
        assert sign_in(stranger(running), alice).status_code == 403  # plain http is not its public address


def test_a_zone_that_is_none_is_not_kept(carol: Person, server: RunningServer, sql: Sql) -> None:
    for number, zone in enumerate(("Berlin", "x" * 10_000, "Europe/\0Berlin", "Europe/Berlin")):
        assert sign_in(stranger(server), carol, time_zone=zone).status_code == 303
        kept = sql.rows(
            "select s.time_zone from session s join manager using (manager_id) where username = $1 order by session_id",
            carol.username,
        )
        assert [row["time_zone"] for row in kept] == [None] * min(number + 1, 3) + ["Europe/Berlin"] * (number == 3)


def test_the_first_session_of_an_invited_manager_has_the_browsers_zone(alice: Person, sql: Sql) -> None:
    address = f"first.{alice.customer}@example.com"
    made = alice.put("/managers", {"emailAddress": address, "role": "Dispatcher"}).json()
    form = {"code": code_of(made), "new_password": PASSWORD, "time_zone": "Europe/Berlin"}
    assert posted(alice, "/invitation/accept", **form).status_code == 303
    zone = "select s.time_zone from session s join manager using (manager_id) where username = $1"
    assert [row["time_zone"] for row in sql.rows(zone, address)] == ["Europe/Berlin"]


FORM = re.compile(r'<form [^>]*action="{{ root }}(/[^"{]+)"[^>]*>(.*?)</form>', re.DOTALL)
BEGINS = re.compile(r"\.begin_session\(|\.begin_second_factor\(|emailed_links\.accept\(")
OF_STEP = "/sign-in/second"  # the zone came with the password


def test_every_form_that_begins_a_session_sends_the_zone() -> None:
    begins = {
        page.path for page in PAGES if page.is_public and page.method == "POST" and BEGINS.search(getsource(page.run))
    } - {OF_STEP}
    templates = Path(console.__file__).parent / "templates"
    forms = [form for path in templates.rglob("*.html") for form in FORM.findall(path.read_text())]
    assert {action for action, _ in forms} >= begins >= {"/sign-in", "/invitation/accept", "/sign-in/passkey"}
    assert [action for action, form in forms if action in begins and "data-time-zone" not in form] == []


# Whose page it is


def test_a_write_comes_from_a_page_of_ours(alice: Person, server: RunningServer) -> None:
    said = [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": server.url, "Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": server.url, "Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
        ({"Origin": server.url}, 303),
        ({"Origin": server.url.upper()}, 303),
    ]
    form = {"username": alice.username, "password": PASSWORD}
    for headers, status in said:
        answer = web().post(server.url + "/console/sign-in", data=form, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (status, status == 303), headers


def test_a_session_is_a_key_and_a_token_below_the_console_alone(alice: Person, server: RunningServer) -> None:
    of_alice = {"Customer-ID": str(alice.customer)}
    with alice.browser() as browser:
        assert browser.get("/api/v3/cars", headers=of_alice).status_code == 200
        assert web().get(server.url + "/v3/cars", headers=of_alice | cookie(browser)).status_code == 401
        answer = browser.put("/api/v3/cars", json={"name": "Mine"}, headers=of_alice)
        assert answer.status_code == 201
        answer = browser.put("/api/v3/cars", json={"name": "x"}, headers=of_alice | {"Origin": "http://evil.example"})
        refused(answer, 403, error_codes.OTHER_ORIGIN)
        assert browser.get("/api/v3/cars").status_code == 400  # the customer is a header, as in the API


def cookie(browser: httpx.Client) -> dict[str, str]:
    return {"Cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}


def test_a_neighbours_customer_is_nobodys(alice: Person, bob: Person) -> None:
    with bob.browser() as browser:
        answers = [browser.get(f"?customer={customer}") for customer in (alice.customer, 2**31 - 1, "0")]
        assert {answer.status_code for answer in answers} == {404}
        texts = {answer.text.replace(answer.headers["x-request-id"], "") for answer in answers}
        assert len(texts) == 1 and error_codes.NO_CUSTOMER.text in texts.pop()
        answer = browser.get("/api/v3/cars", headers={"Customer-ID": str(alice.customer)})
        refused(answer, 404, error_codes.NO_CUSTOMER)


def test_after_signing_in_nobody_is_sent_elsewhere(alice: Person, server: RunningServer) -> None:
    for wanted in (
        "https://evil.example/console/",
        "//evil.example/console",
        "/v3/cars",
        "/consoles",
        "\\\\evil.example",
        "//[",
        "/console\t//evil.example",
        "/console/../v3",
        "/console/%2E%2E/v3",
    ):
        answer = sign_in(stranger(server), alice, next=wanted)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console"), wanted
    answer = sign_in(stranger(server), alice, next="/console/7/cars?q=x&sort=-name")
    assert answer.headers["location"] == "/console/7/cars?q=x&sort=-name"


def test_an_address_without_a_customer_leads_to_the_first(alice: Person) -> None:
    with alice.browser() as browser:
        assert browser.get("/cars?q=x").headers["location"] == f"/console/{alice.customer}/cars?q=x"
        assert browser.get("").headers["location"] == f"/console/{alice.customer}"
        for path in ("/x%0D%0ASet-Cookie%3A%20a%3Db", "/x%00", "/x%3Fy", "/100%25"):
            assert browser.get(path).headers["location"] == f"/console/{alice.customer}{path}"


def test_an_address_in_any_letters_is_gone_on_to(alice: Person, server: RunningServer) -> None:
    client = stranger(server)
    asked = client.get(f"/console/{alice.customer}/stra%C3%9Fe/%E2%82%AC?q=%E2%82%AC")
    next = dict(httpx.URL(asked.headers["location"]).params)["next"]
    there = sign_in(client, alice, next=next).headers["location"]
    assert there == f"/console/{alice.customer}/stra%C3%9Fe/%E2%82%AC?q=%E2%82%AC"
    assert (
        sign_in(client, alice, next="/console/1\r\nX-Header: 1").headers["location"] == "/console/1%0D%0AX-Header:%201"
    )
    assert client.get("/console/%E2%82%AC").headers["location"] == f"/console/{alice.customer}/%E2%82%AC"


def test_what_no_page_stands_at(alice: Person, server: RunningServer) -> None:
    with alice.browser() as browser:
        answer = browser.get(f"/{alice.customer}/nothing-here")
        assert (answer.status_code, error_codes.NOTHING_HERE.text in answer.text) == (404, True)
        assert browser.put("/sign-in").status_code == 405
        assert browser.post("/sign-in", content=b"{}", headers={"Content-Type": "application/json"}).status_code == 415
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        for wrong in (b"username=%ff", b"username=100%"):
            assert browser.post("/sign-in", content=wrong, headers=form).status_code == 400
        long = b"username=" + b"%41" * 11_000
        assert browser.post("/sign-in", content=long, headers=form).status_code == 413
        assert browser.post(f"/{alice.customer}/cars/new", content=long, headers=form).status_code == 400
    answer = stranger(server).get(f"/console/{alice.customer}/cars?q=1")
    assert answer.headers["location"] == f"/console/sign-in?next=%2Fconsole%2F{alice.customer}%2Fcars%3Fq%3D1"
    part = stranger(server, HX_Request_Type="partial").get(f"/console/{alice.customer}/cars")
    assert (part.status_code, error_codes.SIGNED_OUT.text in part.text) == (401, True)


def test_pages_say_what_may_be_in_them(server: RunningServer) -> None:
    headers = stranger(server).get("/console/sign-in").headers
    assert headers["content-security-policy"] == (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; frame-ancestors 'none';"
        " form-action 'self'"
    )
    assert (headers["cache-control"], headers["x-content-type-options"]) == ("no-store", "nosniff")


# How sessions end


def over(browser: httpx.Client) -> None:
    assert browser.get("/api/v3/me").json() == {"statusCode": 401, "message": "You are signed out."}


def test_signing_out_ends_the_session(carol: Person) -> None:
    browser, other = carol.browser(), carol.browser()
    answer = browser.post("/sign-out", headers=cookie(browser))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in?out")
    assert browser.get("/api/v3/me", headers=cookie(other)).status_code == 200
    assert len(carol.get("/sessions").json()) == 1


def test_sessions_are_listed_and_ended(carol: Person, bob: Person) -> None:
    browsers = [carol.browser() for _ in range(3)]
    with bob.browser() as browser:
        rows = carol.get("/sessions?$orderby=id").json()
        assert len(rows) == 3
        refused(browser.delete(f"/api/v3/sessions/{rows[0]['id']}"), 404, NO_SESSION)
        done(carol.delete(f"/sessions/{rows[0]['id']}"))
        over(browsers[0])
        done(browsers[1].delete("/api/v3/sessions"))
        over(browsers[1])
        over(browsers[2])
        assert browser.get("/api/v3/me").json()["username"] == bob.username


def test_a_session_ends_unseen_and_after_its_time(carol: Person, sql: Sql) -> None:
    for column, ago in (("seen_at", "12 hours"), ("created_at", "7 days")):
        browser = carol.browser()
        change = f"update session set {column} = now() - $2::text::interval"  # literals of this test
        where = " where manager_id = (select manager_id from manager where username = $1)"
        sql.execute(change + where, carol.username, ago)
        over(browser)


def test_a_session_that_is_used_goes_on(carol: Person, sql: Sql) -> None:
    browser = carol.browser()
    sql.execute("update session set seen_at = now() - interval '11 hours' where hash = sha256($1)",
                browser.cookies[COOKIE].encode())  # fmt: skip
    before = carol.get("/sessions").json()[0]["lastSeen"]
    assert browser.get("/api/v3/me").status_code == 200
    assert carol.get("/sessions").json()[0]["lastSeen"] > before


def test_a_disabled_manager_is_signed_out(carol: Person, sql: Sql) -> None:
    browser = carol.browser()
    sql.execute("update manager set is_disabled = true where username = $1", carol.username)
    over(browser)
    sql.execute("update manager set is_disabled = false where username = $1", carol.username)
    over(browser)


def test_sessions_are_bounded(carol: Person, dsn: str, settings: Settings) -> None:
    with RunningServer(settings.model_copy(update={"sessions_per_manager": 2}), dsn, worker=False) as running:
        clients = [stranger(running) for _ in range(3)]
        for client in clients:
            assert sign_in(client, carol).status_code == 303
        assert [client.get("/console/api/v3/me").status_code for client in clients] == [401, 200, 200]


def test_guessing_is_slowed(carol: Person, dsn: str, settings: Settings) -> None:
    few = settings.model_copy(
        update={"login_rate_per_username_and_address": SELDOM, "login_burst_per_username_and_address": 3}
    )
    with RunningServer(few, dsn, worker=False) as running:
        client = stranger(running)
        wrong = {"username": carol.username, "password": "wrong"}
        assert [client.post("/console/sign-in", data=wrong).status_code for _ in range(4)] == [401, 401, 401, 429]
        answer = sign_in(client, carol)
        assert (answer.status_code, "Too many wrong passwords" in answer.text) == (429, True)


# Me


def test_the_own_password(town: Town, server: RunningServer) -> None:
    dora = town.person("dora")
    browser = dora.browser()
    wanted = {"currentPassword": "wrong", "newPassword": "a much better one"}
    refused(dora.put("/me/password", wanted), 403, WRONG_PASSWORD)
    short = dora.put("/me/password", {"currentPassword": PASSWORD, "newPassword": "short"})
    assert short.status_code == 400
    done(dora.put("/me/password", wanted | {"currentPassword": PASSWORD}))
    over(browser)
    assert eventually(lambda: dora.get("/me").status_code == 401, "the end of the token")
    assert sign_in(stranger(server), dora).status_code == 401
    answer = stranger(server).post(
        "/console/sign-in", data={"username": dora.username, "password": "a much better one"}
    )
    assert answer.status_code == 303


def test_after_a_new_password_the_browser_is_still_where_it_was(town: Town, server: RunningServer, sql: Sql) -> None:
    dora = town.person("dora")
    client = stranger(server)
    sign_in(client, dora, time_zone="Europe/Berlin")
    done(dora.put("/me/preferences", {"language": None, "timeZone": "Asia/Tokyo", "theme": None}))
    form = {"current_password": PASSWORD, "new_password": "a much better one"}
    assert client.post(f"/console/{dora.customer}/settings/password", data=form).status_code == 303
    zone = "select s.time_zone from session s join manager using (manager_id) where username = $1"
    assert sql.value(zone, dora.username) == "Europe/Berlin"


def test_preferences(carol: Person, bob: Person) -> None:
    mine = {"language": "de", "timeZone": "Europe/Berlin", "theme": "dark"}
    done(carol.put("/me/preferences", mine))
    assert {key: carol.get("/me").json()[key] for key in mine} == mine
    assert bob.get("/me").json()["language"] is None
    for member, value in (("language", "fr"), ("timeZone", "Berlin"), ("theme", "pink"), ("timeZone", "../etc/passwd")):
        answer = carol.put("/me/preferences", mine | {member: value})
        assert answer.status_code == 400
        assert answer.text.startswith(f"Couldn't change preferences. No valid {member} provided.")
    done(carol.put("/me/preferences", dict.fromkeys(mine)))
    assert carol.get("/me").json()["theme"] is None
