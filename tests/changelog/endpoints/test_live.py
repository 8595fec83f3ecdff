"""Live updates: topics, permissions, resumption, and the end of a stream."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from keyrack.api.auth_schemes import DeviceAuth
from keyrack.api.event_stream import (
    EVENTS,
    FULL,
    FULL_OF_CALLER,
    FULL_OF_CUSTOMER,
    GAP,
    TRY_AGAIN,
    EventHub,
    EventStream,
)
from keyrack.api.query_parameters import INVALID
from keyrack.changelog.endpoints.live import OLD_HTTP
from keyrack.cli.main import application
from keyrack.core.settings import Settings
from keyrack.db.change_notifier import EVERYBODY, MOST, TOPICS, ChangeNotifier, encode_notifications, parse_notification
from keyrack.http.routes import ALL
from tests.auth.test_clients import Program
from tests.http.test_hostile_input import Line, head
from tests.support.event_stream import watching
from tests.support.people import Person, Town
from tests.support.servers import RunningServer, Sql, eventually
from tests.telemetry.endpoints.test_ingest import unit_of
from tests.webhooks.receiver import Receiver

# All topics but `changes`, which is sent when earlier changes get their numbers
AT_ONCE = "?topics=" + ",".join(topic for topic in TOPICS if topic != "changes")
A_PLACE = {"currentLatitude": 52.5, "currentLongitude": 13.4}

# The topics of each write


def an_assignment(person: Person) -> None:
    person.assignment(person.car_with_box(), person.user())


def a_webhook_and_its_delivery(person: Person) -> None:
    with Receiver() as receiver:
        assert person.put("/webhooks", {"url": receiver.url}).status_code == 201
        an_assignment(person)
        eventually(lambda: receiver.got, "the delivery")


def a_patch(person: Person) -> None:
    patch = [{"op": "replace", "path": "/name", "value": "Renamed"}]
    assert person.patch(f"/cars/{person.car()}", patch).status_code == 204


def many(person: Person) -> None:
    items = [{"op": "create", "body": {"name": "Many"}}]
    assert person.post("/batch", {"kind": "groups", "items": items}).status_code == 200


def an_end(person: Person) -> None:
    assert person.delete(f"/cars/{person.car_with_box()}").status_code == 204


WRITES: dict[str, tuple[Callable[[Person], object], tuple[str, ...]]] = {
    "a car": (lambda person: person.car(), ("cars",)),
    "a patch": (a_patch, ("cars",)),
    "a user": (lambda person: person.user(), ("users",)),
    "a group": (lambda person: person.group(), ("groups",)),
    "a batch": (many, ("groups",)),
    "an installation": (lambda person: person.car_with_box(), ("cars", "products")),
    "the end of a car": (an_end, ("cars", "products", "groups")),
    "an event": (lambda person: person.event(person.car(), person.user()), ("events",)),
    "a position": (lambda person: unit_of(person).tell(1, **A_PLACE), ("positions",)),
    "an assignment": (an_assignment, ("operations", "assignments")),
    "a delivery": (a_webhook_and_its_delivery, ("webhooks", "deliveries")),
}


@pytest.mark.parametrize("what", WRITES)
def test_a_write_is_announced_to_watchers(what: str, carol: Person) -> None:
    write, topics = WRITES[what]
    with watching(carol, "?topics=" + ",".join(topics)) as watcher:
        write(carol)
        watcher.hears(*topics)
        assert set(watcher.events) == set(topics)


def test_a_pairing_is_announced(carol: Person) -> None:
    with watching(carol, "?topics=services") as watcher:
        body = {"serviceId": carol.service(), "productId": carol.product()}
        assert carol.put("/pairings", body).status_code == 204
        watcher.hears("services")


def test_every_topic_has_a_write_that_announces_it() -> None:
    told = {topic for _, topics in WRITES.values() for topic in topics} | {"services", "changes"}
    assert told == set(TOPICS)


# Endpoints that announce nothing: their few users see the changes at the next visit
NOT_TOLD = {"Managers", "Clients", "Second factor"}
# A nonce is not shown; the items of a batch announce themselves; telemetry also comes by MQTT
CHANGE_NOTHING = {
    "POST /boxes/{productId}/enrolment",
    "POST /batch",
    "POST /ingest/telemetry",
    "PUT /driver-settings",
    "PUT /booking-settings",
    "PUT /cars/{carId}/booking-settings",
    "POST /drive/api/token",
}


def test_every_write_declares_its_topics() -> None:
    for row in ALL:
        if row.method != "GET" and (row.auth.has_customer or isinstance(row.auth, DeviceAuth)):
            name = f"{row.method} {row.path}"
            assert bool(row.topics) == (row.tag.name not in NOT_TOLD and name not in CHANGE_NOTHING), name


def test_a_rejected_write_is_not_announced(carol: Person) -> None:
    with watching(carol, "?topics=cars,groups") as watcher:
        assert carol.put("/cars", {"nonsense": 1}).status_code == 400
        assert carol.delete("/cars/2147483647").status_code == 404
        carol.group()
        watcher.hears("groups")
        assert watcher.events == ["groups"]


def test_neighbours_hear_nothing(alice: Person, bob: Person) -> None:
    """And a stream contains only names."""
    with watching(alice) as hers, watching(bob, AT_ONCE) as his:
        alice.assignment(alice.car_with_box("Secret car"), alice.user())
        hers.hears("cars", "users", "products", "operations", "assignments")
        bob.group()
        his.hears("groups")
        assert his.events == ["groups"]
        form = re.compile(rf"|:|retry: \d{{4}}|id: [0-9a-f]{{8}}-[0-9a-f]{{32}}|(event|data): ({'|'.join(TOPICS)})")
        assert [line for line in hers.lines if not form.fullmatch(line)] == []


def test_a_stream_names_no_topic_that_the_caller_may_not_read(alice: Person) -> None:
    narrow = replace(alice, headers=alice.headers | Program(alice, "live:read", "groups:read").headers())
    with watching(narrow) as watcher, watching(alice) as witness:
        alice.assignment(alice.car_with_box(), alice.user())
        witness.hears("cars", "users", "products", "operations", "assignments")
        alice.group()
        watcher.hears("groups")
        assert watcher.events == ["groups"]


def test_another_customer_of_the_same_manager_is_another_stream(town: Town, carol: Person) -> None:
    other = town.another_fleet(carol)
    with watching(carol, AT_ONCE) as watcher:
        other.car()
        carol.group()
        watcher.hears("groups")
        assert watcher.events == ["groups"]


def test_changes_by_a_command_are_announced(carol: Person, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEYRACK_DATABASE_URL", dsn)
    with watching(carol, "?topics=services") as watcher:
        command = ["service", "add", "--customer", str(carol.customer), "--name", "Service"]
        ran = CliRunner().invoke(application("service"), command)
        assert ran.exit_code == 0, ran.output
        watcher.hears("services")


# Options


def test_only_the_requested_topics_arrive(carol: Person) -> None:
    with watching(carol, "?topics=users,%20groups") as watcher:
        carol.car()
        carol.user()
        carol.group()
        watcher.hears("users", "groups")
        assert set(watcher.events) == {"users", "groups"}


@pytest.mark.parametrize("query", ["?topics=cars,cras", "?topics=", "?topics=Cars", "?topics=gap"])
def test_an_unknown_topic_is_rejected(carol: Person, query: str) -> None:
    answer = carol.get(f"/live{query}", headers={"Accept": "application/problem+json"})
    assert (answer.status_code, answer.json()["code"]) == (400, INVALID.code)
    assert f"The valid topics are {', '.join(TOPICS)}" in answer.json()["detail"]
    (fault,) = answer.json()["errors"]
    assert (fault["parameter"], fault["code"], fault["valid"]) == ("topics", "not-one-of", list(TOPICS))


@pytest.mark.parametrize("query", ["?topic=cars", "?topics=cars&topics=users", "?$filter=id%20eq%201"])
def test_an_unknown_option_is_rejected(carol: Person, query: str) -> None:
    answer = carol.get(f"/live{query}")
    assert answer.status_code == 400
    assert answer.text.startswith("The query parameter ")


def test_head_returns_the_current_position(carol: Person) -> None:
    answer = carol.call("HEAD", "/live")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"] == EVENTS
    with watching(carol, AT_ONCE, **{"Last-Event-ID": answer.headers["last-event-id"]}) as watcher:
        carol.car()
        watcher.hears("cars")
        assert watcher.events == ["cars"]


def test_a_stream_is_neither_compressed_nor_cached(carol: Person) -> None:
    with watching(carol, **{"Accept-Encoding": "gzip"}) as watcher:
        headers = watcher.answer.headers
        assert headers["content-type"] == EVENTS
        assert (headers["cache-control"], headers["x-accel-buffering"]) == ("no-store", "no")
        assert "content-encoding" not in headers and "content-length" not in headers
        carol.car()
        watcher.hears("cars")


def test_http_1_0_knows_no_streams(carol: Person, server: RunningServer) -> None:
    with Line(server) as line:
        line.send(head(carol, "GET", "/v3/live").replace(b"HTTP/1.1", b"HTTP/1.0"))
        reply = line.reply()
    assert (reply.status, reply.text) == (400, str(OLD_HTTP))


# Resumption

CUT = """
select pg_terminate_backend(pid) from pg_stat_activity
where application_name = 'keyrack listener' and datname = current_database()
"""


def test_a_resumed_stream_gets_missed_events(carol: Person) -> None:
    with watching(carol) as watcher:
        carol.car()
        watcher.hears("cars")
        last = watcher.last_id
    with watching(carol, "?topics=users,groups") as watcher:
        carol.user()
        carol.group()
        watcher.hears("users", "groups")
    with watching(carol, "?topics=users,groups,cars", **{"Last-Event-ID": last}) as watcher:
        watcher.hears("users", "groups")
        assert sorted(watcher.events) == ["groups", "users"]
        newest = watcher.last_id
    with watching(carol, **{"Last-Event-ID": newest}) as watcher:
        carol.event(carol.car(), carol.user())
        watcher.hears("events")
        assert "groups" not in watcher.events


@pytest.mark.parametrize("last", ["00000000-1", "nonsense", "{process}-999999999", "{process}-x"])
def test_an_unknown_event_id_gives_a_gap(carol: Person, last: str) -> None:
    with watching(carol) as watcher:
        process = watcher.last_id.partition("-")[0]
    with watching(carol, AT_ONCE, **{"Last-Event-ID": last.format(process=process)}) as watcher:
        watcher.hears(GAP)
        assert watcher.events == [GAP]


def test_an_event_id_reveals_nothing_about_other_customers(carol: Person, bob: Person) -> None:
    def position(person: Person) -> str:
        return person.call("HEAD", "/live").headers["last-event-id"]

    def stays() -> str | None:
        """Carol's id if a change of Bob leaves it unchanged. Her own earlier changes may still get their numbers."""
        mine, before = position(bob), position(carol)
        bob.car()
        eventually(lambda: position(bob) != mine, "the change")
        return before if position(carol) == before else None

    with watching(bob) as his, watching(carol) as hers:
        before = eventually(stays, "an id that changes of others leave as it is")
        assert before is not None and re.fullmatch("[0-9a-f]{8}-[0-9a-f]{32}", before)
        carol.car()
        hers.hears("cars")
        eventually(lambda: position(carol) == hers.last_id != before, "the id of the newest change")
        foreign = his.last_id
    with watching(carol, AT_ONCE, **{"Last-Event-ID": foreign}) as watcher:
        watcher.hears(GAP)
        assert watcher.events == [GAP]


