"""Pages contain only what the role permits, and a missing permission is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from keyrack.api.event_stream import NEEDS
from keyrack.api.permissions import GRANTED, Permission, Role
from keyrack.console import PAGES
from keyrack.console.lists import LISTS
from keyrack.console.lists.definition import List, wanted
from keyrack.http.page_router import ConsolePage
from tests.console.phones import pending_enrolment, phone_with_key
from tests.support.drivers import Booking, at, signed_in_driver
from tests.support.people import JOIN, Person, Town
from tests.support.servers import Sql, eventually

OF_CUSTOMER = [row for row in PAGES if row.path.startswith("/{customer}")]
OTHERS = [role for role in Role if role is not Role.OWNER]
LINK = "insert into manager_customer (manager_id, customer_id) select manager_id, $2 from manager where username = $1"
# Pages about the account, or without a session: they have no data of a customer
FREE = ("/settings", "/help")
# The elements of a page besides the navigation
THINGS = (
    "/cars/{car}", "/cars/{car}/access", "/cars/{car}/track", "/users/{user}", "/users/{user}/access",
    "/groups/{group}", "/assignments/board", "/assignments/list", "/assignments/{assignment}",
    "/operations/{operation}", "/changes/{change}", "/cars/{car}/products/{productId}/uninstall",
)  # fmt: skip


class Seen(HTMLParser):
    """The links of a page, its forms with their addresses, and its topics of live updates."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.links, self.posts, self.topics, self.navigation = set[str](), set[str](), set[str](), list[str]()
        self._in_navigation = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self._in_navigation |= given.get("id") == "navigation"
        if self._in_navigation and tag == "a" and given.get("class") != "brand":
            self.navigation.append(given["href"])
        is_post = given.get("method") == "post"
        self.links |= {given[name] for name in ("href", "hx-get", "data-new", "data-change") if name in given}
        self.links |= {given["action"]} if tag == "form" and not is_post and "action" in given else set()
        self.posts |= {given[name] for name in ("hx-post", "formaction") if name in given}
        self.posts |= {given["action"]} if is_post and "action" in given else set()
        self.topics |= set(filter(None, given.get("data-live", "").split(",")))

    def handle_endtag(self, tag: str) -> None:
        self._in_navigation &= tag != "nav"


@pytest.fixture(scope="module")
def owner(town: Town) -> Iterator[Person]:
    person = town.person("the owner of a fleet")
    yield person
    person.client.close()


@pytest.fixture(scope="module")
def ids(owner: Person) -> dict[str, Any]:
    """An object of each kind."""
    car, user, group = owner.car_with_box("Pool car 7"), owner.user(), owner.group("Berlin")
    for kind, id in (("car", car), ("user", user)):
        assert owner.put(f"/groups/{group}/{kind}s", {f"{kind}Id": id}).status_code == 204
    assignment = owner.assignment(car, user)
    owner.event(car, user)
    device = phone_with_key(owner, car, user).id
    box = owner.get(f"/cars/{car}/products").json()[0]["id"]
    pending_enrolment(owner, box)
    webhook = owner.put("/webhooks", {"url": "http://127.0.0.1:9/hook"}).json()["id"]
    change = eventually(lambda: owner.get("/changes?$filter=kind eq 'webhook.created'").json(), "its change")[0]["id"]
    return {
        "customer": owner.customer, "car": car, "carId": car, "user": user, "group": group, "assignment": assignment,
        "productId": box, "webhook": webhook, "device": device,
        "manager": owner.get("/managers").json()[0]["id"],
        "client": owner.put("/clients", {"name": "Booking", "scopes": ["cars:read"]}).json()["id"],
        "delivery": owner.post(f"/webhooks/{webhook}/test").json()["id"], "change": change,
        "operation": eventually(lambda: owner.get("/operations?$top=1").json(), "an operation")[0]["id"],
        "request": Booking(owner, signed_in_driver(owner)).ask(kind="extend", end=at(6)).json()["id"],
        "brand": "none", "member": "url", "kind": "cars", "action": "group", "fact": "name",
    }  # fmt: skip


@pytest.fixture(scope="module")
def browsers(town: Town, owner: Person, sql: Sql, ids: dict[str, Any]) -> Iterator[dict[Role, httpx.Client]]:
    """For each role, a browser of a person with it in the owner's customer."""
    found = {role: joined(town, sql, owner, role) for role in OTHERS}
    yield found
    for browser in found.values():
        browser.close()


def joined(town: Town, sql: Sql, owner: Person, role: Role) -> httpx.Client:
    person = town.person(f"the {role}", role)
    sql.execute(JOIN, person.username, owner.customer, role)
    here = replace(person, headers=person.headers | {"Customer-ID": str(owner.customer)})
    eventually(lambda: here.get("/cars").status_code == 200, "the role")
    person.client.close()
    return person.browser()


