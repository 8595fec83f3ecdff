"""Events: single ones, many at once, and batches of offline clients."""

from __future__ import annotations

import asyncio
import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import asyncpg
import httpx
import pytest

from keyrack.db.audit_context import system
from keyrack.db.connection import Database
from keyrack.fleet.endpoints.cars import NO_CAR
from keyrack.fleet.endpoints.users import NO_USER
from keyrack.telemetry.endpoints.events import NO_EVENT, EventRecorder, NewEvent, RecordedEventBody, ReportedEvent
from keyrack.webhooks.event_deliveries import EventPublisher
from keyrack.webhooks.queue_limit import QueueLimit
from tests.support.invalid_timestamps import NO_MOMENTS_OF_BODIES
from tests.support.people import Person, refused
from tests.support.servers import patient_settings
from tests.telemetry.endpoints.test_ingest import ago, device_key

_numbers = itertools.count(1)
EVENT = {
    "dateTime": "2026-05-01T10:00:00",
    "utcDateTime": ago(60 * 24 * 30),
    "type": "CarOpened",
    "userAgent": "tests",
}


@pytest.fixture
def key(carol: Person) -> str:
    return device_key(carol)


def deliver(person: Person, key: str, *events: Any) -> httpx.Response:
    body = "\n".join(json.dumps(event) for event in events)
    headers = {"Device-Key": key, "Content-Type": "application/x-ndjson"}
    return person.client.post("/ingest/events", content=body, headers=headers)


def test_an_event_is_stored_as_sent(carol: Person) -> None:
    car, user = carol.car(), carol.user()
    body = EVENT | {"carId": car, "userId": user, "latitude": 52.5, "longitude": 13.4}
    answer = carol.put("/events", body)
    assert (answer.status_code, answer.json()) == (201, {"id": 1})
    expected = {"id": 1} | body
    assert carol.get("/events/1").json() == expected
    assert carol.get(f"/cars/{car}/events").json() == [expected]


def test_events_of_all_cars_are_listed_together(carol: Person, alice: Person) -> None:
    assert carol.get("/events").content == b"[]"
    one, two, user = carol.car("One"), carol.car("Two"), carol.user()
    ids = [carol.event(car, user) for car in (one, two, one)]
    alice.event(alice.car(), alice.user())
    assert [row["id"] for row in carol.get("/events?$orderby=utcDateTime desc,id desc").json()] == ids[::-1]
    page = carol.get("/events?$top=1&$count=true&$select=id&$expand=car($select=name),user($select=id)")
    assert page.headers["X-Total-Count"] == "3"
    assert page.json() == [{"id": ids[0], "car": {"name": "One"}, "user": {"id": user}}]


def test_type_and_position_of_an_event_are_optional(carol: Person, key: str) -> None:
    """A9: the spec lists `type` as required and gives a default. Callers and devices may therefore leave it out."""
    body = EVENT | {"carId": carol.car(), "userId": carol.user()}
    del body["type"]
    id = carol.put("/events", body).json()["id"]
    event = carol.get(f"/events/{id}").json()
    assert (event["type"], event["latitude"], event["longitude"]) == ("CarOpened", None, None)
    (delivered,) = deliver(carol, key, body | {"clientId": "default"}).json()["events"]
    assert carol.get(f"/events/{delivered['id']}").json()["type"] == "CarOpened"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"type": "CarStolen"}, "type"),
        ({"dateTime": "soon"}, "dateTime"),
        ({"dateTime": None}, "dateTime"),
        ({"utcDateTime": "2026-13-01T00:00:00Z"}, "utcDateTime"),
        ({"userAgent": " "}, "userAgent"),
        ({"userAgent": 7}, "userAgent"),
        ({"latitude": 91}, "latitude"),
        ({"carId": "one"}, "carId"),
    ],
)
def test_an_invalid_member_of_an_event_is_named(carol: Person, wrong: dict[str, Any], named: str) -> None:
    answer = carol.put("/events", EVENT | {"carId": 1, "userId": 1} | wrong)
    assert answer.status_code == 400
    assert answer.text.startswith(f"Couldn't create event. No valid {named} provided.")


def test_events_of_missing_and_foreign_cars_and_users_get_404(carol: Person, bob: Person) -> None:
    car, user = carol.car(), carol.user()
    for other_car in (2**31 - 1, bob.car()):
        answer = carol.put("/events", EVENT | {"carId": other_car, "userId": user})
        assert (answer.status_code, answer.text) == (404, NO_CAR.text)
    for other_user in (2**31 - 1, bob.user()):
        answer = carol.put("/events", EVENT | {"carId": car, "userId": other_user})
        assert (answer.status_code, answer.text) == (404, NO_USER.text)
    assert carol.event(car, user) == 1, "a refusal uses up no number"
    assert bob.get("/events/1").text == NO_EVENT.text


