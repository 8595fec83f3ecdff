"""The resources of both clients, against a real server."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from keyrack_client import (
    AsyncKeyrack,
    Keyrack,
    KeyrackError,
    OutcomeFailed,
    OutcomePending,
    Password,
    errors,
    operations,
    verify,
)

from tests.clients_python.support import Machine, machine_of, slot
from tests.support.people import PASSWORD, Person, nobody_works
from tests.support.servers import RunningServer


@pytest.fixture(scope="module")
def shop(alice: Person, server: RunningServer) -> Machine:
    return machine_of(alice, server.url)


@pytest.fixture
def keyrack(shop: Machine) -> Iterator[Keyrack]:
    with shop.client() as client:
        yield client


def new_user(number: object) -> dict[str, Any]:
    return {"emailAddress": f"resources.{number}@example.org", "userData": {"firstName": "Kim", "lastName": "Doe"}}


def test_a_booking(keyrack: Keyrack, shop: Machine) -> None:
    car = keyrack.cars.create(name="A 1", licensePlate="B-KR 1")["id"]
    user = keyrack.users.create(**new_user("booking"))["id"]
    box = shop.person.product()
    shop.person.service(box)
    keyrack.products.install(carId=car, productId=box)
    booked = keyrack.assignments.create(carId=car, userId=user, **slot(1))
    assert (booked["state"], booked["carId"], booked["userId"]) == ("Succeeded", car, user)
    assert booked["assignmentId"] is not None
    row = keyrack.assignments.get(booked["assignmentId"])
    assert (row["start"], row["end"]) == ("2030-05-01T13:00:00Z", "2030-05-01T14:00:00Z")
    moved = keyrack.assignments.update(row["id"], **slot(2))
    assert moved["state"] == "Succeeded"
    assert keyrack.assignments.get(row["id"])["start"] == "2030-05-01T14:00:00Z"
    keyrack.assignments.update(row["id"], end=None)
    assert keyrack.assignments.get(row["id"])["end"] is None
    assert keyrack.assignments.delete(row["id"])["state"] == "Succeeded"
    with pytest.raises(errors.AssignmentNotFound) as error:
        keyrack.assignments.get(row["id"])
    assert isinstance(error.value, errors.NotFound) and error.value.status == 404 and error.value.request_id
    assert keyrack.operations.get(booked["id"])["state"] == "Succeeded"
    assert booked["id"] in {row["id"] for row in keyrack.operations.list(size=2)}
    keyrack.products.uninstall(carId=car, productId=box)
    keyrack.users.remove(userId=user)
    keyrack.cars.delete(car)


def test_a_booking_with_asyncio(shop: Machine) -> None:
    async def book() -> None:
        async with shop.async_client() as keyrack:
            car = (await keyrack.cars.create(name="A 2"))["id"]
            user = (await keyrack.users.create(**new_user("asyncio")))["id"]
            with pytest.raises(OutcomeFailed) as failed:
                await keyrack.assignments.create(carId=car, userId=user, **slot(1))
            assert failed.value.code == "no-key-box" and failed.value.operation["carId"] == car
            box = shop.person.product()
            shop.person.service(box)
            await keyrack.products.install(carId=car, productId=box)
            booked = await keyrack.assignments.create(carId=car, userId=user, **slot(1))
            assert booked["state"] == "Succeeded"
            pending = await keyrack.assignments.delete(booked["assignmentId"] or 0, wait=None)
            assert (await keyrack.operations.wait(pending["id"], 60))["state"] == "Succeeded"
            assert await keyrack.cars.list(filter=f"id eq {car}").first() == await keyrack.cars.get(car)
            assert car in [row["id"] async for row in keyrack.cars.list(size=1)]

    asyncio.run(book())


def test_one_key_is_one_booking(keyrack: Keyrack, shop: Machine) -> None:
    car, user = shop.person.car_with_box(), shop.person.user()
    first = keyrack.assignments.create(carId=car, userId=user, key="booking-4711", **slot(1))
    assert keyrack.assignments.create(carId=car, userId=user, key="booking-4711", **slot(1)) == first
    assert len(list(keyrack.assignments.list(filter=f"carId eq {car}"))) == 1
    with pytest.raises(errors.IdempotencyKeyReused):
        keyrack.assignments.create(carId=car, userId=user, key="booking-4711", **slot(2))


def test_an_operation_that_stays_pending(keyrack: Keyrack, shop: Machine) -> None:
    car, user = shop.person.car_with_box(), shop.person.user()
    with nobody_works(shop.person), pytest.raises(OutcomePending) as error:
        keyrack.assignments.create(carId=car, userId=user, wait=0.2, **slot(1))
    assert keyrack.operations.wait(error.value.operation_id, 60)["state"] == "Succeeded"


def test_an_invalid_property_is_named(keyrack: Keyrack) -> None:
    with pytest.raises(errors.InvalidMembers) as error:
        keyrack.assignments.create(carId=1, userId=1, start="tomorrow")
    assert [fault["pointer"] for fault in error.value.errors] == ["/start"]
    assert "but is 'tomorrow'" in str(error.value)
    wrong: dict[str, Any] = {"carId": "V-1001", "userId": 1, "start": "2030-05-01T13:00:00Z"}
    with pytest.raises(errors.InvalidMembers, match="`carId` must be an integer, but is a string"):
        keyrack.assignments.create(**wrong)
    with pytest.raises(errors.UnknownMembers) as unknown:
        keyrack.assignments.create(**wrong | {"carId": 1, "ende": None})
    assert str(unknown.value).count("'ende'") == 1, "the text repeats no reason"
    assert isinstance(error.value, errors.BadRequest) and isinstance(error.value, KeyrackError)


def test_a_time_without_a_zone_is_not_sent(keyrack: Keyrack) -> None:
    with pytest.raises(TypeError, match="no time zone"):
        keyrack.assignments.create(carId=1, userId=1, start=datetime(2030, 5, 1))  # noqa: DTZ001


def test_a_misspelt_option_of_a_list_is_an_error(keyrack: Keyrack, shop: Machine) -> None:
    """Without it, a misspelt filter returns every row."""
    options: dict[str, Any] = {"filtr": "id eq 1"}
    with pytest.raises(TypeError, match=r"listCars has no option 'filtr'\. Did you mean 'filter'"):
        keyrack.cars.list(**options)
    with pytest.raises(TypeError, match="has no option 'filtr'"):
        shop.async_client().cars.list(**options)
    car = keyrack.cars.create(name="Names as one text")["id"]
    assert keyrack.cars.list(filter=f"id eq {car}", select="name,brand").first() == {
        "id": car, "name": "Names as one text", "brand": None,
    }  # fmt: skip


def test_a_resource_in_the_way_is_named(keyrack: Keyrack, shop: Machine) -> None:
    car = keyrack.cars.create(name="A", externalId="V-1001")["id"]
    with pytest.raises(errors.ExternalIdTaken) as taken:
        keyrack.cars.create(name="A", externalId="V-1001")
    assert taken.value.resource_id == car
    user = keyrack.users.create(externalId="U-1", **new_user("reference"))["id"]
    with pytest.raises(errors.ExternalIdTaken) as same_user:
        keyrack.users.create(externalId="U-1", **new_user("reference"))
    assert same_user.value.resource_id == user
    with pytest.raises(errors.EmailAddressTaken):
        keyrack.users.create(externalId="U-2", **new_user("reference"))


def test_two_people_want_the_same_slot(keyrack: Keyrack, shop: Machine) -> None:
    car, first, second = shop.person.car_with_box(), shop.person.user(), shop.person.user()
    start, end = slot(3)["start"], slot(3)["end"]
    free = keyrack.cars.available(start, end, filter=f"id eq {car}", select=["name"], size=1)
    assert [row["id"] for row in free] == [car]
    assert keyrack.call(
        operations.listAvailableCars, query={"from": start, "to": end, "$top": 1, "$count": True, "$select": "id"}
    )
    booked = keyrack.assignments.create(carId=car, userId=first, exclusive=True, **slot(3))
    with pytest.raises(errors.AssignmentConflict) as conflict:
        keyrack.assignments.create(carId=car, userId=second, exclusive=True, **slot(3))
    assert [row["assignmentId"] for row in conflict.value.conflicts] == [booked["assignmentId"]]
    assert list(keyrack.cars.available(start.isoformat(), end.isoformat(), filter=f"id eq {car}")) == []


def test_a_pull_webhook(keyrack: Keyrack, bob: Person, server: RunningServer) -> None:
    webhook = keyrack.webhooks.create(pull=True, kinds=["car.created"])
    car = keyrack.cars.create(name="Pulled")["id"]
    rows = keyrack.webhooks.messages(webhook["id"], wait=30, top=1)
    message = verify(rows[0]["headers"], rows[0]["body"].encode(), webhook["signingSecret"])
    assert (message["type"], message["data"]["resourceId"]) == ("car.created", str(car))
    assert keyrack.webhooks.messages(webhook["id"], after=rows[0]["number"]) == []
    with machine_of(bob, server.url).client() as other:
        with pytest.raises(errors.WebhookNotFound):
            other.webhooks.messages(webhook["id"])
        with pytest.raises(errors.WebhookNotFound):
            other.webhooks.acknowledge(webhook["id"], upto=rows[0]["number"])
    assert keyrack.webhooks.acknowledge(webhook["id"], upto=rows[0]["number"]) == {"count": 1}
    assert keyrack.webhooks.messages(webhook["id"]) == []
    keyrack.webhooks.delete(webhook["id"])


def test_a_list_is_read_in_pages(keyrack: Keyrack) -> None:
    ids = [keyrack.cars.create(name=f"Page {number}", description=None)["id"] for number in range(7)]
    cars = keyrack.cars.list(filter="startswith(name,'Page ') or name eq 'x'", select=["name"], size=3)
    assert [(row["id"], row["name"]) for row in cars] == [(ids[n], f"Page {n}") for n in range(7)]
    assert [row["id"] for row in cars] == ids  # again, from the beginning
    assert [row["id"] for row in cars.page(after=ids[1])] == ids[2:5]
    first = cars.first()
    assert first is not None and first["id"] == ids[0]
    assert keyrack.cars.list(filter="name eq 'none'").first() is None
    keyrack.cars.update(ids[0], name="Other", description="A note")
    assert keyrack.cars.get(ids[0])["description"] == "A note"
    keyrack.cars.update(ids[0], description=None)
    assert keyrack.cars.get(ids[0])["description"] is None


def test_free_cars_are_read_in_pages(keyrack: Keyrack, shop: Machine, bob: Person) -> None:
    ids = [shop.person.car_with_box(f"Free {number}") for number in range(4)]
    without_box = keyrack.cars.create(name="Free 4")["id"]
    bob.car_with_box("Free 5")
    keyrack.assignments.create(carId=ids[1], userId=shop.person.user(), exclusive=True, **slot(2))
    start, end = slot(2)["start"], slot(2)["end"]
    names = "startswith(name, 'Free ')"
    cars = keyrack.cars.available(start, end, filter=names, size=2)
    assert [row["id"] for row in cars] == [ids[0], ids[2], ids[3]]
    assert [row["id"] for row in cars.page(after=ids[0])] == ids[2:]
    (row,) = keyrack.cars.available("2030-05-01T13:00:00Z", start, filter=f"id eq {ids[1]}")
    assert (row["freeFrom"], row["freeUntil"]) == (None, "2030-05-01T14:00:00Z")
    assert keyrack.cars.available(slot(1)["start"], start, filter=f"id eq {ids[1]}", gap=60).first() is None
    every = keyrack.cars.available(start, end, filter=names, box="any", select=["freeUntil"])
    assert [row["id"] for row in every] == [ids[0], *ids[2:], without_box]
    with pytest.raises(errors.EmptyTimeRange):
        keyrack.cars.available(end, start).first()
    with pytest.raises(TypeError, match="no time zone"):
        keyrack.cars.available(datetime.fromisoformat("2030-05-01T00:00:00"), end).first()


def test_free_cars_with_asyncio(shop: Machine) -> None:
    car = shop.person.car_with_box("Async free")

    async def read() -> list[int]:
        async with shop.async_client() as keyrack:
            cars = keyrack.cars.available(**slot(9), filter="name eq 'Async free'", size=1)
            return [row["id"] async for row in cars]

    assert asyncio.run(read()) == [car]


def test_a_property_that_the_server_does_not_have_is_rejected(keyrack: Keyrack, shop: Machine) -> None:
    """A later package cannot lose a property at this server.

    That holds for a person as well, whose requests are read leniently.
    """
    later: Any = {"name": "Later", "colour": "red"}
    login = Password(shop.person.username, PASSWORD)
    person = Keyrack(shop.url, login=login, api_key=shop.person.api_key, customer_id=shop.person.customer)
    with person:
        for client in (keyrack, person):
            with pytest.raises(errors.BadRequest) as error:
                client.cars.create(**later)
            assert [fault["pointer"] for fault in error.value.errors] == ["/colour"]
            with pytest.raises(errors.BadRequest, match="colour"):
                client.cars.update(shop.person.car(), **later)
            (row,) = client.batch({"kind": "cars", "items": [{"op": "create", "body": later}]})["results"]
            assert row["status"] == 400
    assert keyrack.cars.list(filter="name eq 'Later'").first() is None


def test_groups_events_webhooks_and_batches(keyrack: Keyrack, shop: Machine) -> None:
    group = keyrack.groups.create(name="North")["id"]
    car, user = shop.person.car(), shop.person.user()
    keyrack.groups.add_car(group, carId=car)
    keyrack.groups.add_user(group, userId=user)
    assert [row["id"] for row in keyrack.call(operations.listCarsOfGroup, group)] == [car]
    keyrack.groups.remove_car(group, car)
    keyrack.groups.remove_user(group, user)
    keyrack.groups.update(group, name="South")
    assert keyrack.groups.get(group)["name"] == "South"
    keyrack.groups.delete(group)

    event = keyrack.events.create(
        dateTime="2026-05-01T10:00:00", utcDateTime="2026-05-01T08:00:00Z", carId=car, userId=user, userAgent="tests"
    )
    assert keyrack.events.get(event["id"])["carId"] == car

    webhook = keyrack.webhooks.create(url="https://hooks.example.org/")
    keyrack.webhooks.update(webhook["id"], enabled=False)
    assert keyrack.webhooks.get(webhook["id"])["enabled"] is False
    assert keyrack.webhooks.rotate_secret(webhook["id"])["signingSecret"] != webhook["signingSecret"]
    keyrack.webhooks.delete(webhook["id"])

    made = keyrack.batch({"kind": "cars", "items": [{"op": "create", "body": {"name": f"B {n}"}} for n in range(3)]})
    assert (made["done"], made["refused"]) == (3, 0)


def test_any_other_endpoint(keyrack: Keyrack) -> None:
    assert keyrack.request("get", "/customers").json()[0]["id"] == str(keyrack.core.customer_id)
    assert keyrack.request("GET", "/cars?$top=1&$select=id").status_code == 200
    with pytest.raises(errors.PathNotFound):
        keyrack.request("GET", "/no-such-path")
    with pytest.raises(TypeError, match="getCar needs 1 ids"):
        keyrack.call(operations.getCar)
    with pytest.raises(ValueError, match="must begin with"):
        keyrack.request("GET", "https://elsewhere.example.org/cars")


def test_another_customer_sees_nothing(keyrack: Keyrack, bob: Person, server: RunningServer) -> None:
    car = keyrack.cars.create(name="Mine")["id"]
    with machine_of(bob, server.url).client() as other, pytest.raises(errors.CarNotFound):
        other.cars.get(car)


def test_a_person_can_sign_in(shop: Machine) -> None:
    options = {"api_key": shop.person.api_key, "customer_id": shop.person.customer}
    login = Password(shop.person.username, PASSWORD)
    with Keyrack(shop.url, login=login, **options) as keyrack:
        assert keyrack.cars.list().page(size=1) is not None
    wrong = Keyrack(shop.url, login=Password(shop.person.username, "wrong"), **options)
    with wrong, pytest.raises(errors.WrongCredentials):
        wrong.cars.get(1)


def test_secrets_are_not_shown(shop: Machine) -> None:
    keyrack = shop.client()
    keyrack.cars.list().first()
    asynchronous = shop.async_client()
    token = vars(keyrack.core)["_token"]
    shown = f"{keyrack!r} {keyrack.core!r} {asynchronous!r} {Password('anna', 'secret-word')!r} {token!r}"
    assert shop.client_id in shown
    assert not [
        secret for secret in (shop.client_secret, shop.person.api_key, token.value, "secret-word") if secret in shown
    ]


def test_the_environment_is_complete(shop: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in shop.environment.items():
        monkeypatch.setenv(name, value)
    with Keyrack.from_env() as keyrack:
        assert keyrack.request("GET", "/customers").status_code == 200
    monkeypatch.delenv("KEYRACK_API_KEY")
    monkeypatch.setenv("KEYRACK_CLIENT_SECRET", "")
    with pytest.raises(ValueError, match="KEYRACK_API_KEY, KEYRACK_CLIENT_SECRET"):
        Keyrack.from_env()


def test_both_clients_have_the_same_methods() -> None:
    with Keyrack("http://x", api_key="k", client_id="i", client_secret="s") as one:
        two = AsyncKeyrack("http://x", api_key="k", client_id="i", client_secret="s")
        names = [name for name, value in vars(one).items() if type(value).__module__ == type(one).__module__]
        assert len(names) == 8
        for first, second in [(one, two), *((getattr(one, name), getattr(two, name)) for name in names)]:
            mine, theirs = (
                {name: inspect.signature(method) for name, method in inspect.getmembers(each, inspect.ismethod)}
                for each in (first, second)
            )
            public = {name for name in mine if not name.startswith("_")} - {"close"}
            assert public == {name for name in theirs if not name.startswith("_")} - {"aclose"}
            for name in public - {"from_env"}:
                assert list(mine[name].parameters.items()) == list(theirs[name].parameters.items()), name
