"""ETag, If-None-Match and If-Match, for every endpoint."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import httpx
import pytest

from keyrack.api import odata
from keyrack.api.auth_schemes import AppAuth, DeviceAuth, DrivePageAuth, DriverAuth
from keyrack.api.conditional_requests import CHANGED, INVALID, NOTHING_TO_COMPARE, ONLY_FOR_READS
from keyrack.api.endpoint import Endpoint
from keyrack.api.read_sql import Select
from keyrack.fleet.schema import CAR
from keyrack.http.routes import ALL
from keyrack.offline_keys.p256 import PrivateKey
from tests.http.test_contract import PUBLIC, called, each, name, over, path_of, query_of
from tests.http.test_tenant_isolation import PATCHES, WORLDS, Ids, ask, world
from tests.offline_keys.offline_world import confirm, driver, garage
from tests.support.people import Person, Town, http_client, nobody_works, refused
from tests.support.servers import RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import unit_of

READS = [endpoint for endpoint in ALL if endpoint.read is not None]
SINGLE = [endpoint for endpoint in READS if endpoint.read is not None and endpoint.read.select.is_single]
# Responses for the calling app, which also have an ETag
OF_APPS = [endpoint for endpoint in ALL if endpoint.has_etag and isinstance(endpoint.auth, AppAuth)]
DOCUMENTS = [
    endpoint
    for endpoint in ALL
    if endpoint.has_etag
    and endpoint.read is None
    and not endpoint.auth.has_api_key
    and not isinstance(endpoint.auth, AppAuth)
]
WRITES = [endpoint for endpoint in ALL if endpoint.method != "GET"]
COMPARING = [endpoint for endpoint in WRITES if endpoint.concurrency.if_match is not None]
OTHER = '"0000aa-1"'
SOME_DATE = {"searchDate": "2026-01-01T00:00:00Z"}


def none_match(tag: str) -> dict[str, Any]:
    return {"headers": {"If-None-Match": tag}}


def match(tag: str) -> dict[str, Any]:
    return {"headers": {"If-Match": tag}}


def unchanged(answer: httpx.Response, tag: str) -> None:
    """Check for a 304 without a body, with the headers of its 200."""
    assert (answer.status_code, answer.content) == (304, b""), answer.text
    assert answer.headers["etag"] == tag
    assert answer.headers["cache-control"]
    assert not {"content-type", "content-length", "transfer-encoding"} & set(answer.headers)


def tag_of(person: Person, path: str) -> str:
    answer = person.get(path)
    assert answer.status_code == 200, answer.text
    return answer.headers["etag"]


def made(endpoint: Endpoint, person: Person) -> tuple[str, Ids]:
    """Create rows, and return the path to them and their ids."""
    ids = {} if "brand" in endpoint.parameters else world(endpoint, person)
    if "operationId" in ids:
        eventually(lambda: person.get(f"/operations/{ids['operationId']}").json()["state"] != "Pending")
    return endpoint.path.format(**{"brand": "Tagged"} | SOME_DATE | ids), ids


@pytest.fixture(scope="module")
def catalogue(sql: Sql) -> None:
    sql.execute(
        "with f as (insert into key_form (name, drawing) values ('Tagged', '<svg/>') returning key_form_id)"
        " insert into brand_key (brand, key_form_id) select 'Tagged', key_form_id from f"
    )


# Every read


Places = Mapping[str, tuple[Person, str]]


@pytest.fixture(scope="module")
def places(town: Town, catalogue: None) -> Places:
    """For each read, a caller that gets a response, and the path. No change is pending."""
    dora, emil = town.person("dora"), town.person("emil")
    for person in (dora, emil):
        person.headers["Accept-Encoding"] = "identity"
    found: dict[str, tuple[Person, str]] = {}
    for endpoint in READS:
        # Outcomes would change the pending deliveries
        person = emil if endpoint.tag.name == "Webhooks" else dora
        found[name(endpoint)] = person, made(endpoint, person)[0] + query_of(endpoint)
    eventually(lambda: dora.get("/operations?$filter=state eq 'Pending'").json() == [])
    return found


@over(READS)
def test_a_read_has_an_etag_and_answers_304_for_it(endpoint: Endpoint, places: Places) -> None:
    alice, path = places[name(endpoint)]
    answer = alice.get(path)
    tag = answer.headers["etag"]
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "private, no-cache"
    assert tag.startswith('"') and tag.endswith('"') and tag.isascii()
    assert alice.get(path).headers["etag"] == tag
    for method in ("GET", "HEAD"):
        unchanged(alice.call(method, path, **none_match(tag)), tag)
        unchanged(alice.call(method, path, **none_match(f"{OTHER}, W/{tag} ,")), tag)
        unchanged(alice.call(method, path, **none_match("*")), tag)
        assert alice.call(method, path, **none_match(OTHER)).status_code == 200
    packed = f'{tag[:-1]}-gzip"'
    unchanged(alice.get(path, **none_match(f"{OTHER},{packed}")), packed)
    whole = alice.get(path, **none_match(OTHER))
    assert (whole.content, whole.headers["etag"]) == (answer.content, tag)
    same = alice.get(path, **match(f"{OTHER}, {tag}"))
    assert (same.status_code, same.content) == (200, answer.content)
    refused(alice.get(path, **match(OTHER)), 412, CHANGED)
    refused(alice.get(path, **match(f"W/{tag}")), 412, CHANGED)
    assert alice.get(path, **match("*")).status_code == 200


@over(READS)
def test_reads_ignore_a_malformed_if_none_match(endpoint: Endpoint, places: Places) -> None:
    alice, path = places[name(endpoint)]
    tag = tag_of(alice, path)
    for header in (tag.strip('"'), f"{tag}{tag}x", f"{tag} {tag}", "W/", '"', "", f"w/{tag}", f"*, {tag}", f"'{tag}'"):
        assert alice.get(path, **none_match(header)).status_code == 200, header


@over(READS)
def test_errors_do_not_depend_on_if_none_match(endpoint: Endpoint, places: Places, bob: Person) -> None:
    alice, path = places[name(endpoint)]
    for status, wrong in ((401, {"vendor-API-Key": "nonsense"}), (401, {"Authorization": "Bearer x"})):
        assert alice.get(path, headers={"If-None-Match": "*", **wrong}).status_code == status
    wrong_query = f"{path}{'&' if '?' in path else '?'}$nonsense=1"
    assert alice.get(wrong_query, **none_match("*")).status_code == 400
    if endpoint.auth.has_customer:
        assert alice.get(path, headers={"If-None-Match": "*", "Customer-ID": "2147483647"}).status_code == 404
    if not endpoint.parameters:
        return
    tag = tag_of(alice, path)
    for person, absent in (
        ((alice, path_of(endpoint)), (bob, path)) if endpoint.auth.has_customer else ((alice, path_of(endpoint)),)
    ):
        plain = person.get(absent)
        assert (plain.status_code, "etag" in plain.headers) == (404, False)
        for header in ("*", tag):
            for options in (none_match(header), match(header)):
                answer = person.get(absent, **options)
                assert (answer.status_code, answer.content) == (404, plain.content)


def rename(path: str) -> Callable[[Person, Ids], Any]:
    def change(person: Person, ids: Ids) -> None:
        steps = [{"op": "replace", "path": "/name", "value": str(uuid.uuid4())}]
        assert person.patch(path.format(**ids), steps).status_code == 204

    return change


def written(statement: str, slot: str) -> Callable[[Person, Ids], Any]:
    return lambda person, ids: person.sql.execute(statement, person.customer, ids[slot])


NEW_NAME = "update person p set last_name = 'Changed' from customer_user u where u.user_id = p.user_id"
TOLD = (
    "insert into car_state (customer_id, car_id, product_id, position_at, latitude, longitude, odometer_at, odometer,"
    " read_at) select $1, $2, product_id, now(), 1, 2, now(), 3, now() from product where customer_id = $1"
    " and car_id = $2 on conflict (customer_id, car_id) do update set latitude = 9, read_at = now()"
)
NEAREST = (
    "insert into car_state (customer_id, car_id, product_id, position_at, latitude, longitude, position_since)"
    " select $1, $2, product_id, now(), 1, 2, now() from product where customer_id = $1 and car_id = $2"
)
SERIAL = "update product set serial_number = serial_number || 'x' where customer_id = $1 and product_id = $2"
SERVICE = "update service set name = name || 'x' where customer_id = $1 and service_id = $2"
ROLE = (
    "update manager_role set role = case role when 'Viewer' then 'Dispatcher' else 'Viewer' end"
    " where customer_id = $1 and manager_id = $2"
)
RECOVERY = (
    "insert into recovery (manager_id, hashes) select manager_id, array[''::bytea] from manager where username = $1"
    " on conflict (manager_id) do update set hashes = recovery.hashes || excluded.hashes"
)
# Changes of the response of each single read
DECIDED_REQUEST = """
update assignment_request set decision_comment = 'noted' where customer_id = $1 and request_id = $2
"""
CHANGES: Mapping[str, Callable[[Person, Ids], Any]] = {
    "GET /me/factors": lambda person, ids: person.sql.execute(RECOVERY, person.username),
    "GET /managers/{managerId}": written(ROLE, "managerId"),
    "GET /clients/{clientId}": rename("/clients/{clientId}"),
    "GET /assignment-requests/{requestId}": written(DECIDED_REQUEST, "requestId"),
    "GET /me": lambda person, ids: person.put("/me/preferences", {"theme": "dark", "language": None, "timeZone": None}),
    "GET /cars/{carId}": rename("/cars/{carId}"),
    "GET /cars/{carId}/telemetry": written(TOLD, "carId"),
    "GET /cars/{carId}/location": written(TOLD, "carId"),
    "GET /cars/{carId}/location/{searchDate}": written(NEAREST, "carId"),
    "GET /users/{userId}": written(NEW_NAME + " and u.customer_id = $1 and p.user_id = $2", "userId"),
    "GET /assignments/{assignmentId}": written(
        "update assignment set lifetime = lifetime + 2 where customer_id = $1 and assignment_id = $2", "assignmentId"
    ),
    "GET /groups/{groupId}": rename("/groups/{groupId}"),
    "GET /products/{productId}": written(SERIAL, "productId"),
    "GET /products/{productId}/services": lambda person, ids: person.sql.execute(
        "update service set name = 'Changed' where customer_id = $1 and product_id = $2",
        person.customer,
        ids["productId"],
    ),
    "GET /products/{productId}/cars": rename("/cars/{carId}"),
    "GET /services/{serviceId}": written(SERVICE, "serviceId"),
    "GET /services/{serviceId}/products": written(SERIAL, "productId"),
    "GET /services/{serviceId}/contracts": written(
        "update contract set order_number = 'X' where customer_id = $1 and service_id = $2", "serviceId"
    ),
    "GET /events/{eventId}": written(
        "update event set user_agent = 'x' where customer_id = $1 and event_id = $2", "eventId"
    ),
    "GET /operations/{operationId}": written(
        "update operation set error_message = 'x' where customer_id = $1 and operation_id = $2::text::uuid",
        "operationId",
    ),
    "GET /webhooks/{webhookId}": lambda person, ids: person.post(f"/webhooks/{ids['webhookId']}/test"),
}


@over(SINGLE)
def test_only_changes_of_the_row_change_its_etag(endpoint: Endpoint, alice: Person, bob: Person) -> None:
    (path, ids), (_, theirs) = made(endpoint, alice), made(endpoint, bob)
    change = CHANGES[name(endpoint)]  # a new read must add its change here
    before = tag_of(alice, path)
    change(bob, theirs)
    unchanged(alice.get(path, **none_match(before)), before)
    seen = alice.get(path)
    change(alice, ids)
    after = alice.get(path, **none_match(before))
    assert (after.status_code, after.content == seen.content) == (200, False)
    assert after.headers["etag"] != before


@over([endpoint for endpoint in SINGLE if name(endpoint) not in WORLDS and endpoint.parameters])
def test_rows_do_not_share_etags(endpoint: Endpoint, alice: Person) -> None:
    (one, _), (other, _) = made(endpoint, alice), made(endpoint, alice)
    assert alice.get(one, **none_match(tag_of(alice, other))).status_code == 200


# Lists


def test_the_etag_of_a_list_depends_on_rows_and_order(carol: Person) -> None:
    cars = [carol.car(f"C{n}") for n in range(3)]
    whole = tag_of(carol, "/cars")
    assert tag_of(carol, "/cars?$orderby=id desc") != whole
    assert tag_of(carol, "/cars?$top=2") != whole
    assert tag_of(carol, "/cars?$orderby=name") == whole
    carol.patch(f"/cars/{cars[1]}", [{"op": "replace", "path": "/vin", "value": "V"}])
    changed = carol.get("/cars", **none_match(whole))
    assert (changed.status_code, len(changed.json())) == (200, 3)
    carol.patch(f"/cars/{cars[1]}", [{"op": "remove", "path": "/vin"}])
    unchanged(carol.get("/cars", **none_match(whole)), whole)  # the original content is back
    more = carol.car("C9")
    assert carol.get("/cars", **none_match(whole)).status_code == 200
    assert carol.delete(f"/cars/{more}").status_code == 204
    unchanged(carol.get("/cars", **none_match(whole)), whole)


def test_compressed_and_plain_responses_have_different_etags(carol: Person) -> None:
    for number in range(30):
        carol.car(f"A car with a long enough name, {number}")
    packed, plain = (carol.get("/cars", headers={"Accept-Encoding": coding}) for coding in ("gzip", "identity"))
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == f'{plain.headers["etag"][:-1]}-gzip"'
    for coding in ("gzip", "identity"):
        for answer in (packed, plain):
            again = carol.get("/cars", headers={"Accept-Encoding": coding, "If-None-Match": answer.headers["etag"]})
            unchanged(again, answer.headers["etag"])
            assert again.headers["vary"] == "Accept-Encoding"
            assert carol.get("/cars", **match(answer.headers["etag"])).status_code == 200


def test_a_similar_etag_does_not_match(carol: Person) -> None:
    carol.car()
    for path in ("/cars", "/cars?$orderby=brand"):
        whole = carol.get(path)
        tag = whole.headers["etag"]
        for other in (tag.replace("-", "-0"), tag.upper(), tag.replace('"', '" ', 1), f'{tag[:-1]}-gzip-gzip"'):
            answer = carol.get(path, **none_match(other))
            if other != tag:
                assert (answer.status_code, answer.content) == (200, whole.content), other


def test_the_total_count_is_part_of_the_etag(carol: Person) -> None:
    carol.car("Only one")
    path = "/cars?$top=1&$count=true"
    tag = tag_of(carol, path)
    again = carol.get(path, **none_match(tag))
    unchanged(again, tag)
    assert again.headers["x-total-count"] == "1"
    carol.car("Another")
    page = carol.get(path, **none_match(tag))
    assert (page.status_code, page.headers["x-total-count"]) == (200, "2")
    nothing = "/cars?$top=0&$count=true"
    before = tag_of(carol, nothing)
    carol.car("And another")
    assert carol.get(nothing, **none_match(before)).headers["x-total-count"] == "3"
    assert carol.get(nothing, **none_match(before)).status_code == 200


def test_etags_of_lists_use_more_than_four_bytes_of_hash(carol: Person, sql: Sql) -> None:
    """PostgreSQL hashes four of the eight bytes of a number. Names with equal four bytes are quick to find."""
    car = carol.car()
    alike = sql.value(
        "with v as (select n, "
        + CAR.version_sql("c")
        + " as version from generate_series(1, 300000) n, lateral (select"
        " $1::integer as car_id, 'C' || n as name, null::text as description, null::text as vin,"
        " null::text as license_plate, null::text as brand, null::text as model, null::text as external_id,"
        " null::jsonb as metadata) c)"
        " select array_agg('C' || n) from v group by hashint8extended(version, 0) having count(*) > 1 limit 1",
        car,
    )
    tags: set[str] = set()
    for other in alike:
        carol.patch(f"/cars/{car}", [{"op": "replace", "path": "/name", "value": other}])
        tags |= {tag_of(carol, path) for path in ("/cars", "/cars?$count=true", "/cars?$expand=products")}
    assert len(tags) == 3 * len(alike)


def test_the_etag_of_a_webhook_depends_on_its_secret(carol: Person) -> None:
    made = carol.put("/webhooks", {"url": "https://example.org/s", "secret": "a" * 32}).json()
    path = f"/webhooks/{made['id']}"
    seen = tag_of(carol, path)
    secrets = [[{"op": "replace", "path": "/secret", "value": letter * 32}] for letter in "bcd"]
    answers = [carol.patch(path, patch, **match(seen)).status_code for patch in secrets]
    assert answers == [204, 412, 412]
    seen = tag_of(carol, path)
    assert carol.post(f"{path}/rotate-secret").status_code == 200
    assert carol.delete(path, **match(seen)).status_code == 412


@pytest.mark.parametrize(
    "path",
    [
        "/cars?$compute=products/$count as n&$select=name,n",
        "/cars?$expand=products/$count",
        "/cars?$filter=products/any()",
        "/products?$apply=groupby((car/name),aggregate($count as n))",
    ],
)
def test_the_etag_depends_on_related_rows(carol: Person, path: str) -> None:
    car = carol.car("Somewhere")
    before = tag_of(carol, path)
    unchanged(carol.get(path, **none_match(before)), before)
    carol.box_in(car)
    after = carol.get(path, **none_match(before))
    assert after.status_code == 200 and after.headers["etag"] != before


def test_a_304_of_a_page_has_its_link(carol: Person, sql: Sql) -> None:
    car = carol.car()
    event = carol.event(car, carol.user())
    path = f"/cars/{car}/events"
    first = tag_of(carol, path)
    sql.execute(
        "insert into event (customer_id, event_id, user_id, car_id, local_at, local_text, utc_at, type, user_agent)"
        " select customer_id, event_id + n, user_id, car_id, local_at, local_text, utc_at, type, user_agent"
        " from event, generate_series(1, 1000) n where customer_id = $1 and event_id = $2",
        carol.customer,
        event,
    )
    page = carol.get(path, **none_match(first))
    assert (page.status_code, len(page.json())) == (200, 1000)
    again = carol.get(path, **none_match(page.headers["etag"]))
    unchanged(again, page.headers["etag"])
    assert again.headers["link"] == page.headers["link"]


def test_an_empty_list_has_an_etag_unless_it_is_a_404(carol: Person) -> None:
    group, car = carol.group(), carol.car()
    tag = tag_of(carol, f"/groups/{group}/products")
    unchanged(carol.get(f"/groups/{group}/products", **none_match(tag)), tag)
    assert carol.get(f"/cars/{car}/products", **none_match(tag)).status_code == 404
    assert carol.get(f"/cars/{car}/products", **none_match("*")).status_code == 404


def test_expanded_rows_are_part_of_the_etag(carol: Person) -> None:
    car = carol.car()
    group = carol.group("Before")
    carol.put(f"/groups/{group}/cars", {"carId": car})
    for path in (f"/cars/{car}?$expand=groups", "/cars?$expand=groups", "/cars?$select=id&$expand=groups"):
        tag = tag_of(carol, path)
        assert tag != tag_of(carol, path.split("?")[0])
        unchanged(carol.get(path, **none_match(tag)), tag)
        carol.patch(f"/groups/{group}", [{"op": "replace", "path": "/name", "value": str(uuid.uuid4())}])
        assert carol.get(path, **none_match(tag)).status_code == 200


def test_lists_in_chunks_or_from_a_file_have_no_etag(dsn: str, settings: Any, sql: Sql) -> None:
    small = settings.model_copy(update={"list_chunk_rows": 5})
    with RunningServer(small, dsn, worker=False) as server:
        person = Town(sql, server).person("dora")
        for number in range(5):
            person.car(f"C{number}")
        tag = tag_of(person, "/cars")
        unchanged(person.get("/cars", **none_match(tag)), tag)
        person.car("One too many")
        for path in ("/cars", "/cars?$orderby=brand"):
            for method in ("GET", "HEAD"):
                answer = person.call(method, path, **none_match(tag))
                assert answer.status_code == 200
                assert "etag" not in answer.headers
                assert answer.headers["cache-control"] == "private, no-cache"
                assert person.call(method, path, **none_match("*")).status_code == 304
                assert person.call(method, path, **match(tag)).status_code == 412
            assert len(person.get(path, **none_match(tag)).json()) == 6
        person.client.close()


def test_the_database_does_not_build_an_unchanged_list(alice: Person, sql: Sql) -> None:
    """PostgreSQL does not run the part of the statement that builds JSON.

    EXPLAIN shows it.
    """
    alice.car()
    query = odata.query(CAR, b"", odata.Shape.COLLECTION, alias="t", limits=odata.Limits())
    statement = Select(CAR).statement(query.sql, has_versions=True)

    def version_and_loops(known: list[int]) -> tuple[int, int]:
        values = statement.arguments(customer=alice.customer, rows=1000, size=10_000, versions=known)
        version = sql.rows(statement.sql, *values)[0]["version"]
        explained = sql.value("explain (analyze, format json) " + statement.sql, *values)
        found: list[dict[str, Any]] = []

        def walk(node: dict[str, Any]) -> None:
            found.append(node)
            for child in node.get("Plans", ()):
                walk(child)

        walk(json.loads(explained)[0]["Plan"])
        (body,) = [node for node in found if node.get("Parent Relationship") == "SubPlan" or node.get("Subplan Name")]
        return version, body["Actual Loops"]

    version, loops = version_and_loops([0])
    assert loops == 1
    assert version_and_loops([0, version]) == (version, 0)


# Documents


@over(DOCUMENTS)
@pytest.mark.usefixtures("catalogue")
def test_documents_have_an_etag_of_their_bytes(endpoint: Endpoint, server: RunningServer, sql: Sql) -> None:
    form = sql.value("select max(key_form_id) from key_form where name = 'Tagged'")
    url = server.url + endpoint.path.format(keyFormId=form)
    with http_client(headers={"Accept-Encoding": "identity"}) as anyone:
        answer = anyone.get(url)
        tag = answer.headers["etag"]
        assert answer.status_code == 200
        kept = "no-cache" if endpoint.path == "/" else "public, max-age="
        assert answer.headers["cache-control"].startswith(kept)
        unchanged(anyone.get(url, **none_match(tag)), tag)
        unchanged(anyone.head(url, **none_match("*")), tag)
        assert anyone.get(url, **none_match(OTHER)).content == answer.content


@each(OF_APPS)
def test_apps_get_304_for_unchanged_responses(endpoint: Endpoint, carol: Person) -> None:
    kim = driver(carol)
    app = replace(carol, headers={"Authorization": f"Bearer {kim.token}"})
    path = endpoint.path + (f"?device={kim.id}" if endpoint.query_parameters else "")
    tag = tag_of(app, path)
    for method in ("GET", "HEAD"):
        unchanged(app.call(method, path, **none_match(tag)), tag)
    refused(app.get(path, **match(OTHER)), 412, CHANGED)
    kim.register("Another name") if endpoint.path == "/sdk/devices" else garage(carol)
    assert (app.get(path, **none_match(tag)).status_code, tag_of(app, path) != tag) == (200, True)


@each([endpoint for endpoint in ALL if endpoint.path.startswith("/boxes/") and endpoint.has_etag])
def test_unchanged_boxes_get_304(endpoint: Endpoint, carol: Person) -> None:
    _, box = garage(carol)
    path = endpoint.path.format(productId=box.product)
    tag = tag_of(carol, path)
    unchanged(carol.get(path, **none_match(tag)), tag)
    box.key = PrivateKey.generate()
    box.reset()
    box.enrol(carol)
    confirm(carol, box)
    assert carol.get(path, **none_match(tag)).status_code == 200


def test_a_status_list_has_an_etag_in_each_form(carol: Person) -> None:
    _, box = garage(carol)
    path, form = f"/boxes/{box.product}/status", {"Accept": "application/statuslist+cwt"}
    bare = carol.get(path, headers=form)
    assert (bare.status_code, bare.headers["content-type"]) == (200, form["Accept"])
    assert bare.headers["etag"] != tag_of(carol, path)
    unchanged(carol.get(path, headers=form | {"If-None-Match": bare.headers["etag"]}), bare.headers["etag"])


def test_only_momentary_responses_have_no_etag() -> None:
    untagged = {name(endpoint) for endpoint in ALL if endpoint.method == "GET" and not endpoint.has_etag}
    health = {"GET /health", "GET /health/live", "GET /health/ready"}
    of_drivers = {name(endpoint) for endpoint in ALL if isinstance(endpoint.auth, DriverAuth | DrivePageAuth)}
    others = {"GET /driver-settings", "GET /drive/api/settings", "GET /users/{userId}/app-access"}
    others |= {"GET /booking-settings", "GET /cars/{carId}/booking-settings", "GET /webhooks/{webhookId}/messages"}
    assert untagged - of_drivers == {*health, *others, "GET /live", "GET /boxes/{productId}/provisioning"}
    assert {name(endpoint) for endpoint in PUBLIC} - {name(endpoint) for endpoint in DOCUMENTS} == {
        *health,
        "GET /drive/api/settings",
    }


# If-Match


def test_writes_with_a_single_read_honour_if_match() -> None:
    """Every PATCH and DELETE of a path with a single read names its resource. No other write names one."""
    of_path = {row.path: row.read.select.resource for row in SINGLE if row.read is not None}
    wanted = {name(row): of_path[row.path] for row in WRITES if row.path in of_path}
    assert {name(row): row.concurrency.if_match for row in COMPARING} == wanted
    assert set(wanted) == {
        f"{method} {path}"
        for method in ("PATCH", "DELETE")
        for path in (
            "/cars/{carId}",
            "/assignments/{assignmentId}",
            "/groups/{groupId}",
            "/webhooks/{webhookId}",
            "/managers/{managerId}",
            "/clients/{clientId}",
        )
    } | {"PATCH /users/{userId}", "PATCH /products/{productId}"}
    assert {name(row) for row in COMPARING if row.concurrency.serialized == "with-if-match"} == {
        "PATCH /assignments/{assignmentId}",
        "DELETE /assignments/{assignmentId}",
    }


class Change:
    """A PATCH or DELETE of an existing row."""

    def __init__(self, endpoint: Endpoint, person: Person) -> None:
        self.endpoint, self.person = endpoint, person
        self.ids = world(endpoint, person)
        self.path = endpoint.path.format(**self.ids)

    def send(self, tag: str | None, *, ids: Ids | None = None, person: Person | None = None) -> httpx.Response:
        asking = person or self.person
        headers = {} if tag is None else {"If-Match": tag}
        return ask(
            Person(**{**vars(asking), "headers": asking.headers | headers}), self.endpoint, self.ids | (ids or {})
        )


@each(COMPARING)
@pytest.mark.parametrize("form", ['"{}"', '"0000aa-1", "{}" ,', '"{}-gzip"', "*"])
def test_a_write_with_the_current_etag_succeeds(endpoint: Endpoint, form: str, carol: Person) -> None:
    change = Change(endpoint, carol)
    answer = change.send(form.format(tag_of(carol, change.path).strip('"')))
    assert answer.status_code == endpoint.responses.status == 204, answer.text


@each(COMPARING)
def test_a_write_with_a_stale_etag_gets_412(endpoint: Endpoint, carol: Person) -> None:
    change = Change(endpoint, carol)
    seen = tag_of(carol, change.path)
    CHANGES[name(endpoint).replace(endpoint.method, "GET")](carol, change.ids)
    now = carol.get(change.path)
    for tag in (seen, OTHER, f"W/{now.headers['etag']}", f"{seen}, {OTHER}", '"*"', '"x"', '""'):
        refused(change.send(tag), 412, CHANGED)
    assert carol.get(change.path).content == now.content
    assert change.send(now.headers["etag"]).status_code == 204
    again = change.send(now.headers["etag"])
    refused(again, *((412, CHANGED) if endpoint.method == "PATCH" else (404, carol.get(change.path).text)))


PATCHED: Mapping[str, Any] = {
    "/cars/{carId}": [{"op": "replace", "path": "/vin", "value": "Other"}],
    "/groups/{groupId}": [{"op": "replace", "path": "/name", "value": "Yet another"}],
    "/webhooks/{webhookId}": [{"op": "replace", "path": "/kinds", "value": ["assignment.created"]}],
}


@over(COMPARING)
def test_an_unknown_row_gets_404_with_any_if_match(endpoint: Endpoint, alice: Person, bob: Person) -> None:
    change = Change(endpoint, alice)
    slot = endpoint.parameters[0]
    for tag in ("*", OTHER, tag_of(alice, change.path)):
        for id in (change.ids[slot], 2147483647, 0):
            ids = Change(endpoint, bob).ids | {slot: id}
            plain = change.send(None, ids=ids, person=bob)
            answer = change.send(tag, ids=ids, person=bob)
            assert plain.status_code == 404
            refused(answer, 404, plain.text)


@over(COMPARING)
def test_a_malformed_if_match_gets_400(endpoint: Endpoint, alice: Person) -> None:
    change = Change(endpoint, alice)
    before = alice.get(change.path).content
    for header in (tag_of(alice, change.path).strip('"'), '"', "", "W/", "*, *", 'w/"x"', '"a" "b"', ","):
        refused(change.send(header), 400, INVALID)
    assert alice.get(change.path).content == before


@over(
    [
        endpoint
        for endpoint in WRITES
        if endpoint.concurrency.if_match is None and not isinstance(endpoint.auth, DeviceAuth)
    ]
)
def test_if_match_on_a_write_without_an_etag_gets_412(endpoint: Endpoint, alice: Person) -> None:
    for tag in ("*", OTHER):
        refused(called(endpoint, alice, **match(tag)), 412, NOTHING_TO_COMPARE)
    if endpoint.auth.has_token or isinstance(endpoint.auth, AppAuth):
        answer = called(endpoint, alice, headers={"If-Match": "*", "Authorization": "Bearer x"})
        assert answer.status_code == 401


@over([endpoint for endpoint in WRITES if not isinstance(endpoint.auth, DeviceAuth)])
def test_if_none_match_on_a_write_gets_412(endpoint: Endpoint, alice: Person) -> None:
    refused(called(endpoint, alice, **none_match("*")), 412, ONLY_FOR_READS)


@each([endpoint for endpoint in WRITES if isinstance(endpoint.auth, DeviceAuth)])
def test_conditional_headers_on_a_delivery_get_412(endpoint: Endpoint, carol: Person) -> None:
    key = {"Device-Key": unit_of(carol).key}
    refused(carol.post(endpoint.path, [], headers={**key, "If-Match": "*"}), 412, NOTHING_TO_COMPARE)
    refused(carol.post(endpoint.path, [], headers={**key, "If-None-Match": "*"}), 412, ONLY_FOR_READS)
    assert carol.post(endpoint.path, [], headers=key).status_code == 200


def test_a_creation_with_a_failed_condition_creates_nothing(carol: Person) -> None:
    refused(carol.put("/cars", {"name": "New"}, **match("*")), 412, NOTHING_TO_COMPARE)
    refused(carol.put("/cars", {"name": "New"}, **none_match("*")), 412, ONLY_FOR_READS)
    assert carol.get("/cars").json() == []


def test_a_condition_is_checked_before_a_conflict(carol: Person) -> None:
    group, other, car = carol.group("One"), carol.group("Other"), carol.car()
    carol.put(f"/groups/{group}/cars", {"carId": car})
    to_other = [{"op": "replace", "path": "/name", "value": "Other"}]
    tag = tag_of(carol, f"/groups/{group}")
    assert carol.patch(f"/groups/{group}", to_other, **match(OTHER)).status_code == 412
    assert carol.patch(f"/groups/{group}", to_other, **match(tag)).status_code == 409
    assert carol.delete(f"/groups/{group}", **match(OTHER)).status_code == 412
    assert carol.delete(f"/groups/{group}", **match(tag)).status_code == 409
    assert carol.get(f"/groups/{group}").json()["name"] == "One"
    assert carol.delete(f"/groups/{other}", **match(tag_of(carol, f"/groups/{other}"))).status_code == 204


def test_reads_do_not_share_etags(carol: Person) -> None:
    car = carol.car_with_box()
    user = carol.user()
    assignment = carol.assignment(car, user)
    steps = [{"op": "replace", "path": "/end", "value": "2027-01-01T00:00:00Z"}]
    for path in (
        f"/assignments/{assignment}?$expand=car", f"/users/{user}/assignments", f"/cars/{car}/assignments",
        f"/cars/{car}",
    ):  # fmt: skip
        answer = carol.patch(f"/assignments/{assignment}", steps, **match(tag_of(carol, path)))
        refused(answer, 412, CHANGED)
    selected = tag_of(carol, f"/assignments/{assignment}?$select=id")
    assert carol.patch(f"/assignments/{assignment}", steps, **match(selected)).status_code == 204


@pytest.mark.parametrize("path", PATCHED)
def test_a_change_returns_the_new_etag(path: str, carol: Person) -> None:
    (endpoint,) = [row for row in COMPARING if row.method == "PATCH" and row.path == path]
    change = Change(endpoint, carol)
    before = tag_of(carol, change.path)
    first = carol.patch(change.path, PATCHED[path], **match(before))
    assert first.status_code == 204
    assert first.headers["etag"] == tag_of(carol, change.path) != before
    (member,) = PATCHES[name(endpoint)]
    steps = [{"op": "replace", "path": f"/{member}", "value": PATCHES[name(endpoint)][member]}]
    second = carol.patch(change.path, steps, **match(first.headers["etag"]))
    assert second.headers["etag"] == tag_of(carol, change.path)


@pytest.mark.parametrize("path", [*PATCHED, "/assignments/{assignmentId}"])
def test_the_condition_applies_to_the_row_before_the_write(path: str, carol: Person) -> None:
    (endpoint,) = [row for row in COMPARING if row.method == "PATCH" and row.path == path]
    change = Change(endpoint, carol)
    steps = PATCHED.get(path) or [{"op": "replace", "path": "/end", "value": "2027-01-01T00:00:00Z"}]
    headers = {"Prefer": "return=representation"}
    refused(carol.patch(change.path, steps, headers={**headers, "If-Match": OTHER}), 412, CHANGED)
    before = tag_of(carol, change.path)
    answer = carol.patch(change.path, steps, headers={**headers, "If-Match": before})
    assert answer.status_code == endpoint.representation_status, answer.text
    if endpoint.concurrency.serialized != "with-if-match":
        assert answer.headers["etag"] == tag_of(carol, change.path) != before
    else:
        assert (answer.json()["state"], tag_of(carol, change.path) != before) == ("Succeeded", True)


def test_a_conditional_request_with_a_key_is_replayed(carol: Person) -> None:
    car = carol.car("Before")
    tag = tag_of(carol, f"/cars/{car}")
    steps = [{"op": "replace", "path": "/name", "value": "After"}]
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first, second = (carol.patch(f"/cars/{car}", steps, headers={"If-Match": tag, **key}) for _ in range(2))
    assert (first.status_code, second.status_code) == (204, 204)
    assert second.headers["idempotency-replayed"] == "true"
    assert second.headers["etag"] == first.headers["etag"]
    for other in ({}, {"If-Match": first.headers["etag"]}, {"If-Match": "*"}, {"If-Match": f"W/{tag}"}):
        assert carol.patch(f"/cars/{car}", steps, headers={**other, **key}).status_code == 422
    key = {"Idempotency-Key": str(uuid.uuid4())}
    stale = [carol.patch(f"/cars/{car}", steps, headers={"If-Match": tag, **key}) for _ in range(2)]
    assert [answer.status_code for answer in stale] == [412, 412]
    assert stale[1].headers["idempotency-replayed"] == "true"


def test_a_conditional_request_for_an_assignment_with_a_key_is_replayed(carol: Person) -> None:
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    path = f"/assignments/{assignment}"
    headers = {"If-Match": tag_of(carol, path), "Idempotency-Key": str(uuid.uuid4())}
    first, second = (carol.delete(path, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code) == (204, 204)
    assert first.headers["operation-id"] == second.headers["operation-id"]
    assert carol.get(f"/operations/{first.headers['operation-id']}").json()["state"] == "Succeeded"


def test_pending_changes_of_an_assignment_are_applied_before_the_comparison(carol: Person) -> None:
    """Without a worker, the first change is pending when the second request arrives.

    It is applied before the comparison.
    """
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    path = f"/assignments/{assignment}"
    tag = tag_of(carol, path)
    with nobody_works(carol):
        first = carol.patch(path, [{"op": "replace", "path": "/end", "value": "2027-01-01T00:00:00Z"}])
        assert (first.status_code, tag_of(carol, path)) == (204, tag)
        refused(carol.delete(path, **match(tag)), 412, CHANGED)
        now = carol.get(path)
        assert now.json()["end"] == "2027-01-01T00:00:00Z"
        last = carol.delete(path, **match(now.headers["etag"]))
        assert last.status_code == 204
        refused(carol.delete(path, **match(now.headers["etag"])), 404, carol.get(path).text)
    operation = carol.get(f"/operations/{last.headers['operation-id']}").json()
    assert (operation["state"], operation["applied"]) == ("Succeeded", 3)


def test_an_assignment_request_without_an_etag_stays_pending(carol: Person) -> None:
    assignment = carol.assignment(carol.car_with_box(), carol.user())
    path = f"/assignments/{assignment}"
    with nobody_works(carol):
        for options in ({}, match("*")):
            answer = carol.patch(path, [{"op": "replace", "path": "/end", "value": "2027-01-01T00:00:00Z"}], **options)
            assert answer.status_code == 204
            operation = carol.get(f"/operations/{answer.headers['operation-id']}").json()
            assert operation["state"] == "Pending"