def test_events_outlive_their_car_and_user(carol: Person) -> None:
    car, user = carol.car(), carol.user()
    id = carol.event(car, user)
    assert carol.delete(f"/cars/{car}").status_code == 204
    assert carol.delete("/users/assignments/customers", {"userId": user}).status_code == 204
    event = carol.get(f"/events/{id}").json()
    assert (event["carId"], event["userId"]) == (car, user)


def test_event_numbers_have_no_gap_and_follow_the_commits(carol: Person) -> None:
    """50 writers run in parallel. A reader up to the newest number has missed none."""
    car, user = carol.car(), carol.user()
    seen: list[list[int]] = []

    def write(n: int) -> int:
        answer = carol.put("/events", EVENT | {"carId": car if n % 7 else 2**31 - 1, "userId": user})
        if n % 25 == 0:
            seen.append([e["id"] for e in carol.get(f"/cars/{car}/events?$orderby=id&$select=id").json()])
        assert answer.status_code == (201 if n % 7 else 404), answer.text
        return answer.json()["id"] if answer.status_code == 201 else 0

    with ThreadPoolExecutor(50) as pool:
        ids = sorted(id for id in pool.map(write, range(500)) if id)
    assert ids == list(range(1, len(ids) + 1))
    assert len(ids) == len([n for n in range(500) if n % 7])
    assert len(seen) == 20
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in seen)


def test_event_numbers_have_no_gap_across_processes(carol: Person, dsn: str) -> None:
    """Each process has its own pool, so only the database can keep the order. A reader watches it."""
    car, user = carol.car(), carol.user()
    gaps: list[list[int]] = []

    async def run() -> list[int]:
        database = await Database.connect(dsn, patient_settings(pool_size=50))
        record = EventRecorder(EventPublisher(QueueLimit(1_000, system("tests"))))
        done = asyncio.Event()

        async def write(n: int) -> list[int]:
            got: list[int] = []
            for k in range(10):
                happened = EVENT | {"carId": car, "userId": user}
                told = ReportedEvent(NewEvent.model_validate(happened), f"{n // 4}-{k}" if n % 2 else None)
                (results,) = await record(database, carol.customer, [[told]])
                got += [result.id for result in results if isinstance(result, RecordedEventBody) and not result.known]
            return got

        async def watch() -> None:
            while not done.is_set():
                rows = await database.fetch("select event_id from event where customer_id = $1", carol.customer)
                ids = sorted(row[0] for row in rows)
                if ids != list(range(1, len(ids) + 1)):
                    gaps.append(ids)
                await asyncio.sleep(0.005)

        watching = asyncio.create_task(watch())
        results = await asyncio.gather(*(write(n) for n in range(48)))
        done.set()
        await watching
        await database.close()
        return sorted(itertools.chain(*results))

    ids = asyncio.run(run())
    assert ids == list(range(1, 240 + 120 + 1)), "24 writers of ten, and 24 of which two share each client's id"
    assert gaps == []


def test_a_repeated_batch_of_events_is_recorded_once(carol: Person, key: str) -> None:
    car, user = carol.car(), carol.user()
    events = [EVENT | {"carId": car, "userId": user, "clientId": f"c{n}"} for n in range(250)]
    first = deliver(carol, key, *events).json()
    assert (first["accepted"], first["duplicates"], first["refused"]) == (250, 0, [])
    assert first["events"] == [{"line": n, "id": n} for n in range(1, 251)]
    again = deliver(carol, key, *events, events[0]).json()
    assert (again["accepted"], again["duplicates"]) == (0, 251)
    assert again["events"][-1] == {"line": 251, "id": 1}
    assert carol.sql.value("select last_id from event_counter where customer_id = $1", carol.customer) == 250


def test_each_invalid_line_has_its_own_error(carol: Person, key: str) -> None:
    car, user = carol.car(), carol.user()
    good = EVENT | {"carId": car, "userId": user}
    answer = deliver(
        carol, key, good, good | {"clientId": "a"}, good | {"clientId": "a"},
        good | {"clientId": "b", "carId": 2**31 - 1},
        good | {"clientId": "c", "colour": "red"}, 7, good | {"clientId": "d", "userId": 2**31 - 1},
        good | {"clientId": "e", "userAgent": " "},
    )  # fmt: skip
    report = answer.json()
    assert (report["accepted"], report["duplicates"]) == (1, 1)
    assert report["events"] == [{"line": 2, "id": 1}, {"line": 3, "id": 1}]
    assert report["refused"] == [
        {"line": 1, "reason": "`clientId` is missing."},
        {"line": 4, "reason": NO_CAR.text},
        {"line": 5, "reason": "There is no property 'colour'."},
        {"line": 6, "reason": "The line must be a JSON object."},
        {"line": 7, "reason": NO_USER.text},
        {"line": 8, "reason": "`userAgent` must not be blank."},
    ]


