"""The demo fleet: its rows, the drawings of its catalogue, and its credentials."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest

from keyrack.api.permissions import closed
from keyrack.core import secret_hashes
from keyrack.core.errors import Conflict
from keyrack.core.settings import Settings
from keyrack.db.audit_context import acting, operator
from keyrack.db.connection import Database
from keyrack.simulator import demo
from keyrack.simulator.demo.catalogue import CATALOGUE, entries
from keyrack.simulator.demo.drawings import BUTTONS, KeyDrawing, draw, shade
from tests.support.people import http_client
from tests.support.servers import RunningServer, Sql, migrated_database

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def own_dsn(database_server: str) -> Iterator[str]:
    """A separate database, because other tests would see these customers and brands."""
    with migrated_database(database_server) as address:
        yield address


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


def prepare(dsn: str, state: Path, url: str = "http://127.0.0.1:8080") -> dict[str, str]:
    async def run() -> dict[str, str]:
        acting.set(operator())
        settings = Settings(state=state, public_url=url)
        database = await Database.connect(dsn, settings)
        try:
            return await demo.prepare(database, settings)
        finally:
            await database.close()

    return asyncio.run(run())


@pytest.fixture(scope="module")
def env(own_dsn: str, state: Path) -> dict[str, str]:
    return prepare(own_dsn, state)


@pytest.fixture(scope="module")
def rows(own_dsn: str, env: dict[str, str]) -> Iterator[Sql]:
    statements = Sql(own_dsn)
    yield statements
    statements.close()


@pytest.fixture(scope="module")
def demo_server(own_dsn: str, env: dict[str, str], settings: Settings) -> Iterator[RunningServer]:
    with RunningServer(settings, own_dsn) as running:
        yield running


@pytest.fixture(scope="module")
def client(demo_server: RunningServer, env: dict[str, str]) -> Iterator[httpx.Client]:
    with http_client(base_url=demo_server.url + "/v3", headers={"vendor-API-Key": env["KEYRACK_API_KEY"]}) as client:
        form = {"grant_type": "password", "username": env["KEYRACK_USERNAME"], "password": env["KEYRACK_PASSWORD"]}
        answer = client.post("/oauth2/token", data=form)
        assert answer.status_code == 200, answer.text
        client.headers["Authorization"] = "Bearer " + answer.json()["access_token"]
        client.headers["Customer-ID"] = env["KEYRACK_CUSTOMER_ID"]
        yield client


def get(client: httpx.Client, path: str, **headers: str) -> Any:
    answer = client.get(path, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_machine_client_has_the_scopes_that_documents_need(
    client: httpx.Client, demo_server: RunningServer, env: dict[str, str]
) -> None:
    key = {"vendor-API-Key": env["KEYRACK_API_KEY"]}
    with http_client(base_url=demo_server.url + "/v3", headers=key) as program:
        answer = program.post(
            "/oauth2/token", data={"grant_type": "client_credentials"},
            auth=(env["KEYRACK_CLIENT_ID"], env["KEYRACK_CLIENT_SECRET"]),
        )  # fmt: skip
        assert set(answer.json()["scope"].split()) == {*map(str, closed(demo.SCOPES))}
        program.headers["Authorization"] = "Bearer " + answer.json()["access_token"]
        assert [row["name"] for row in get(program, "/customers")] == ["Harbour Car Sharing"]
        program.headers["Customer-ID"] = env["KEYRACK_CUSTOMER_ID"]
        assert len(get(program, "/cars")) == 25
        assert {program.get(path).status_code for path in ("/managers", "/clients")} == {403}
    assert [row["name"] for row in get(client, "/clients")] == [demo.KEY_NAME], "its owner sees and manages it"


def test_two_customers_share_a_manager_and_a_driver(client: httpx.Client) -> None:
    customers = get(client, "/customers")
    assert [customer["name"] for customer in customers] == ["Harbour Car Sharing", "Alpine Home Care"]
    first, second = ({"Customer-ID": customer["id"]} for customer in customers)
    assert (len(get(client, "/cars", **first)), len(get(client, "/cars", **second))) == (25, 8)
    users = [{user["emailAddress"] for user in get(client, "/users", **which)} for which in (first, second)]
    assert len(users[0] | users[1]) == 16 and len(users[0] & users[1]) == 1
    assert all(address.endswith("@example.org") for address in users[0] | users[1])


def test_the_demo_has_rows_of_every_kind(client: httpx.Client, rows: Sql) -> None:
    products = get(client, "/products")
    assert {product["type"] for product in products} >= {"vendor Box"}
    services = get(client, "/services")
    assert any(service["isTerminated"] for service in services)
    assert any(service["productId"] is None for service in services)
    for service in services:
        status = client.get(f"/services/{service['id']}/contracts").status_code
        assert status == (200 if service["productId"] else 404)
    groups = get(client, "/groups")
    assert {len(get(client, f"/groups/{group['id']}/cars")) for group in groups} >= {0, 5, 6}
    installed = "select count(*) from product where kind = $1 and car_id is not null"
    assert rows.value(installed, "Box") > 20 and rows.value(installed, "IQ") > 10
    spare = rows.rows("select serial_number from product where car_id is null and customer_id = 1")
    assert {row[0] for row in spare} == {"SPARE-BOX-1", "SPARE-BOX-2", "SPARE-BOX-3", "SPARE-IQ-1"}
    without_box = "select count(*) from car c where not exists (select from product p where p.car_id = c.car_id)"
    assert rows.value(without_box) >= 3


def test_assignments_are_past_current_coming_and_unlimited(rows: Sql) -> None:
    kinds = rows.rows(
        "select case when ends_at is null then 'unlimited' when ends_at < now() then 'past'"
        " when starts_at > now() then 'coming' else 'current' end as kind, count(*) from assignment group by 1"
    )
    assert {row["kind"] for row in kinds} == {"past", "current", "coming", "unlimited"}
    assert all(row["count"] >= 5 for row in kinds)


def test_only_cars_with_a_working_box_are_assigned(rows: Sql) -> None:
    assert not rows.rows(
        "select a.car_id from assignment a left join product p on p.car_id = a.car_id and p.kind = 'Box'"
        " left join service s on s.product_id = p.product_id where s.service_id is null or s.is_terminated"
    )


def test_events_have_consecutive_numbers(client: httpx.Client, rows: Sql) -> None:
    for row in rows.rows("select customer_id, last_id from event_counter"):
        ids = rows.rows("select event_id from event where customer_id = $1 order by utc_at, event_id", row[0])
        assert [id[0] for id in ids] == list(range(1, row["last_id"] + 1))
    assert rows.value("select count(*) from event") == 300
    event = get(client, "/events/1")
    assert datetime.fromisoformat(event["utcDateTime"]) + timedelta(hours=1) == datetime.fromisoformat(
        event["dateTime"]
    ).replace(tzinfo=UTC)
    body = {
        "carId": event["carId"], "userId": event["userId"], "type": "CarOpened", "userAgent": "tests",
        "dateTime": "2026-11-01T10:00:00", "utcDateTime": "2026-11-01T09:00:00Z",
    }  # fmt: skip
    assert client.put("/events", json=body).json() == {"id": 241}


def test_an_iq_car_has_positions_and_telemetry(client: httpx.Client, rows: Sql) -> None:
    car = rows.value("select min(car_id) from product where kind = 'IQ' and customer_id = 1")
    location = get(client, f"/cars/{car}/location")
    assert location["latitude"].startswith("53.") and location["date"]
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"
    assert get(client, f"/cars/{car}/location/{yesterday}")["odometer"] != location["odometer"]
    telemetry = get(client, f"/cars/{car}/telemetry")
    assert telemetry["fuelLevelPercent"] > 0 and telemetry["deviceSerialNumber"].startswith("IQ01")
    week = {
        "fields": "fuelLevelPercent,batteryVoltage", "points": 14,
        "from": f"{datetime.now(UTC) - timedelta(days=7):%Y-%m-%dT%H:%M:%SZ}",
        "to": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    }  # fmt: skip
    answer = client.get(f"/cars/{car}/samples", params=week)
    assert {name: len(rows) for name, rows in answer.json()["series"].items()} == {
        "fuelLevelPercent": 14, "batteryVoltage": 14,
    }  # fmt: skip


def test_the_catalogue_is_served_with_its_drawings(client: httpx.Client) -> None:
    brands = get(client, "/brands")
    assert set(brands) == set(CATALOGUE) and len(brands) >= 30
    for brand in ("Citroën", "Tesla", "volkswagen"):
        for key in get(client, f"/brands/{brand}/keys"):
            picture = client.get(key["keyForm"]["imageUrl"])
            assert picture.headers["Content-Type"] == "image/svg+xml"
            assert f"<title>{key['keyForm']['name']}</title>" in picture.text


def test_the_sdk_key_gets_a_token(client: httpx.Client, env: dict[str, str]) -> None:
    user = get(client, "/users")[0]["id"]
    body = {"customerId": int(env["KEYRACK_CUSTOMER_ID"]), "sdkKey": env["KEYRACK_SDK_KEY"], "userId": user}
    assert client.post("/sdk/token", json=body).status_code == 200


def test_every_drawing_is_small_and_unique() -> None:
    rows = list(entries())
    assert len({row.form for row in rows}) == len(rows)
    for row in rows:
        svg = draw(row.key, row.form)
        assert len(svg) < 8_000
        root = ElementTree.fromstring(svg)  # noqa: S314 - our own
        assert root.tag == f"{SVG}svg" and root.get("viewBox") == "0 0 480 240"
        ids = {element.get("id") for element in root.iter() if element.get("id")}
        used = {value[5:-1] for e in root.iter() for value in e.attrib.values() if value.startswith("url(#")}
        assert used <= ids
    assert len({draw(row.key, "") for row in rows}) > 80


def test_a_button_has_one_icon() -> None:
    bare = draw(KeyDrawing("smart", 0), "").count("<path")
    for count in BUTTONS:
        assert draw(KeyDrawing("smart", count), "").count("<path") - bare == count
    assert "a &amp; &lt;b&gt;" in draw(KeyDrawing("nfc"), "a & <b>")
    assert (shade("#808080", 1), shade("#808080", -1), shade("#808080", 0)) == ("#ffffff", "#000000", "#808080")


# Credentials. These tests are last, because they change them


def test_demo_env_is_private_and_readable_by_a_shell(env: dict[str, str], state: Path) -> None:
    path = state / "demo.env"
    assert path.stat().st_mode & 0o777 == 0o600
    assert tuple(env) == demo.NAMES == tuple(demo.read_env(path))
    assert env["KEYRACK_URL"] == "http://127.0.0.1:8080/v3"
    shell = subprocess.run(["sh", "-c", f". {path}; env"], capture_output=True, text=True, check=True)
    assert set(shell.stdout.splitlines()) >= {f"{name}={value}" for name, value in env.items()}


def test_values_with_shell_characters_are_quoted(tmp_path: Path) -> None:
    credentials = demo.DemoCredentials("a'b", "demo", '$(date) "x" `y`', 7, "-k")
    written = demo.write_env(tmp_path / "demo.env", "http://h/v3", credentials, 7)
    assert demo.read_env(tmp_path / "demo.env") == written
    shell = ["sh", "-c", f'. {tmp_path}/demo.env; printf %s "$KEYRACK_PASSWORD"']
    assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == credentials.password


def test_a_restart_changes_only_the_address(own_dsn: str, env: dict[str, str], state: Path, rows: Sql) -> None:
    before = rows.value("select count(*) from car")
    again = prepare(own_dsn, state, "http://127.0.0.1:9000")
    assert again == env | {"KEYRACK_URL": "http://127.0.0.1:9000/v3"} == demo.read_env(state / "demo.env")
    assert rows.value("select count(*) from car") == before


def test_each_start_renews_the_cars_of_the_driver(own_dsn: str, env: dict[str, str], state: Path, rows: Sql) -> None:
    """The driver may have ended the booking."""
    cars = (
        "select c.name, a.starts_at <= now() as is_now, a.ends_at > now() + interval '6 days' as is_long"
        " from assignment a join car c using (customer_id, car_id) join person p using (user_id)"
        " where p.email_address = $1 and a.ends_at > now() order by a.starts_at"
    )
    email = env["KEYRACK_DRIVER_EMAIL"]
    for left in ("7 days", "1 hour", "0"):
        rows.execute(
            "update assignment set ends_at = now() + $2::text::interval where starts_at <= now() and ends_at > now()"
            " and user_id = (select user_id from person where email_address = $1)", email, left,
        )  # fmt: skip
        prepare(own_dsn, state)
        assert [tuple(row) for row in rows.rows(cars, email)] == [
            ("Pool car 5", True, True), ("Pool car 6", False, False),
        ]  # fmt: skip


@pytest.mark.parametrize("lost", ["the file", "the key", "what the device key opens", "the client"])
def test_lost_credentials_are_replaced(own_dsn: str, env: dict[str, str], state: Path, rows: Sql, lost: str) -> None:
    if lost == "the file":
        (state / "demo.env").unlink()
    elif lost == "what the device key opens":  # from a release without scopes of device keys
        rows.execute("update device_key set is_gateway = false, scopes = '{}'")
        env = demo.read_env(state / "demo.env")
    elif lost == "the client":  # the file is from a release without a client
        text = (state / "demo.env").read_text()
        (state / "demo.env").write_text("".join(line for line in text.splitlines(True) if "CLIENT" not in line))
        env = demo.read_env(state / "demo.env")
    else:  # the file is from another database
        credentials = demo.DemoCredentials("another", "demo", "another", 1, "another")
        demo.write_env(state / "demo.env", env["KEYRACK_URL"], credentials, 1)
    renewed = prepare(own_dsn, state)
    assert renewed["KEYRACK_CUSTOMER_ID"] == env["KEYRACK_CUSTOMER_ID"]
    good = "select revoked_at is null from api_key where hash = $1"
    assert rows.value(good, secret_hashes.digest(env["KEYRACK_API_KEY"])) is False
    assert rows.value(good, secret_hashes.digest(renewed["KEYRACK_API_KEY"])) is True
    opens = "select is_gateway, scopes from device_key where hash = $1"
    opened = rows.rows(opens, secret_hashes.digest(renewed["KEYRACK_DEVICE_KEY"]))
    assert [tuple(row) for row in opened] == [(True, ["telemetry", "events"])]
    clients = rows.rows("select subject::text as subject, hash from client join client_secret using (client_id)")
    secret = secret_hashes.digest(renewed["KEYRACK_CLIENT_SECRET"])
    assert [tuple(row) for row in clients] == [(renewed["KEYRACK_CLIENT_ID"], secret)]
    assert rows.value("select count(*) from customer") == 2


def test_a_database_with_real_customers_is_rejected(database_server: str, state: Path) -> None:
    with migrated_database(database_server) as real:
        rows = Sql(real)
        rows.execute("insert into customer (name) values ('A real fleet')")
        with pytest.raises(Conflict, match="customers that are not the demo's"):
            prepare(real, state)
        assert rows.value("select count(*) from customer") == 1
        rows.close()
