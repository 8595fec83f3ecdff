"""Reads of group-limited callers: as if the customer had nothing else."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import httpx
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from keyrack.api.schema.group_scope import in_group_scope as limited_form
from keyrack.changelog.endpoints.changes import NOT_FOR_LIMITED
from keyrack.core.settings import Settings
from keyrack.fleet.group_scope_checks import NOBODY
from keyrack.fleet.schema import CAR
from keyrack.webhooks.outcome_payload import OPERATION
from tests.auth.group_scope import as_meant, limit, limited, put
from tests.auth.group_scope import number as id_of
from tests.changelog.test_access_history import FUTURE, access, between
from tests.changelog.transparency.checkpoints import settled
from tests.offline_keys.offline_world import driver, garage
from tests.support.event_stream import watching
from tests.support.people import Person, Town, done, fetch, nobody_works, refused
from tests.support.servers import RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import unit_of


class Twins(NamedTuple):
    """A person limited to one group, and a person whose customer has nothing else."""

    whole: Person
    group: int
    gina: Person
    alone: Person


def fleet(person: Person, group: int, label: str, *, inside: bool) -> dict[str, int]:
    """Cars with boxes, users and assignments, each in its group."""
    made: dict[str, int] = {}
    for number in range(3):
        car = person.car(f"{label} car {number}", brand=f"{label} brand", licensePlate=f"{label}-{number}")
        user = person.user(f"{label}.{number}.{person.customer}@example.org".lower())
        box = person.product(serial_number=f"{label}-S{number}", unique_id=f"{label}-U{number}-{person.customer}")
        service = person.service(box, f"{label} service {number}")
        made = {"carId": car, "userId": user, "productId": box, "serviceId": service}
        for slot, id in made.items() if inside else ():
            put(person, group, slot, id)
        if number < 2:
            done(person.put("/installations", {"carId": car, "productId": box}))
            person.assignment(car, user)
            person.event(car, user)
    return made


@pytest.fixture(scope="module")
def twins(town: Town) -> Twins:
    whole, alone = town.person("whole"), town.person("alone")
    groups = [person.group("Ours") for person in (whole, alone)]
    for person, group in zip((whole, alone), groups, strict=True):
        fleet(person, group, "Ours", inside=True)
    other = whole.group("Hidden")
    last = fleet(whole, other, "Hidden", inside=False)
    put(whole, other, "carId", last["carId"])
    # Across the limit: a hidden user may open a car of the group
    ours = [row["id"] for row in whole.get(f"/groups/{groups[0]}/cars?$orderby=id").json()]
    whole.assignment(ours[0], last["userId"])
    whole.event(ours[0], last["userId"])
    done(whole.put("/installations", {"carId": last["carId"], "productId": last["productId"]}))
    return Twins(whole, groups[0], limited(town, whole, "gina", [groups[0]]), alone)


NAMES = {
    "cars": "name", "users": "userData", "products": "serialNumber", "services": "name", "groups": "name",
    "positions": "name",
}  # fmt: skip
QUERIES = [
    "/cars?$select=name&$expand=products($select=serialNumber;$expand=service($select=name)),groups($select=name)",
    "/cars?$select=name&$expand=assignments($select=start;$count=true)",
    "/cars?$select=name&$filter=assignments/$count gt 1",
    "/cars?$select=name&$filter=assignments/any()",
    "/cars?$select=name&$filter=products/any(p:startswith(p/serialNumber,'Hidden'))",
    "/cars?$select=name&$filter=groups/all(g:g/name eq 'Ours')",
    "/cars?$select=name&$orderby=products/$count desc,name",
    "/cars?$select=name&$search=Hidden",
    "/cars?$select=name&$count=true&$top=1",
    "/cars?$apply=aggregate($count as n)",
    "/cars?$apply=groupby((brand),aggregate($count as n))",
    "/cars?$compute=assignments/$count as n&$select=name,n",
    "/users?$select=userData&$filter=assignments/$count ge 1&$orderby=emailAddress",
    "/users?$apply=aggregate($count as n)",
    "/assignments?$select=start,end&$expand=car($select=name),user($select=userData)",
    "/assignments?$apply=groupby((car/name),aggregate($count as n))&$orderby=n",
    "/products?$select=serialNumber&$expand=car($select=name),service($select=name),groups($select=name)",
    "/products?$select=serialNumber&$filter=car/name eq 'Hidden car 2'",
    "/services?$select=name&$expand=product($select=serialNumber)",
    "/services?$select=name&$filter=productId eq null",
    "/events?$select=type&$expand=car($select=name)",
    "/events?$apply=aggregate($count as n)",
    "/events?$select=type&$orderby=utcDateTime desc&$top=1&$count=true",
    "/events?$select=type&$filter=id gt 0&$orderby=id&$top=1&$skip=1",
    "/assignments?$select=start,end&$orderby=start desc&$top=2&$expand=car($select=name)",
    "/groups?$select=name&$expand=cars($select=name;$orderby=name),users/$count,products/$count,services/$count",
    "/groups?$apply=aggregate($count as n)",
    "/positions?$select=name,hasUnit&$orderby=name",
    "/positions?$select=name&$filter=products/any()&$orderby=name",
    "/cars?$select=name&$orderby=name desc&$skip=1&$top=2",
    *(
        f"/{kind}?$select={name}&$search={word}"
        for kind, name in (*NAMES.items(), ("assignments", "start"), ("events", "type"))
        for word in ("Ours", "Hidden", "o")
    ),
    "/cars?$select=name&$search=Ours&$orderby=searchrank(),naturalorder(name) desc",
    "/cars?$select=name&$orderby=naturalorder(name) desc&$top=2",
    "/cars?$select=name&$expand=products($select=serialNumber;$search=Ours)",
]


def both(twins: Twins, path: str) -> list[tuple[int, Any, str | None]]:
    answers = [person.get(path) for person in (twins.gina, twins.alone)]
    return [
        (one.status_code, one.json() if one.is_success else one.text, one.headers.get("x-total-count"))
        for one in answers
    ]


@pytest.mark.parametrize("path", QUERIES)
def test_reads_are_as_if_the_customer_had_nothing_else(twins: Twins, path: str) -> None:
    limited_answer, alone = both(twins, path)
    assert limited_answer[0] == 200, limited_answer
    assert limited_answer == alone
    assert "Hidden" not in json.dumps(limited_answer[1])


CONDITIONS = st.sampled_from(
    [
        "products/any()", "assignments/$count eq 1", "assignments/any(a:a/lifetime ne 7)", "groups/$count eq 1",
        "contains(name,'car')", "brand eq 'Hidden brand'", "not products/any()", "name gt 'Ours car 0'",
        "products/any(p:p/service/name eq 'Ours service 1')",
    ]
)  # fmt: skip


@given(
    conditions=st.lists(CONDITIONS, min_size=1, max_size=3),
    word=st.sampled_from([" and ", " or "]),
    order=st.sampled_from(["name", "name desc", "products/$count,name", "brand,name desc", "assignments/$count,name"]),
    top=st.integers(0, 4),
    skip=st.integers(0, 3),
)
@hypothesis_settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_queries_are_as_if_the_customer_had_nothing_else(
    twins: Twins, conditions: list[str], word: str, order: str, top: int, skip: int
) -> None:
    asked = f"$filter={word.join(conditions)}&$orderby={order}&$top={top}&$skip={skip}&$count=true"
    limited_answer, alone = both(twins, f"/cars?$select=name&$expand=products($select=serialNumber)&{asked}")
    assert limited_answer == alone


def test_the_number_of_a_hidden_box_is_null(twins: Twins) -> None:
    hidden = twins.whole.product(serial_number="Hidden-X")
    service = twins.whole.service(hidden, "Ours, with a hidden box")
    put(twins.whole, twins.group, "serviceId", service)
    row = twins.gina.get(f"/services/{service}?$expand=product").json()
    assert (row["productId"], row["product"]) == (None, None)
    assert twins.whole.get(f"/services/{service}").json()["productId"] == hidden
    done(twins.whole.delete(f"/groups/{twins.group}/services/{service}"))


def test_a_resource_without_a_group_scope_has_no_limited_plan() -> None:
    with pytest.raises(TypeError, match="Operation has no group scope"):
        limited_form(OPERATION)
    form = limited_form(CAR)
    assert all(relation.is_group_scoped for relation in form.relations.values())


def test_the_change_log_has_changes_of_things_in_the_groups(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    before = whole.car("Told before it came")
    put(whole, twins.group, "carId", before)
    done(whole.patch(f"/cars/{before}", [{"op": "replace", "path": "/name", "value": "Told while it was here"}]))
    done(whole.delete(f"/groups/{twins.group}/cars/{before}"))
    done(whole.patch(f"/cars/{before}", [{"op": "replace", "path": "/name", "value": "Not told any more"}]))
    settled(whole)
    changes = gina.get("/changes").json()
    text = json.dumps(changes)
    assert "Told while it was here" in text and "Not told any more" not in text and "Hidden" not in text
    assert not any(change["kind"] == "car.created" and change["resourceId"] == str(before) for change in changes)
    assert all(change["groups"] == [twins.group] for change in changes)
    every = [change for change in whole.get("/changes").json() if twins.group in change["groups"]]
    alone = [change["id"] for change in every if change["resource"] != "assignment"]
    assert [change["id"] for change in changes if change["resource"] != "assignment"] == alone
    refused(gina.get("/changes", headers={"Accept": "text/event-stream"}), 403, NOT_FOR_LIMITED)
    for path in ("/changes/checkpoint", f"/changes/{changes[0]['id']}/proof", "/operations", "/webhooks"):
        assert gina.get(path).status_code == 403


def numbers(changes: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """The numbers in changes: of their objects, and in their values."""
    named = {
        (change["resource"] + "Id", int(change["resourceId"])) for change in changes if change["resource"] in SLOTS
    }
    for change in changes:
        for side in ("before", "after"):
            named |= {(name, id) for name, id in (change[side] or {}).items() if name in SLOTS.values() and id}
    return named


SLOTS = {"car": "carId", "user": "userId", "product": "productId", "service": "serviceId", "assignment": "assignmentId"}


def test_a_change_of_an_assignment_is_visible_if_car_and_user_are_in_scope(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    near, far = whole.car_with_box("Ours and near"), whole.car_with_box("Hidden and far")
    kim, lee = whole.user("near.kim@example.org"), whole.user("far.lee@example.org")
    second = whole.group("Hidden beside ours")
    for slot, id in (("carId", near), ("userId", kim)):
        put(whole, twins.group, slot, id)
        put(whole, second, slot, id)
    put(whole, second, "carId", far)
    ours, with_far_car, with_far_user = (
        whole.assignment(near, kim),
        whole.assignment(far, kim),
        whole.assignment(near, lee),
    )
    for assignment in (ours, with_far_car, with_far_user):
        moved(whole, assignment, end="2998-01-01T00:00:00Z")
    moved(whole, ours, carId=far)
    moved(whole, ours, carId=near)
    moved(whole, with_far_user, userId=kim)
    for assignment in (ours, with_far_car, with_far_user):
        path = f"/assignments/{assignment}"
        done(whole.delete(path))
        eventually(lambda path=path: whole.get(path).status_code == 404, "the end")
    settled(whole)
    changes = gina.get("/changes?$filter=resource eq 'assignment'").json()
    kinds = {
        assignment: [change["kind"] for change in changes if change["resourceId"] == str(assignment)]
        for assignment in (ours, with_far_user)
    }
    # A move between a car of the groups and a hidden one names both, so it is hidden
    assert kinds[ours] == ["assignment.created", "assignment.updated", "assignment.deleted"]
    assert kinds[with_far_user] == ["assignment.deleted"]
    assert not any(change["resourceId"] == str(with_far_car) for change in changes)
    every = gina.get("/changes").json()
    assert {group for change in every for group in change["groups"]} == {twins.group}
    assert numbers(every).isdisjoint({("carId", far), ("userId", lee), ("assignmentId", with_far_car)})
    for path in (f"/cars/{near}/access", f"/users/{kim}/access"):
        events = gina.get(path).json()["events"]
        assert numbers(events) <= numbers(every) and events
        assert {group for change in events for group in change["groups"]} == {twins.group}


def moved(whole: Person, assignment: int, **members: Any) -> None:
    """Change an assignment, and wait until that is done."""
    steps = [{"op": "replace", "path": f"/{name}", "value": str(value)} for name, value in members.items()]
    done(whole.patch(f"/assignments/{assignment}", steps))
    eventually(lambda: members.items() <= whole.get(f"/assignments/{assignment}").json().items(), "the change")


def test_a_change_names_no_car_or_box_out_of_scope(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    car, box = whole.car("Hidden, with our box"), whole.product()
    service = whole.service(None, "Ours, for a hidden box")
    other = whole.product()
    put(whole, twins.group, "productId", box)
    put(whole, twins.group, "serviceId", service)
    done(whole.put("/pairings", {"productId": other, "serviceId": service}))
    whole.service(box)
    done(whole.put("/installations", {"carId": car, "productId": box}))
    settled(whole)
    changes = gina.get("/changes?$filter=kind eq 'box.installed' or kind eq 'service.paired'").json()
    ours = {("box.installed", str(box)), ("service.paired", str(service))}
    mine = [change for change in changes if (change["kind"], change["resourceId"]) in ours]
    assert [change["after"] for change in mine] == [{"productId": None}, {"carId": None}]
    assert numbers(gina.get("/changes").json()).isdisjoint({("carId", car), ("productId", other)})
    shown = whole.get("/changes?$filter=kind eq 'box.installed' or kind eq 'service.paired'").json()
    assert {"carId": car} in [change["after"] for change in shown]


def test_telemetry_names_no_unit_out_of_scope(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    unit = unit_of(whole)
    unit.tell(1)
    put(whole, twins.group, "carId", unit.car)
    path = f"/cars/{unit.car}/telemetry"
    shown = gina.get(path)
    assert shown.json() == {**whole.get(path).json(), "deviceSerialNumber": None}
    (product,) = whole.get(f"/cars/{unit.car}/products").json()
    put(whole, twins.group, "productId", product["id"])
    assert gina.get(path).json()["deviceSerialNumber"] == unit.serial
    assert gina.get(path, headers={"If-None-Match": shown.headers["etag"]}).status_code == 200
    done(whole.delete(f"/groups/{twins.group}/products/{product['id']}"))


def test_an_access_history_names_no_box_or_service_out_of_scope(twins: Twins) -> None:
    """A change between hidden services ends no period either. The box exists with its car."""
    whole, gina = twins.whole, twins.gina
    car, user = whole.car(), whole.user()
    for slot, id in (("carId", car), ("userId", user)):
        put(whole, twins.group, slot, id)
    box = whole.box_in(car)
    first = whole.get(f"/products/{box}/services").json()
    whole.assignment(car, user)
    settled(whole)
    begins = access(whole, f"/cars/{car}")["asOf"]["recordedTime"]
    done(whole.delete("/pairings", {"productId": box, "serviceId": first["id"]}))
    settled(whole)
    second = whole.service()
    done(whole.put("/pairings", {"productId": box, "serviceId": second}))
    settled(whole)
    for path in (f"/cars/{car}", f"/users/{user}"):
        shown = between(whole, path, begins, FUTURE)["assigned"]
        assert [(row["boxId"], row["serviceId"]) for row in shown] == [(box, first["id"]), (box, None), (box, second)]
        hidden = {**shown[0], "serviceId": None, "until": None}
        assert between(gina, path, begins, FUTURE)["assigned"] == [hidden]
        (now,) = access(gina, path)["assigned"]
        assert (now["boxId"], now["serviceId"]) == (box, None)


def test_a_change_names_no_app_of_a_user_out_of_scope(twins: Twins) -> None:
    """The phone of a hidden user delivers a forged entry of a box in the groups."""
    whole, gina = twins.whole, twins.gina
    car, box = garage(whole)
    lee = driver(whole)
    put(whole, twins.group, "productId", box.product)
    whole.assignment(car, lee.user)
    lee.fetch()
    lee.visit(box)
    *_, last = lee.entries
    lee.entries.append(last[:-1] + bytes([last[-1] ^ 1]))
    lee.home()
    settled(whole)
    query = "/changes?$filter=kind eq 'boxReport.created'"
    (everything,) = [row for row in whole.get(query).json() if row["after"]["productId"] == box.product]
    assert (everything["actor"]["name"], everything["address"]) == (lee.subject, "127.0.0.1")
    hidden = {**everything, "actor": {"type": "user", "id": None, "name": None}, "address": None}
    assert gina.get(query).json() == [{**hidden, "groups": [twins.group]}]
    assert gina.get(f"{query} and actor/name eq '{lee.subject}'").json() == []
    put(whole, twins.group, "userId", lee.user)
    assert gina.get(query).json() == [{**everything, "groups": [twins.group]}]
    done(whole.delete(f"/groups/{twins.group}/products/{box.product}"))
    done(whole.delete(f"/groups/{twins.group}/users/{lee.user}"))


def test_an_offline_key_is_visible_if_car_and_user_are_in_scope(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    car, box = garage(whole)
    kim, lee = driver(whole), driver(whole)
    put(whole, twins.group, "carId", car)
    put(whole, twins.group, "userId", kim.user)
    for phone in (kim, lee):
        whole.assignment(car, phone.user)
        phone.fetch()
    settled(whole)
    keys = {row["userId"]: row for row in whole.get(f"/cars/{car}/keys").json()}
    assert keys.keys() == {kim.user, lee.user}
    assert gina.get(f"/cars/{car}/keys").json() == [keys[kim.user]]
    (issued,) = gina.get("/changes?$filter=resource eq 'key'").json()
    assert issued["resourceId"] == keys[kim.user]["id"]
    named = (issued["after"]["carId"], issued["after"]["productId"], issued["groups"])
    assert named == (car, box.product, [twins.group])
    done(whole.delete("/installations", {"carId": car, "productId": box.product}))  # it exists with its car
    (issued,) = gina.get(f"/changes?$filter=kind eq '{issued['kind']}'").json()
    assert (issued["after"]["carId"], issued["after"]["productId"]) == (car, None)


def test_a_row_of_an_older_worker_is_hidden(twins: Twins) -> None:
    """Without `group_sets` a reader cannot decide what is in scope."""
    whole, gina = twins.whole, twins.gina
    settled(whole)
    query = "/changes?$filter=resource eq 'assignment'"
    before = gina.get(query).json()
    whole.sql.execute(
        "update change set group_sets = null where customer_id = $1 and change_id = $2", whole.customer, before[0]["id"]
    )
    after = gina.get(query).json()
    assert after[: len(before) - 1] == before[1:], "a change of a test before may follow"
    assert before[0]["id"] in [change["id"] for change in whole.get(query).json()]


def test_the_access_history_of_a_car_has_users_of_the_groups(twins: Twins) -> None:
    car = twins.whole.get(f"/groups/{twins.group}/cars?$orderby=id").json()[0]["id"]
    settled(twins.whole)
    whole, mine = (person.get(f"/cars/{car}/access").json() for person in (twins.whole, twins.gina))
    users = {row["id"] for row in twins.gina.get("/users").json()}
    assert len(whole["assigned"]) == 2 and len(mine["assigned"]) == 1
    assert {row["userId"] for row in mine["assigned"]} <= users
    every = {change["id"]: change for change in twins.gina.get("/changes").json()}
    assert mine["events"] == [every[event["id"]] for event in whole["events"] if event["id"] in every] != []
    assert len(mine["events"]) < len(whole["events"])
    hidden = next(row["id"] for row in twins.whole.get("/cars").json() if row["name"] == "Hidden car 0")
    assert twins.gina.get(f"/cars/{hidden}/access").content == twins.gina.get(f"/cars/{NOBODY}/access").content


def test_limits_of_access_history_count_what_exists(twins: Twins, dsn: str, settings: Settings) -> None:
    car = twins.whole.get(f"/groups/{twins.group}/cars?$orderby=id").json()[0]["id"]
    few = settings.model_copy(update={"access_max_periods": 1})
    with RunningServer(few, dsn, worker=False) as server:
        statuses = [
            fetch("GET", f"{server.url}/v3/cars/{car}/access", headers=person.headers).status_code
            for person in (twins.whole, twins.gina)
        ]
    assert statuses == [400, 200]


def test_an_assignment_moved_out_of_scope_meanwhile_is_not_ended(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    car, other = whole.car_with_box("Ours for now"), whole.car_with_box("Hidden, and next")
    user = whole.user()
    put(whole, twins.group, "carId", car)
    put(whole, twins.group, "userId", user)
    assignment = whole.assignment(car, user)
    with nobody_works(whole):
        moved = whole.patch(f"/assignments/{assignment}", [{"op": "replace", "path": "/carId", "value": other}])
        ended = gina.delete(f"/assignments/{assignment}")
        assert (moved.status_code, ended.status_code) == (204, 204)

    def state(answer: httpx.Response) -> str:
        return whole.get(f"/operations/{answer.headers['Operation-Id']}").json()["state"]

    eventually(lambda: state(ended) != "Pending", "both done")
    assert (state(moved), state(ended)) == ("Succeeded", "Failed")
    assert whole.get(f"/assignments/{assignment}").json()["carId"] == other
    assert gina.get(f"/assignments/{assignment}").status_code == 404


def test_a_stream_is_the_same_whatever_changes(twins: Twins, dsn: str, settings: Settings) -> None:
    """The first server reports within the test, whatever changes. The other one never does."""
    seldom = settings.model_copy(update={"live_scoped_interval_seconds": 60.0})
    topics = "?topics=cars,changes,positions"
    with RunningServer(seldom, dsn, worker=False) as server, watching(twins.gina, topics) as often:
        often.hears("cars", "changes", "positions")
        with watching(twins.gina, topics, url=server.url) as watcher, watching(twins.whole, url=server.url) as witness:
            twins.whole.car("Hidden and new")
            witness.hears("cars")
            twins.gina.car("Ours and new")
            assert watcher.events == []
            assert {watcher.answer.headers["last-event-id"], watcher.last_id, often.last_id} == {"scoped"}
    with watching(twins.gina, topics, **{"Last-Event-ID": witness.last_id}) as resumed:
        resumed.hears("positions")


def test_retention_names_no_time_of_the_whole_customer(twins: Twins) -> None:
    whole, mine = (person.get("/retention").json() for person in (twins.whole, twins.gina))
    assert {row["kind"] for row in whole if row["oldest"]} >= {"assignments", "events", "operations"}
    assert mine == [{**row, "oldest": None} for row in whole]


def test_a_stream_ends_when_the_groups_change(twins: Twins, town: Town) -> None:
    person = limited(town, twins.whole, "on a stream", [twins.group])
    with watching(person) as watcher:
        person.car("Heard of")
        watcher.hears("cars")
        limit(twins.whole, person, [twins.group, twins.whole.group()])
        watcher.ends()
    person.client.close()


def test_a_group_that_limits_somebody_stays(twins: Twins, town: Town) -> None:
    group = twins.whole.group("Limits")
    person = limited(town, twins.whole, "the only one", [group])
    answer = twins.whole.delete(f"/groups/{group}")
    assert (answer.status_code, "limited to the group" in answer.text) == (409, True)
    limit(twins.whole, person, [twins.group])
    done(twins.whole.delete(f"/groups/{group}"))
    person.client.close()


def test_scopes_match_the_groups_after_concurrent_changes(town: Town, sql: Sql) -> None:
    """Things appear and disappear while limits begin and end."""
    whole = town.person("a storm")
    groups, cars = [whole.group() for _ in range(3)], [whole.car() for _ in range(6)]
    people = [limited(town, whole, f"in a storm {number}", [groups[0]]) for number in range(2)]

    def comes_and_goes(number: int) -> None:
        for turn in range(12):
            car, group = cars[(number + turn) % 6], groups[(number * 2 + turn) % 3]
            whole.put(f"/groups/{group}/cars", {"carId": car})
            whole.delete(f"/groups/{groups[turn % 3]}/cars/{cars[(turn * 5 + number) % 6]}")

    numbers = [id_of(person) for person in people]

    def begins_and_ends(number: int) -> None:
        one = numbers[number]
        for turn in range(12):
            value = [groups[(turn + number) % 3]] + ([groups[turn % 3]] if turn % 2 else [])
            done(whole.patch(f"/managers/{one}", [{"op": "replace", "path": "/groups", "value": value}]))

    with ThreadPoolExecutor(6) as pool:
        work = [pool.submit(comes_and_goes, number) for number in range(4)]
        work += [pool.submit(begins_and_ends, number) for number in range(2)]
        for one in work:
            one.result()
    assert as_meant(sql, whole.customer)
    used = "select count(*) from scope s where customer_id = $1 and not exists (select from manager_role r"
    assert sql.value(used + " where r.customer_id = s.customer_id and r.scope_id = s.scope_id)", whole.customer) == 0


def test_the_newest_rows_are_found_behind_many_newer_rows_of_others(twins: Twins) -> None:
    whole, gina = twins.whole, twins.gina
    cars, users = ({row["id"] for row in gina.get(path).json()} for path in ("/cars", "/users"))
    hidden_car, hidden_user = (
        next(row["id"] for row in whole.get(path).json() if row["id"] not in ours)
        for path, ours in (("/cars", cars), ("/users", users))
    )
    for _ in range(60):
        whole.event(hidden_car, hidden_user)
        whole.event(min(cars), hidden_user)
    every = whole.get("/events?$orderby=id desc").json()
    ours = [row for row in every if row["carId"] in cars and row["userId"] in users]
    assert ours and not any(row in ours for row in every[:120])
    for _ in range(2):  # the second time, the server knows that the first rows do not suffice
        answer = gina.get("/events?$orderby=id desc&$top=1&$count=true")
        assert (answer.json(), answer.headers["x-total-count"]) == (ours[:1], str(len(ours)))
        assert gina.get("/events?$orderby=id desc&$top=5&$skip=1").json() == ours[1:6]
        assert gina.get(f"/events?$orderby=id&$skip={2**63}").json() == []
        assert gina.get(f"/events?$filter=id gt {ours[0]['id']}").json() == []
    tag = gina.get("/events?$orderby=id desc&$top=1").headers["etag"]
    unchanged = gina.get("/events?$orderby=id desc&$top=1", headers={"If-None-Match": tag})
    assert unchanged.status_code == 304