@pytest.mark.parametrize("form", ["%s\n%s", "[%s, %s]"], ids=["lines", "array"])
def test_a_repeated_member_is_refused(carol: Person, key: str, form: str) -> None:
    car, user = carol.car(), carol.user()
    good = json.dumps(EVENT | {"carId": car, "userId": user, "clientId": "once"})
    body = form % (f'{good[:-1]}, "carId": {car}}}', good)
    headers = {"Device-Key": key, "Content-Type": "application/x-ndjson"}
    report = carol.client.post("/ingest/events", content=body, headers=headers).json()
    assert (report["accepted"], [row["line"] for row in report["events"]]) == (1, [2])
    assert report["refused"] == [{"line": 1, "reason": "The property 'carId' is given more than once."}]


def test_client_ids_are_separate_for_each_customer(carol: Person, bob: Person, key: str) -> None:
    event = EVENT | {"carId": carol.car(), "userId": carol.user(), "clientId": "same"}
    assert deliver(carol, key, event).json()["accepted"] == 1
    secret = device_key(bob)
    assert deliver(bob, secret, event).json()["refused"] == [{"line": 1, "reason": NO_CAR.text}]
    mine = EVENT | {"carId": bob.car(), "userId": bob.user(), "clientId": "same"}
    assert deliver(bob, secret, mine).json()["accepted"] == 1


def test_batches_of_events_need_a_device_key(carol: Person) -> None:
    assert deliver(carol, "wrong").status_code == 401


def test_the_events_of_a_car_are_found_by_index(carol: Person, dsn: str) -> None:
    async def plan() -> str:
        raw = await asyncpg.connect(dsn)
        try:
            await raw.execute("set enable_seqscan = off; set plan_cache_mode = force_generic_plan")
            await raw.execute(
                "prepare q (int, int) as select * from event t where t.customer_id = $1 and t.car_id = $2"
                " order by t.event_id desc limit 10"
            )
            rows = await raw.fetch("explain (analyze, costs off, timing off) execute q (1, 1)")
            return "\n".join(row[0] for row in rows)
        finally:
            await raw.close()

    shown = asyncio.run(plan())
    assert "Index Scan" in shown
    assert "Subplans Removed: 7" in shown


# A4: `dateTime` is a wall clock, shown as it was sent; `utcDateTime` is an instant, stored to the microsecond

WALL_CLOCKS = [
    "2026-05-01T10:00:00",
    "2026-05-01T10:00:00.5",
    "2026-05-01t10:00:00.1234567890123456789",
    "2026-05-01T10:00:00Z",
    "2026-05-01T10:00:00.000z",
    "2026-05-01T10:00:00.120+02:00",
    "2026-05-01T10:00:00-00:00",
    "2026-05-01T23:59:60",
    "0001-01-01T14:00:00+14:00",
    "9999-12-31T11:59:59.999999-12:00",
]
INSTANTS = {
    "2026-05-01T08:00:00Z": "2026-05-01T08:00:00Z",
    "2026-05-01t08:00:00.123456z": "2026-05-01T08:00:00.123456Z",
    "2026-05-01T08:00:00.120Z": "2026-05-01T08:00:00.12Z",
    "2026-05-01T08:00:00.0000009Z": "2026-05-01T08:00:00Z",
    "2026-05-01T10:00:00.000001+02:00": "2026-05-01T08:00:00.000001Z",
    "2026-05-01T08:00:00-00:00": "2026-05-01T08:00:00Z",
    "2016-12-31T23:59:60.25Z": "2017-01-01T00:00:00.25Z",
    "2016-12-31T18:59:60-05:00": "2017-01-01T00:00:00Z",
}


@pytest.fixture(scope="module")
def car(alice: Person) -> int:
    return alice.car()


@pytest.fixture(scope="module")
def user(alice: Person) -> int:
    return alice.user()


def found(person: Person, car: int, condition: str) -> list[int]:
    """The events of the car that match a filter."""
    answer = person.get(f"/cars/{car}/events", params={"$filter": condition})
    assert answer.status_code == 200, answer.text
    return [event["id"] for event in answer.json()]