def looked_at(browser: httpx.Client, ids: dict[str, Any]) -> Iterator[tuple[str, httpx.Response]]:
    """The navigation's pages, and those of the objects that the role may see."""
    base = f"/console/{ids['customer']}"
    first = browser.get(f"/{ids['customer']}")
    entries = Seen(first.text).navigation
    assert base in entries
    for href in dict.fromkeys([*entries, *(base + path.format(**ids) for path in THINGS)]):
        answer = browser.get(href.removeprefix("/console"), follow_redirects=True)
        assert answer.status_code == 200 or href not in entries, href
        if answer.status_code == 200:
            yield href, answer


def row_of(method: str, path: str) -> ConsolePage:
    """The page of an address. A path without parameters comes first, as in the router."""
    fits = [row for row in OF_CUSTOMER if row.method == method and re.fullmatch(_form(row.path), path)]
    return min(fits, key=lambda row: row.path.count("{"))


def _form(path: str) -> str:
    return "/console" + re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path))


def wants(path: str) -> set[Permission]:
    """The permission of a form: that of its page, and of a bulk action."""
    page = row_of("POST", path)
    found = {page.permission} if page.permission else set()
    if "/bulk/" in path:
        of, _, name = path.partition("/bulk/")
        found |= {
            action.permission
            for one in LISTS if re.fullmatch(_form(one.path), of)
            for action in one.actions if action.name == name
        }  # fmt: skip
    return found


@pytest.mark.parametrize("role", OTHERS)
def test_what_a_role_is_shown_leads_to_what_it_may(
    role: Role, browsers: dict[Role, httpx.Client], ids: dict[str, Any]
) -> None:
    browser, base = browsers[role], f"/console/{ids['customer']}"
    links, posts = dict[tuple[str, frozenset[str]], str](), set[str]()
    for href, answer in looked_at(browser, ids):
        seen = Seen(answer.text)
        assert {topic for topic in seen.topics if NEEDS[topic] not in GRANTED[role]} == set(), href
        posts |= {urlsplit(post).path for post in seen.posts}
        for link in seen.links:
            to = urlsplit(link)
            if to.path == base or to.path.startswith(base + "/"):
                query = dict(parse_qsl(to.query))
                links[to.path, frozenset({*query, query.get("part", "")})] = link
    statuses = {link: browser.get(link.removeprefix("/console"), follow_redirects=True) for link in links.values()}
    assert {link: answer.status_code for link, answer in statuses.items() if answer.status_code != 200} == {}
    inside = {post for post in posts if post.startswith(base + "/")}
    assert {post for post in inside if not wants(post) <= GRANTED[role]} == set()


@pytest.mark.parametrize("role", OTHERS)
def test_each_page_is_for_the_roles_that_have_what_it_names(
    role: Role, browsers: dict[Role, httpx.Client], ids: dict[str, Any]
) -> None:
    """The table has exactly the permissions that the page needs; the error page names the missing one."""
    wrong = dict[str, Any]()
    for row in OF_CUSTOMER:
        may = row.permission is None or row.permission in GRANTED[role]
        if may and row.method == "POST":  # it would be done
            continue
        if row.shows_own_rows and not may:  # another person requested it
            answer = browsers[role].get(row.path.format(**ids) + f"?ids={ids['operation']}")
            wrong |= {} if answer.status_code == 404 else {row.path: answer.status_code}
            continue
        data = {"data": {"x": ""}} if row.method == "POST" else {}
        answer = browsers[role].request(row.method, row.path.format(**ids), **data)
        told = f"Missing permission: {row.permission}." in answer.text and "Ask an owner of" in answer.text
        if (answer.status_code >= 400) if may else (answer.status_code != 403 or not told):
            wrong[f"{row.method} {row.path}"] = answer.status_code
    assert wrong == {}


def test_each_page_of_a_customer_names_a_permission() -> None:
    free = {row.path for row in OF_CUSTOMER if row.permission is None}
    assert {path for path in free if not path.removeprefix("/{customer}").startswith(FREE)} == set()


def lists() -> Iterator[List]:
    for one in LISTS:
        yield from (one, one.otherwise) if one.otherwise else (one,)


@pytest.mark.parametrize("listing", list(lists()), ids=lambda one: f"{one.path} {one.rows}")
def test_whatever_changes_a_list_names_a_permission(listing: List) -> None:
    named = [*(action.permission for action in listing.actions), *(add.permission for add in listing.adds)]
    assert all(permission.endswith(":write") for permission in named)
    assert all(row_of("GET", add.path.join(["/console/1", ""])).permission == add.permission for add in listing.adds)
    assert row_of("GET", "/console" + listing.path.format(customer=1)).permission == wanted(listing)


