"""The history of changes in the console: sentences, the page of one change, and the paged list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import Any

import httpx
import pytest
from playwright.sync_api import expect

from keyrack.api.permissions import Role
from keyrack.console.changes.labels import ACTORS, KINDS, MEMBERS, PARTS, RESOURCES
from keyrack.db.audit_context import Type
from tests.auth.group_scope import limited
from tests.changelog.audited_tables import recorded
from tests.changelog.transparency.checkpoints import settled
from tests.console.conftest import Desk
from tests.support.people import Person, Town, done, fetch
from tests.support.servers import eventually

TABLES = [one for one in recorded() if one.customer != "0"]
GERMAN = {"Accept-Language": "de"}


@pytest.fixture(scope="module")
def fleet(town: Town) -> Iterator[Person]:
    person = town.person("log")
    yield person
    person.client.close()


def patched(person: Person, path: str, member: str, value: Any) -> None:
    answer = person.patch(path, [{"op": "replace", "path": f"/{member}", "value": value}])
    assert answer.status_code == 204, answer.text


def numbered(person: Person, kind: str, id: object) -> int:
    """The number of the newest change of a kind to a thing."""
    query = f"/changes?$filter=kind eq '{kind}' and resourceId eq '{id}'&$orderby=id desc&$top=1"
    return eventually(lambda: person.get(query).json(), f"{kind} {id}")[0]["id"]


def plain(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())


def sentences(answer: httpx.Response) -> list[str]:
    """The sentences of the list's rows."""
    assert answer.status_code == 200, answer.text
    rows = re.findall(r'<tr id="row-\d+">.*?</tr>', answer.text, re.DOTALL)
    return [plain(re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)[0]) for row in rows]