@pytest.mark.parametrize("sent", WALL_CLOCKS)
def test_a_wall_clock_is_shown_as_sent_and_found_as_shown(alice: Person, car: int, user: int, sent: str) -> None:
    """A4: `dateTime` may lack the offset, is returned exactly as sent, and filters match what is shown."""
    id = alice.event(car, user, dateTime=sent)
    shown = alice.get(f"/events/{id}").json()["dateTime"]
    assert shown == sent
    for condition in ("eq {}", "eq '{}'", "in ({})", "ge {}"):
        assert id in found(alice, car, "dateTime " + condition.format(shown))
    assert id not in found(alice, car, f"dateTime ne {shown}") + found(alice, car, f"dateTime lt '{shown}'")


@pytest.mark.parametrize("sent", INSTANTS)
def test_an_instant_is_stored_and_found_as_shown(alice: Person, car: int, user: int, sent: str) -> None:
    """A4: `utcDateTime` keeps microseconds. Filters match the shown value and the sent one."""
    id = alice.event(car, user, utcDateTime=sent)
    shown = alice.get(f"/events/{id}").json()["utcDateTime"]
    assert shown == INSTANTS[sent]
    for condition in (f"utcDateTime eq {shown}", f"utcDateTime le '{shown}'", f"utcDateTime in ({sent})"):
        assert id in found(alice, car, condition)
    assert id not in found(alice, car, f"utcDateTime lt {shown}") + found(alice, car, f"utcDateTime gt {sent}")


def test_wall_clocks_are_ordered_by_their_readings(carol: Person) -> None:
    """A4: `$orderby=dateTime` uses the clock readings, whatever their offsets; `utcDateTime` uses the instants."""
    car, user = carol.car(), carol.user()
    clocks = [f"2026-05-01T{at}" for at in ("10:00:00+02:00", "09:00:00", "09:30:00-11:00", "10:00:00.000001Z")]
    ids = [carol.event(car, user, dateTime=at, utcDateTime=f"2026-05-01T08:00:0{n}Z") for n, at in enumerate(clocks)]
    rows = carol.get(f"/cars/{car}/events?$orderby=dateTime").json()
    assert [row["dateTime"] for row in rows] == [clocks[1], clocks[2], clocks[0], clocks[3]]
    assert [row["id"] for row in carol.get(f"/cars/{car}/events?$orderby=utcDateTime desc").json()] == ids[::-1]


FORM = "A time must have the format of RFC 3339, such as 2026-01-31T08:00:00Z or 2026-01-31T09:00:00+01:00."
WALL_CLOCK_FORM = (
    "A time must have the format of RFC 3339, with or without an offset, such as 2026-01-31T08:00:00 or"
    " 2026-01-31T08:00:00Z."
)


def test_an_invalid_time_of_an_event_gets_the_form(alice: Person, car: int, user: int) -> None:
    """A4: the error names the form, also if several members are invalid; only `dateTime` may lack the offset."""
    body = EVENT | {"carId": car, "userId": user}
    for time in NO_MOMENTS_OF_BODIES:
        text = f"Couldn't create event. No valid utcDateTime provided. {FORM}"
        refused(alice.put("/events", body | {"utcDateTime": time}), 400, text)
        if time != "2026-01-01T10:00:00":
            text = f"Couldn't create event. No valid dateTime provided. {WALL_CLOCK_FORM}"
            refused(alice.put("/events", body | {"dateTime": time}), 400, text)
    wrong = {"utcDateTime": "now", "carId": "x", "dateTime": "soon"}
    text = f"Couldn't create event. No valid dateTime, utcDateTime and carId provided. {WALL_CLOCK_FORM} {FORM}"
    refused(alice.put("/events", body | wrong), 400, text)


def test_the_fraction_of_a_wall_clock_is_limited(alice: Person, car: int, user: int) -> None:
    """A4: a fraction may have any length, but a value that is stored as sent has at most 250 characters."""
    longest = "2026-05-01T10:00:00." + "1" * 230
    id = alice.event(car, user, dateTime=longest, utcDateTime=longest + "2" * 5_000 + "Z")
    event = alice.get(f"/events/{id}").json()
    assert (event["dateTime"], event["utcDateTime"]) == (longest, "2026-05-01T10:00:00.111111Z")
    assert id in found(alice, car, f"dateTime eq {longest}")
    body = EVENT | {"carId": car, "userId": user, "dateTime": longest + "1"}
    assert alice.put("/events", body).text.startswith("Couldn't create event. No valid dateTime provided. A time must")


def test_openapi_describes_the_default_type_of_events(alice: Person) -> None:
    """A9: `type` may be left out of `PUT /events` and of delivered events.

    OpenAPI describes this in words, because a `default` would make generators require it.
    """
    schemas = alice.client.get("/openapi.json").json()["components"]["schemas"]
    for name in ("NewEvent", "OfflineEvent"):
        assert "Omitted from a body, it is `CarOpened`." in schemas[name]["properties"]["type"]["description"]
        assert "type" not in schemas[name]["required"]