SHOWN = [
    # text, page, roles with it; the other roles do not see it
    ("Add car", "/cars", {Role.MANAGER}),
    ("Export CSV", "/cars", set(OTHERS)),
    ("/webhooks", "", {Role.MANAGER}),
    ("/changes", "", {Role.MANAGER, Role.AUDITOR}),
    ("/operations", "", {Role.MANAGER, Role.DISPATCHER, Role.TECHNICIAN, Role.AUDITOR}),
    ("Bookings now", "", set(OTHERS) - {Role.TECHNICIAN}),
    ("Failing webhooks", "", {Role.MANAGER}),
    ("Boxes without a service", "", set(OTHERS)),
    ("Map of all cars", "", set(OTHERS) - {Role.TECHNICIAN}),
    ("data-tour", "", {Role.MANAGER, Role.DISPATCHER}),
    ("Next booking", "/cars", set(OTHERS) - {Role.TECHNICIAN}),
    ("/cars/bulk/delete", "/cars", {Role.MANAGER}),
    ('name="id"', "/cars", {Role.MANAGER}),
    ("data-new", "/assignments/board", {Role.MANAGER, Role.DISPATCHER}),
    ("data-move", "/assignments/board", {Role.MANAGER, Role.DISPATCHER}),
    ("Add person", "/users", {Role.MANAGER, Role.DISPATCHER}),
    ("Delete personal data", "/users/{user}", {Role.MANAGER}),
    ("Time line of bookings", "/cars/{car}", set(OTHERS) - {Role.TECHNICIAN}),
    ("Odometer over time", "/cars/{car}", set(OTHERS) - {Role.TECHNICIAN}),
    ("Take out", "/cars/{car}", {Role.MANAGER, Role.TECHNICIAN}),
    ("edit-name", "/cars/{car}", {Role.MANAGER}),
    ("Rename", "/groups/{group}", {Role.MANAGER}),
    ("Uma User", "/operations/{operation}", {Role.MANAGER, Role.DISPATCHER, Role.AUDITOR}),
]


@pytest.mark.parametrize(("text", "path", "roles"), SHOWN, ids=[f"{text} in {path}" for text, path, _ in SHOWN])
def test_what_is_shown_to_whom(
    text: str, path: str, roles: set[Role], browsers: dict[Role, httpx.Client], ids: dict[str, Any]
) -> None:
    base = f"/console/{ids['customer']}"
    wanted = f'"{base}{text}"' if text.startswith("/") and "/bulk/" not in text else text
    found = set[Role]()
    for role, browser in browsers.items():
        answer = browser.get(f"/{ids['customer']}{path.format(**ids)}")
        if answer.status_code == 200 and wanted in answer.text:
            found.add(role)
    assert found == roles


def test_who_lacks_a_permission_finds_no_person_by_another_way(
    browsers: dict[Role, httpx.Client], ids: dict[str, Any], owner: Person
) -> None:
    """A technician sees requests without their people: neither in a column, nor by a search or a filter."""
    browser, address = browsers[Role.TECHNICIAN], owner.get(f"/users/{ids['user']}").json()["emailAddress"]
    base = f"/{ids['customer']}"
    for path in ("/operations", f"/operations/{ids['operation']}", f"/groups/{ids['group']}", "/operations.csv"):
        answer = browser.get(base + path)
        assert (answer.status_code, address in answer.text, "Uma" in answer.text) == (200, False, False), path
    assert "a removed person" not in browser.get(f"{base}/operations/{ids['operation']}").text
    assert "Nothing matches" in browser.get(f"{base}/operations?q=Uma").text
    assert browser.get(f"{base}/operations?user={ids['user']}").status_code == 400
    assert browser.get(f"{base}/operations?columns=user").status_code == 400
    assert browser.post(f"{base}/cars/bulk/delete", data={"id": str(ids["car"])}).status_code == 403


def test_a_part_of_a_page_is_refused_as_a_part(browsers: dict[Role, httpx.Client], ids: dict[str, Any]) -> None:
    answer = browsers[Role.TECHNICIAN].get(
        f"/{ids['customer']}/cars/{ids['car']}?part=track", headers={"HX-Request": "true", "HX-Request-Type": "partial"}
    )
    assert answer.status_code == 403
    assert "<nav" not in answer.text
    assert "Ask an owner of the customer" in answer.text


def test_who_has_no_role_is_told_whom_to_ask(town: Town, sql: Sql, owner: Person) -> None:
    """The first page is not empty, and has a link to leave it."""
    person = town.person("a newcomer")
    sql.execute(LINK,
                person.username, owner.customer)  # fmt: skip
    with person.browser() as browser:
        eventually(lambda: browser.get(f"/{owner.customer}").status_code == 403, "the customer")
        answer = browser.get(f"/{owner.customer}")
        assert "You have no role here" in answer.text
        assert "Ask an owner of the owner of a fleet&#39;s fleet to give you a role" in answer.text
        seen = Seen(answer.text)
        assert [urlsplit(link).path.rpartition("/")[2] for link in seen.navigation] == ["settings", "help"]
        assert f"/console/{person.customer}" in seen.links
        assert "/console/sign-out" in seen.posts
        assert seen.topics == set()
        for href in seen.navigation:
            assert browser.get(href.removeprefix("/console")).status_code == 200
        front = browser.get("")
        assert front.headers["Location"] == f"/console/{person.customer}"  # where the person has a role
        german = browser.get(f"/{owner.customer}", headers={"Accept-Language": "de"})
        assert "Sie haben hier keine Rolle" in german.text
    person.client.close()