# Low limits, and frequent keep-alives
BOUNDS = {
    "live_streams": 3, "live_streams_per_customer": 2, "live_streams_per_caller": 2, "live_keepalive": 0.2,
    "live_tracked_customers": 1,
}  # fmt: skip


@pytest.fixture
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with low limits."""
    with RunningServer(settings.model_copy(update=BOUNDS), dsn, worker=False) as running:
        yield running


@pytest.fixture
def strict_alone(own: str, settings: Settings) -> Iterator[Town]:
    """The same on a database without a worker, where only the test sends notifications."""
    with RunningServer(settings.model_copy(update=BOUNDS), own, worker=False) as running, closing(Sql(own)) as sql:
        yield Town(sql, running)


def test_discarded_events_give_a_gap(carol: Person, bob: Person, strict: RunningServer) -> None:
    with watching(carol, url=strict.url) as hers, watching(bob, url=strict.url) as his:
        carol.car()
        hers.hears("cars")
        last = hers.last_id
        carol.group()
        hers.hears("groups")
        bob.car()
        his.hears("cars")
    with watching(carol, url=strict.url, **{"Last-Event-ID": last}) as watcher:
        watcher.hears(GAP)


def test_a_lost_database_listener_gives_a_gap(carol: Person, strict: RunningServer, sql: Sql) -> None:
    with watching(carol, url=strict.url) as watcher:
        before = watcher.last_id
        sql.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'keyrack listener'"
        )
        watcher.hears(GAP)
        carol.car()
        watcher.hears("cars")
    with watching(carol, url=strict.url, **{"Last-Event-ID": before}) as watcher:
        watcher.hears(GAP)


# Limits


def test_the_number_of_streams_is_limited(
    carol: Person, alice: Person, bob: Person, town: Town, strict: RunningServer
) -> None:
    def ask(person: Person) -> tuple[int, str, str]:
        answer = person.get(f"{strict.url}/v3/live")
        return answer.status_code, answer.headers["retry-after"], answer.text

    with ExitStack() as streams:
        for _ in range(2):
            streams.enter_context(watching(carol, url=strict.url))
        told = FULL_OF_CUSTOMER.format(most=2, seconds=TRY_AGAIN)
        assert ask(carol) == (429, "10", f'{{"status": "429", "message": "{told}"}}')
        told = FULL_OF_CALLER.format(most=2, seconds=TRY_AGAIN)
        other = town.another_fleet(carol)
        eventually(lambda: other.get(f"{strict.url}/v3/cars").status_code == 200, "the other customer")
        assert ask(other) == (429, "10", f'{{"status": "429", "message": "{told}"}}')
        streams.enter_context(watching(alice, url=strict.url))
        assert ask(bob) == (503, "1", str(FULL))
        assert carol.get(f"{strict.url}/v3/cars").status_code == 200

    def opens() -> bool:
        with bob.client.stream("GET", f"{strict.url}/v3/live", headers=bob.headers) as answer:
            return answer.status_code == 200

    eventually(opens, "a place of those who have gone")


def test_a_stream_occupies_no_database_connection(carol: Person, dsn: str, settings: Settings) -> None:
    bounds = {"pool_size": 1, "db_queue_timeout_seconds": 1}
    with RunningServer(settings.model_copy(update=bounds), dsn, worker=False) as running, ExitStack() as streams:
        for _ in range(10):
            streams.enter_context(watching(carol, url=running.url))
        assert carol.get(f"{running.url}/v3/cars").status_code == 200


def test_keep_alives_carry_a_resumable_id(strict_alone: Town) -> None:
    alice, bob, carol = (strict_alone.person(name) for name in ("alice", "bob", "carol"))
    with watching(carol, AT_ONCE) as watcher:
        begin = watcher.last_id
        with watching(alice, "?topics=cars") as other:
            bob.car()
            alice.car()  # the server tracks the newest changes of one customer, and discards those of the other
            other.hears("cars")
        before = watcher.lines.count(":")
        eventually(lambda: watcher.lines.count(":") > before + 1, "signs of life since then")
        assert watcher.last_id != begin and watcher.events == []
    with watching(carol, AT_ONCE, **{"Last-Event-ID": watcher.last_id}) as again:
        carol.car()
        again.hears("cars")
        assert again.events == ["cars"]
    for person in (alice, bob, carol):
        person.client.close()


def test_the_backlog_of_a_slow_reader_is_bounded() -> None:
    async def run() -> bytes:
        hub = EventHub(Settings(), 10)
        stream = EventStream(hub, 7, 1, TOPICS, None, float("inf"), lambda: asyncio.sleep(0, 0.0))
        await anext(stream)
        for _ in range(1_000):
            hub.hear("7" + "abcdefghijkl")
            hub.hear("8a")
        news = await anext(stream)
        await stream.close()
        return news

    news = asyncio.run(run()).decode()
    assert sorted(re.findall(r"event: (\w+)", news)) == sorted(TOPICS)


def test_too_many_customers_are_notified_as_all() -> None:
    class Notified:
        async def execute(self, _sql: str, said: list[str]) -> None:
            self.said = said

    async def run(customers: int) -> list[str]:
        database = Notified()
        tell = ChangeNotifier(database)
        for customer in range(1, customers + 1):
            tell(2_000_000_000 + customer, frozenset(TOPICS))
        telling = asyncio.create_task(tell.run())
        await asyncio.sleep(0)
        telling.cancel()
        await asyncio.wait([telling])
        return database.said

    named = asyncio.run(run(MOST))
    assert sum(len(list(parse_notification(said))) for said in named) == MOST
    assert max(len(said.encode()) for said in named) < 8_000  # the limit of PostgreSQL
    assert asyncio.run(run(MOST + 1)) == list(encode_notifications({EVERYBODY: frozenset(TOPICS)}))


# The end of a stream


@pytest.mark.parametrize(
    "statement",
    [
        "update api_key set revoked_at = now() where name = $1",
        "update manager set is_disabled = true where username = $1",
        "update manager set sign_outs = sign_outs + 1 where username = $1",
        "delete from manager_customer using manager m where m.manager_id = manager_customer.manager_id"
        " and m.username = $1",
        "delete from manager where username = $1",
        "delete from manager_role using manager m where m.manager_id = manager_role.manager_id and m.username = $1",
        "insert into factor_rule (customer_id, role) select customer_id, 'Owner' from manager_customer c join manager m"
        " on m.manager_id = c.manager_id where m.username = $1",
        "update manager_role set groups = '{}', is_limited = true, role = 'Viewer' from manager m"
        " where m.manager_id = manager_role.manager_id and m.username = $1",
    ],
    ids=["key", "disabled", "signed out", "customer", "gone", "role", "factor", "limit"],
)
def test_a_caller_that_loses_access_loses_the_stream(carol: Person, alice: Person, sql: Sql, statement: str) -> None:
    with watching(carol) as hers, watching(alice) as others:
        sql.execute(statement, carol.username)
        assert hers.ends() == "whole"
        limited = statement.startswith("update manager_role")  # the role still permits a stream, but with fewer topics
        assert carol.call("HEAD", "/live").status_code in ((200,) if limited else (401, 403, 404))
        alice.car()
        others.hears("cars")


def test_a_stream_ends_with_its_key(carol: Person, sql: Sql) -> None:
    """At that moment, although no change is announced then."""
    with watching(carol) as watcher:
        sql.execute("update api_key set expires_at = now() + interval '1 second' where name = $1", carol.username)
        assert watcher.ends() == "whole"


def test_a_session_that_ends_ends_the_stream(carol: Person, strict: RunningServer, sql: Sql) -> None:
    """The checks of the stream do not count as a use of the session."""
    with closing(carol.browser()) as client:
        (cookie,) = client.cookies.jar
    unseen = (
        "update session set seen_at = now() - interval '2 minutes' from manager m"
        " where m.manager_id = session.manager_id and m.username = $1"
    )
    page = replace(carol, headers={"Customer-ID": str(carol.customer), "Cookie": f"{cookie.name}={cookie.value}"})
    with watching(page, url=f"{strict.url}/console/api") as watcher:
        sql.execute(unseen, carol.username)
        eventually(lambda: watcher.lines.count(":") > 3, "looks")
        seen = "select max(seen_at) < now() - interval '1 minute' from session join manager using (manager_id)"
        assert sql.value(f"{seen} where username = $1", carol.username)
        sql.execute(
            "delete from session using manager m where m.manager_id = session.manager_id and m.username = $1",
            carol.username,
        )
        assert watcher.ends() == "whole"


def test_shutdown_ends_the_streams(carol: Person, dsn: str, settings: Settings) -> None:
    """As a complete response, not as one that the shutdown cuts off."""
    with RunningServer(settings, dsn, worker=False) as running, watching(carol, url=running.url) as watcher:
        running.__exit__()
        assert watcher.ends() == "whole"