def numbers(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [int(number) for number in re.findall(r'<tr id="row-(\d+)">', answer.text)]


# Words for everything


def test_every_kind_that_a_customer_has_is_told_in_words() -> None:
    words = {
        f"{one.resource}.{word}"
        for one in TABLES
        for word in [
            *((one.created,) if "insert" in one.events else ()), *((one.deleted,) if "delete" in one.events else ()),
        ]
    }  # fmt: skip
    words |= {kind for one in TABLES for kind in one.kinds}
    # Whether a thing of a group is in it or not, and whether a role needs a factor, is all that there is
    only_there = ("group_car", "group_user", "group_service", "group_product", "factor_rule")
    words |= {f"{one.resource}.updated" for one in TABLES if one.table not in only_there}
    assert words | {"permission.refused"} == set(KINDS)
    assert {one.resource for one in TABLES} | {"permission"} == set(RESOURCES)


def test_every_member_and_everybody_who_acts_has_a_name() -> None:
    assert {name for one in TABLES for name in (*one.members, *one.secrets)} <= set(MEMBERS)
    assert set(ACTORS) == set(Type.__args__)
    assert set(PARTS) == {"worker", "server", "housekeeping", "an older release", "upgrade"}


def test_people_of_the_console_have_names(town: Town) -> None:
    """Invitations, acceptances and roles have names: numbers would mean nothing to an auditor."""
    petra = town.person("petra")
    group, invited = petra.group("Pool Nord"), f"dispo{petra.customer}@mail.example"
    body = {"emailAddress": invited, "role": "Dispatcher", "groups": [group]}
    made = petra.put("/managers", body).json()
    form = {"code": made["link"].partition("#")[2], "new": "yes", "new_password": "a long pass phrase"}
    root = str(petra.client.base_url.join("/")).rstrip("/")
    accepted = fetch("POST", f"{root}/console/invitation/accept", data=form, headers={"Origin": root})
    assert accepted.status_code == 303, accepted.text
    manager = next(row["id"] for row in petra.get("/managers").json() if row["username"] == invited)
    change = [{"op": "replace", "path": "/role", "value": "Viewer"}]
    assert petra.patch(f"/managers/{manager}", change).status_code == 204
    withdrawn = f"other{petra.customer}@mail.example"
    other = petra.put("/managers", {"emailAddress": withdrawn, "role": "Auditor"}).json()["id"]
    assert petra.delete(f"/invitations/{other}").status_code == 204
    numbered(petra, "invitation.deleted", other)
    numbered(petra, "role.updated", manager)
    with petra.browser() as visitor:
        here, name = f"/{petra.customer}/changes", petra.username
        for resource, thing, said in (
            ("invitation", made["id"], [
                f"{invited} accepted the invitation",
                f"{name} invited {invited} as Dispatcher (limited to Pool Nord)",
            ]),
            ("invitation", other, [
                f"{name} ended the invitation of {withdrawn}", f"{name} invited {withdrawn} as Auditor",
            ]),
            ("role", manager, [
                f"{name} changed the role of the account {invited}: Dispatcher → Viewer",
                f"{name} (accepted by {invited}) granted the account {invited} the role Dispatcher"
                " (limited to Pool Nord)",
            ]),
            ("manager", manager, [f"{name} (accepted by {invited}) gave {invited} access to this customer"]),
        ):  # fmt: skip
            assert sentences(visitor.get(f"{here}?resource={resource}&thing={thing}")) == said
        detail = visitor.get(f"{here}/{numbered(petra, 'role.granted', manager)}").text
        assert "Pool Nord" in plain(detail) and f"{invited} on behalf of {name}" in plain(detail)
    petra.client.close()


def test_a_sentence_says_who_did_what_to_which_thing(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("Golf 7", licensePlate="K-AB 1")
    patched(fleet, f"/cars/{car}", "licensePlate", "K-AB 2")
    box = fleet.box_in(car)
    user = fleet.user(userData={"firstName": "Kim", "lastName": "Doe"})
    assignment = fleet.assignment(car, user, "2026-01-01T08:00:00Z", end="2099-01-01T08:00:00Z")
    assert fleet.delete(f"/assignments/{assignment}").status_code == 204
    numbered(fleet, "assignment.deleted", assignment)
    here = f"/{fleet.customer}/changes"
    assert sentences(visitor.get(f"{here}?resource=car&thing={car}")) == [
        f"{fleet.username} changed the license plate of Golf 7 (K-AB 2): K-AB 1 → K-AB 2",
        f"{fleet.username} added Golf 7 (K-AB 2)",
    ]
    serial = fleet.get(f"/products/{box}").json()["serialNumber"]
    assert f"{fleet.username} put Key box {serial} into Golf 7 (K-AB 2)" in sentences(
        visitor.get(f"{here}?kind=box.installed")
    )
    ended, begun = sentences(visitor.get(f"{here}?resource=assignment&thing={assignment}"))
    assert ended == f"{fleet.username} deleted the booking of Golf 7 (K-AB 2) for Kim Doe"
    assert begun.startswith(f"{fleet.username} booked Golf 7 (K-AB 2) for Kim Doe, ")
    german = sentences(visitor.get(f"{here}?resource=car&thing={car}", headers=GERMAN))
    assert german[0] == f"{fleet.username} hat das Kennzeichen von Golf 7 (K-AB 2) geändert: K-AB 1 → K-AB 2"
    page = visitor.get(f"{here}?resource=car&thing={car}").text
    assert f'<a href="/console/{fleet.customer}/cars/{car}">Golf 7 (K-AB 2)</a>' in page


def test_a_sentence_names_the_car_and_the_user_of_its_time(fleet: Person, visitor: httpx.Client) -> None:
    """A later change of the car must not give the old user another car in the log."""
    first, second = fleet.car_with_box("First"), fleet.car_with_box("Second")
    kim, lee = (fleet.user(userData={"firstName": name, "lastName": "Moved"}) for name in ("Kim", "Lee"))
    assignment = fleet.assignment(first, kim, "2026-01-01T08:00:00Z", end="2099-01-01T08:00:00Z")
    here = f"/{fleet.customer}/changes?resource=assignment&thing={assignment}"
    log = f"/changes?$filter=resource eq 'assignment' and resourceId eq '{assignment}'"
    steps = (("end", "2099-02-01T08:00:00Z"), ("userId", lee), ("carId", second), ("userId", kim))
    for count, (member, value) in enumerate(steps, start=2):  # one by one: several in a row are one change
        patched(fleet, f"/assignments/{assignment}", member, value)
        eventually(lambda count=count: len(fleet.get(log).json()) == count, f"change {count}")
    told = [
        "person of the booking of Second for Kim Moved: Lee Moved → Kim Moved",
        "car of the booking of Second for Lee Moved: First → Second",
        "person of the booking of First for Lee Moved: Kim Moved → Lee Moved",
        "end of the booking of First for Kim Moved: Thu, 1 Jan 2099, 08:00 → Sun, 1 Feb 2099, 08:00",
    ]
    said = sentences(visitor.get(here))
    assert said[:-1] == [f"{fleet.username} changed the {text}" for text in told]
    assert said[-1].startswith(f"{fleet.username} booked First for Kim Moved, ")
    both = [
        {"op": "replace", "path": f"/{member}", "value": value} for member, value in (("carId", first), ("userId", lee))
    ]
    assert fleet.patch(f"/assignments/{assignment}", both).status_code == 204
    eventually(lambda: len(fleet.get(log).json()) == 6, "the change of both")
    said = sentences(visitor.get(here))
    assert said[0] == (
        f"{fleet.username} changed the car and the person of the booking of First for Lee Moved:"
        " Second → First, Kim Moved → Lee Moved"
    )
    assert fleet.delete(f"/assignments/{assignment}").status_code == 204
    numbered(fleet, "assignment.deleted", assignment)
    gone = sentences(visitor.get(here))
    assert gone[0] == f"{fleet.username} deleted the booking of First for Lee Moved"
    assert gone[1:] == said


def test_several_members_are_named_and_long_ones_are_not_shown(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("Long")
    steps = [{"op": "replace", "path": f"/{name}", "value": "x"} for name in ("name", "vin", "brand", "model")]
    assert fleet.patch(f"/cars/{car}", [*steps, {**steps[0], "path": "/licensePlate"}]).status_code == 204
    patched(fleet, f"/cars/{car}", "description", "y" * 200)
    numbered(fleet, "car.updated", car)
    eventually(lambda: len(fleet.get(f"/changes?$filter=resourceId eq '{car}'").json()) >= 3, "all of them")
    long, many, _ = sentences(visitor.get(f"/{fleet.customer}/changes?resource=car&thing={car}"))
    assert long == f"{fleet.username} changed the description of x (x)"
    assert many == f"{fleet.username} changed the brand, the license plate, the model and 2 more of x (x)"


def test_what_is_gone_is_called_what_it_was(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("Old Polo", licensePlate="K-XX 9")
    assert fleet.delete(f"/cars/{car}").status_code == 204
    numbered(fleet, "car.deleted", car)
    answer = visitor.get(f"/{fleet.customer}/changes?resource=car&thing={car}")
    assert sentences(answer) == [
        f"{fleet.username} deleted Old Polo (K-XX 9)", f"{fleet.username} added Old Polo (K-XX 9)",
    ]  # fmt: skip
    assert f"/cars/{car}" not in answer.text


def test_what_somebody_typed_is_no_markup(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("<b>%(who)s</b>")
    patched(fleet, f"/cars/{car}", "name", "<i>&amp;</i>")
    number = numbered(fleet, "car.updated", car)
    for path in (f"?resource=car&thing={car}", f"/{number}"):
        page = visitor.get(f"/{fleet.customer}/changes{path}").text
        assert "<b>%(" not in page and "<i>&amp;</i>" not in page
        assert "&lt;b&gt;%(who)s&lt;/b&gt;" in page and "&lt;i&gt;&amp;amp;&lt;/i&gt;" in page


def test_what_is_done_on_a_page_is_done_by_the_manager(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("On paper")
    changed = visitor.post(f"/{fleet.customer}/cars/{car}/facts/name", data={"value": "By hand"})
    assert changed.status_code == 303, changed.text
    number = numbered(fleet, "car.updated", car)
    told = fleet.get(f"/changes?$filter=id eq {number}").json()[0]
    assert (told["actor"]["type"], told["actor"]["name"], told["address"]) == ("manager", fleet.username, "127.0.0.1")
    assert told["requestId"] == changed.headers["X-Request-ID"]


# One change


def test_a_change_shows_what_was_before_and_after_and_where_it_came_from(fleet: Person, visitor: httpx.Client) -> None:
    car, group = fleet.car("Before"), fleet.group("Pool of the log")
    assert fleet.put(f"/groups/{group}/cars", {"carId": car}).status_code == 204
    patched(fleet, f"/cars/{car}", "name", "After")
    number = numbered(fleet, "car.updated", car)
    told = fleet.get(f"/changes?$filter=id eq {number}").json()[0]
    page = visitor.get(f"/{fleet.customer}/changes/{number}")
    assert page.status_code == 200
    table = re.findall(r"<tbody>(.*?)</tbody>", page.text, re.DOTALL)[0]
    assert plain(table) == "Name Before After" and "<td>Before</td>" in page.text and "<td>After</td>" in page.text
    for part in (told["requestId"], "127.0.0.1", "car.updated"):
        assert f"<code>{part}</code>" in page.text
    assert f'<a href="/console/{fleet.customer}/groups/{group}">Pool of the log</a>' in page.text
    assert f'href="/console/{fleet.customer}/changes?resource=car&amp;thing={car}"' in page.text
    assert f'href="/console/{fleet.customer}/changes/{number - 1}"' in page.text


def test_what_was_made_has_no_before_and_secrets_are_named_alone(fleet: Person, visitor: httpx.Client) -> None:
    hook = fleet.put("/webhooks", {"url": "http://127.0.0.1:9/log"}).json()
    page = visitor.get(f"/{fleet.customer}/changes/{numbered(fleet, 'webhook.created', hook['id'])}").text
    assert '<th scope="col">After</th>' in page and '<th scope="col">Before</th>' not in page
    assert "a secret" in page and hook["signingSecret"] not in page and "***" not in page


def test_what_was_erased_is_said_to_be(fleet: Person, visitor: httpx.Client) -> None:
    user = fleet.user("to.be.erased@example.org", userData={"firstName": "Gerd", "lastName": "Gone"})
    assert fleet.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    number = numbered(fleet, "user.deleted", user)
    fleet.sql.execute(  # the worker's clean-up after an erasure
        "update change set person = null, person_salt = null where customer_id = $1 and resource = 'user'"
        " and resource_id = $2::integer::text",
        fleet.customer, user,
    )  # fmt: skip
    assert sentences(visitor.get(f"/{fleet.customer}/changes?resource=user&thing={user}"))[0] == (
        f"{fleet.username} removed person {user} (parts of it were deleted)"
    )
    page = visitor.get(f"/{fleet.customer}/changes/{number}", headers=GERMAN).text
    assert "Teile dieser Änderung wurden gelöscht." in page and "Gone" not in page


def test_a_change_without_anything_left(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("All gone")
    number = numbered(fleet, "car.created", car)
    fleet.sql.execute(
        "update change set who = null, before = null, after = null where customer_id = $1 and change_id = $2",
        fleet.customer, number,
    )  # fmt: skip
    page = visitor.get(f"/{fleet.customer}/changes/{number}").text
    assert "A person with a deleted name" in page and "The record no longer exists." in page


@pytest.mark.parametrize("number", ["0", "999999999", "x", "1e3", "9" * 30, "-1"])
def test_a_change_that_there_is_not(fleet: Person, visitor: httpx.Client, number: str) -> None:
    assert visitor.get(f"/{fleet.customer}/changes/{number}").status_code == 404


def test_a_number_is_of_the_customer_of_the_address(fleet: Person, bob: Person, visitor: httpx.Client) -> None:
    """Each customer counts its own changes: the same number has another change at another customer."""
    car = fleet.car("Of the fleet alone")
    number = numbered(fleet, "car.created", car)
    bob.car("Of Bob")
    with bob.browser() as neighbour:
        assert neighbour.get(f"/{fleet.customer}/changes/{number}").status_code == 404
        assert neighbour.get(f"/{fleet.customer}/changes").status_code == 404
        for path in ("", "?resource=car", f"?resource=car&thing={car}", f"/{number}"):
            assert "Of the fleet alone" not in neighbour.get(f"/{bob.customer}/changes{path}").text
    assert "Of the fleet alone" in visitor.get(f"/{fleet.customer}/changes/{number}").text


# The list


@pytest.fixture(scope="module")
def long(town: Town) -> Iterator[Person]:
    """A customer with 120 cars, and changes numbered from 1 on."""
    person = town.person("long log")
    person.sql.execute(
        "insert into car (customer_id, name) select $1, 'Car ' || n from generate_series(1, 120) n", person.customer
    )
    eventually(lambda: len(person.get("/changes?$filter=kind eq 'car.created'&$select=id").json()) == 120, "the log")
    yield person
    person.client.close()


def beside(answer: httpx.Response, way: str) -> str:
    found = re.search(rf'rel="{way}" href="/console([^"]+)"', answer.text)
    return unescape(found[1]) if found else ""


def test_the_newest_come_first_and_pages_follow_by_number(long: Person) -> None:
    with long.browser() as visitor:
        first = visitor.get(f"/{long.customer}/changes?kind=car.created")
        assert len(numbers(first)) == 50 and not beside(first, "prev")
        second = visitor.get(beside(first, "next"))
        third = visitor.get(beside(second, "next"))
        found = numbers(first) + numbers(second) + numbers(third)
        assert found == sorted(found, reverse=True) and len(set(found)) == 120
        assert not beside(third, "next") and "There are no older changes." in third.text
        long.sql.execute("insert into car (customer_id, name) values ($1, 'Newest')", long.customer)
        eventually(lambda: "Newest" in visitor.get(f"/{long.customer}/changes").text, "the newest")
        again = visitor.get(beside(first, "next"))
        assert numbers(again) == numbers(second), "what comes moves no page"
        assert numbers(visitor.get(beside(third, "prev"))) == numbers(second)
        newer = visitor.get(beside(second, "prev"))
        assert numbers(newer)[:2] == numbers(first)[:2]
        beyond = visitor.get(f"/{long.customer}/changes?older=1")
        assert (beyond.status_code, beyond.headers["location"]) == (303, f"/console/{long.customer}/changes")


def test_without_a_filter_every_number_is_on_a_page(long: Person) -> None:
    with long.browser() as visitor:
        page = visitor.get(f"/{long.customer}/changes")
        found = numbers(page)
        while older := beside(page, "next"):
            page = visitor.get(older)
            found += numbers(page)
        assert found == list(range(found[0], 0, -1)) and len(found) >= 120
        assert numbers(visitor.get(beside(page, "prev")))[-1] == numbers(page)[0] + 1


def test_older_changes_are_there_behind_numbers_that_jump(town: Town) -> None:
    """Numbers jump at the start of a new epoch."""
    person = town.person("jump")
    person.car("Before")
    settled(person)
    person.sql.execute("update change_log set last_id = last_id + 1e9::bigint where customer_id = $1", person.customer)
    person.car("Behind")
    newest = settled(person)
    assert newest > 1e9
    with person.browser() as visitor:
        page = visitor.get(f"/{person.customer}/changes")
        assert numbers(page)[0] == newest and numbers(page)[-1] == 1
        assert numbers(visitor.get(f"/{person.customer}/changes?older={newest}"))[-1] == 1
        assert numbers(visitor.get(f"/{person.customer}/changes?newer=1"))[0] == newest


def test_the_oldest_that_is_kept_is_told(town: Town) -> None:
    person = town.person("short log")
    person.car("One")
    person.car("Two")
    oldest = settled(person)
    person.sql.execute("delete from change where customer_id = $1 and change_id < $2", person.customer, oldest)
    person.sql.execute("update change_log set oldest_id = $2 where customer_id = $1", person.customer, oldest)
    with person.browser() as visitor:
        assert f"those before number {oldest} are" in visitor.get(f"/{person.customer}/changes").text


def test_filters_are_in_the_address(fleet: Person, visitor: httpx.Client) -> None:
    car = fleet.car("Filtered")
    numbered(fleet, "car.created", car)
    here = f"/{fleet.customer}/changes"
    mine = f"{fleet.username} added Filtered"
    for query in (
        f"resource=car&thing={car}", "kind=car.created", f"who={fleet.username}&resource=car", "actor=manager",
        "within=day", "from=2020-01-01&to=2099-01-01", "q=car.created",
    ):  # fmt: skip
        assert mine in sentences(visitor.get(f"{here}?{query}")), query
    for query in ("resource=user", "kind=car.deleted", "who=nobody", "actor=device", "to=2020-01-01", "thing=none"):
        assert mine not in sentences(visitor.get(f"{here}?{query}")), query
    numbered(fleet, "assignment.created", fleet.assignment(fleet.car_with_box(), fleet.user()))
    behalf = sentences(visitor.get(f"{here}?who={fleet.username}&resource=assignment"))
    assert behalf and all(one.startswith(f"{fleet.username} ") for one in behalf)
    asked = visitor.get(f"{here}?actor=manager&resource=assignment")  # the worker applied it, the manager did it
    assert behalf[0] in sentences(asked) and ">Keyrack</td>" not in asked.text and ">Account</td>" in asked.text
    assert behalf[0] not in sentences(visitor.get(f"{here}?actor=system&resource=assignment"))
    assert "Nothing matches" in visitor.get(f"{here}?who=nobody").text


@pytest.mark.parametrize("query", ["page=2", "sort=id", "older=x", "older=-1", "kind=nothing", "unknown=1"])
def test_what_the_address_says_wrongly_is_refused(fleet: Person, visitor: httpx.Client, query: str) -> None:
    assert visitor.get(f"/{fleet.customer}/changes?{query}").status_code == 400


def test_the_file_has_the_sentences(long: Person) -> None:
    with long.browser() as visitor:
        address = f"/{long.customer}/changes.csv?kind=car.created&from=2020-01-01&columns=told,id"
        lines = visitor.get(address).content.decode("utf-8-sig").split("\r\n")[:-1]
    assert lines[0] == "What happened,Number"
    assert len(lines) in (122, 123) and lines[-1].startswith("Complete: 12")
    assert "added Car 120," in "\n".join(lines) and "<" not in "\n".join(lines)


def test_a_log_without_a_change(town: Town) -> None:
    person = town.person("nothing happened")
    eventually(lambda: person.get("/changes?$top=1").json(), "the changes by which the customer was made")
    for table in ("change", "change_log"):
        person.sql.execute(f"delete from {table} where customer_id = $1", person.customer)
    with person.browser() as visitor:
        page = visitor.get(f"/{person.customer}/changes").text
        assert "No changes yet" in page and "<tbody" not in page
    person.client.close()


def test_links_lead_to_the_changes_of_a_thing(fleet: Person, visitor: httpx.Client) -> None:
    car, user, group = fleet.car_with_box("Linked"), fleet.user(), fleet.group()
    assignment = fleet.assignment(car, user)
    hook = fleet.put("/webhooks", {"url": "http://127.0.0.1:9/linked"}).json()["id"]
    for path, resource, id in (
        (f"cars/{car}", "car", car), (f"users/{user}", "user", user), (f"groups/{group}", "group", group),
        (f"assignments/{assignment}", "assignment", assignment), (f"webhooks/{hook}", "webhook", hook),
    ):  # fmt: skip
        page = unescape(visitor.get(f"/{fleet.customer}/{path}").text)
        assert f'href="/console/{fleet.customer}/changes?resource={resource}&thing={id}"' in page, path
    for path, resource in (("boxes", "product"), ("services", "service")):
        page = unescape(visitor.get(f"/{fleet.customer}/{path}?columns=changes").text)
        assert f'href="/console/{fleet.customer}/changes?resource={resource}&thing=' in page


def test_new_changes_come_in_while_the_page_is_open(desk: Desk, town: Town) -> None:
    person = town.person("watched log")
    person.car("First")
    page = desk(person)
    page.goto(f"/console/{person.customer}/changes")
    expect(page.get_by_role("row", name=re.compile("added First"))).to_be_visible()
    expect(page.locator("[data-live]")).to_have_attribute("data-state", "live")
    person.car("Second")
    expect(page.get_by_role("row", name=re.compile("added Second"))).to_be_visible()
    page.get_by_role("row", name=re.compile("added Second")).get_by_role("link").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("Change \\d+"))
    expect(page.get_by_role("row", name="Name Second")).to_be_visible()
    person.client.close()


def test_filtering_by_the_form(desk: Desk, fleet: Person) -> None:
    car = fleet.car("By the shape")
    numbered(fleet, "car.created", car)
    page = desk(fleet)
    page.goto(f"/console/{fleet.customer}/changes")
    page.locator("#filter summary").first.click()
    page.get_by_label("Type of object").select_option(label="Car")
    page.get_by_label("Number of the object").fill(str(car))
    page.get_by_role("button", name="Apply filters").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile(f"resource=car&thing={car}"))


def test_a_group_limited_auditor_reads_of_no_hidden_car(fleet: Person, town: Town) -> None:
    box, car = fleet.product(), fleet.car("Hidden estate")
    fleet.service(box)
    group = fleet.group()
    done(fleet.put(f"/groups/{group}/products", {"productId": box}))
    auditor = limited(town, fleet, "an auditor", [group], Role.AUDITOR)
    done(fleet.put("/installations", {"carId": car, "productId": box}))
    number = numbered(fleet, "box.installed", box)
    browser = auditor.browser()
    path = f"/{fleet.customer}/changes"
    (said,) = [sentence for sentence in sentences(browser.get(path)) if " put " in sentence]
    assert said.endswith("into an unknown car")
    for page in (browser.get(path), browser.get(f"{path}/{number}")):
        assert page.status_code == 200 and "Hidden estate" not in page.text
        assert f"/cars/{car}" not in page.text
    assert any("Hidden estate" in sentence for sentence in sentences(fleet.browser().get(path)))
