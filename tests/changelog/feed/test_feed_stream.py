"""Long polls and streams of the change feed."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx
import pytest

from keyrack.api.event_stream import EVENTS, FULL, FULL_OF_CUSTOMER, TRY_AGAIN, EventHub
from keyrack.changelog.endpoints.changes import NOT_OF_STREAMS
from keyrack.changelog.endpoints.live import OLD_HTTP
from keyrack.changelog.feed import EPOCH, NEWEST
from keyrack.changelog.feed_stream import FeedFollower, FeedService
from keyrack.core.metrics.catalog import STREAMS
from keyrack.core.settings import Settings
from keyrack.server.worker import connect
from tests.changelog.endpoints.test_live import CUT
from tests.changelog.feed.change_rows import epoch, made, told
from tests.http.test_hostile_input import Line, head
from tests.support.event_stream import Watcher
from tests.support.people import Person, Town, http_client
from tests.support.servers import DEADLINE, RunningServer, Sql, eventually

PROBLEM = {"Accept": "application/problem+json"}
STREAM = {"Accept": EVENTS}


@pytest.fixture
def strict(dsn: str, settings: Settings) -> Iterator[RunningServer]:
    """A server with low limits, frequent keep-alives and frequent polls."""
    bounds = {
        "live_streams": 3,
        "live_streams_per_customer": 2,
        "live_keepalive": 0.2,
        "feed_poll_interval_seconds": 0.2,
    }
    with RunningServer(settings.model_copy(update=bounds), dsn, worker=False) as running:
        yield running


@contextmanager
def asking(person: Person, path: str, **options: Any) -> Iterator[Future[httpx.Response]]:
    """Send a request that waits; the block begins when it does."""
    before = held()
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(person.get, path, **options)
        eventually(lambda: held() > before or answer.done(), "the wait")
        yield answer


def held() -> int:
    """The number of open streams and waiting requests of these tests' servers."""
    return int(STREAMS.of().value)


def ids(answer: httpx.Response) -> list[int]:
    assert answer.status_code == 200, answer.text
    return [change["id"] for change in answer.json()]


class Listener(Watcher):
    """A client of a stream of changes."""

    @property
    def told(self) -> list[tuple[str, dict[str, Any]]]:
        """The events with their data."""
        text = "\n".join([*self.lines, ""])
        return [(name, json.loads(data)) for name, data in re.findall(r"event: (\w+)\ndata: (.*)\n", text)]

    @property
    def numbers(self) -> list[int]:
        return [data["id"] for name, data in self.told if name == "change"]

    def has(self, *numbers: int) -> None:
        """Wait until exactly these changes have arrived."""
        eventually(lambda: self.numbers == list(numbers), f"{numbers}, beside {self.lines[-9:]}")


@contextmanager
def listening(person: Person, query: str = "", *, url: str = "", **headers: str) -> Iterator[Listener]:
    client = http_client(base_url=person.client.base_url)
    address = f"{url}/v3/changes{query}" if url else f"/changes{query}"
    try:
        with client.stream("GET", address, headers=person.headers | STREAM | headers) as answer:
            assert answer.status_code == 200, answer.read()
            listener = Listener(answer)
            eventually(lambda: listener.lines, "the beginning of the stream")
            yield listener
            if not listener.end:
                with suppress(OSError):
                    answer.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
                listener.ends()
    finally:
        client.close()


# Long polls


def test_existing_changes_are_returned_at_once(carol: Person) -> None:
    made(carol, 2)
    begun = time.monotonic()
    assert ids(carol.get("/changes?$filter=id gt 1&wait=60")) == [2]
    assert time.monotonic() - begun < DEADLINE / 2


def test_a_request_waits_for_new_changes(carol: Person) -> None:
    """Also for a log that does not exist yet."""
    for number in (1, 2, 3):
        with asking(carol, f"/changes?$filter=id gt {number - 1}&wait=60") as answer:
            made(carol)
            told(carol)
            found = answer.result(DEADLINE)
        assert ids(found) == [number]
        assert (found.headers[EPOCH], found.headers[NEWEST]) == (epoch(carol), str(number))


def test_a_request_waits_until_a_change_matches(carol: Person) -> None:
    made(carol)
    with asking(carol, "/changes?$filter=id gt 1 and kind eq 'car.deleted'&wait=60") as answer:
        made(carol, 2)
        told(carol)
        made(carol, 1, "car.deleted")
        told(carol)
        found = answer.result(DEADLINE)
    assert (ids(found), found.headers[NEWEST]) == ([4], "4")


def test_a_timed_out_request_returns_an_empty_list(carol: Person) -> None:
    made(carol)
    begun = time.monotonic()
    answer = carol.get("/changes?$filter=id gt 1&wait=1")
    assert (ids(answer), answer.headers[NEWEST]) == ([], "1")
    assert time.monotonic() - begun >= 1
    assert carol.call("HEAD", "/changes?$filter=id gt 1&wait=60").status_code == 200


def test_a_client_with_the_current_list_waits_for_a_change(carol: Person) -> None:
    made(carol)
    tag = carol.get("/changes?wait=1").headers["etag"]
    assert carol.get("/changes?wait=1", headers={"If-None-Match": tag}).status_code == 304
    with asking(carol, "/changes?wait=60", headers={"If-None-Match": tag}) as answer:
        made(carol)
        told(carol)
        assert ids(answer.result(DEADLINE)) == [1, 2]


def test_a_waiting_request_finds_unannounced_changes(carol: Person, strict: RunningServer) -> None:
    with asking(carol, f"{strict.url}/v3/changes?wait=60") as answer:
        made(carol)
        assert ids(answer.result(DEADLINE)) == [1]


def test_many_requests_wait_for_the_same_change(carol: Person) -> None:
    made(carol)
    with ThreadPoolExecutor(20) as threads:
        answers = [threads.submit(carol.get, "/changes?$filter=id gt 1&wait=60") for _ in range(20)]
        made(carol, 3)
        told(carol)
        assert [ids(answer.result(DEADLINE)) for answer in answers] == [[2, 3, 4]] * 20


def test_an_invalid_cursor_does_not_wait(carol: Person) -> None:
    made(carol)
    assert carol.get("/changes?$filter=id gt 2&wait=60").status_code == 410


def test_a_new_epoch_ends_a_waiting_request(carol: Person) -> None:
    made(carol)
    with asking(carol, f"/changes?$filter=id gt 1&epoch={epoch(carol)}&wait=60", headers=PROBLEM) as answer:
        carol.sql.execute("update change_log set epoch = gen_random_uuid() where customer_id = $1", carol.customer)
        told(carol)
        problem = answer.result(DEADLINE).json()
    assert (problem["status"], problem["epoch"]) == (410, epoch(carol))


@pytest.mark.parametrize("wait", ["0", "61", "-1", "1.5", "long", ""])
def test_an_invalid_wait_is_rejected(carol: Person, wait: str) -> None:
    problem = carol.get(f"/changes?wait={wait}", headers=PROBLEM).json()
    assert (problem["status"], problem["code"]) == (400, "invalid-query-parameter")
    assert "from 1 to 60" in problem["detail"]


def test_a_revoked_caller_gets_401_instead_of_changes(carol: Person, sql: Sql) -> None:
    made(carol)
    with asking(carol, "/changes?$filter=id gt 1&wait=60") as answer:
        sql.execute("update api_key set revoked_at = now() where name = $1", carol.username)
        assert answer.result(DEADLINE).status_code == 401


def test_shutdown_ends_waiting_requests_and_streams(carol: Person, dsn: str, settings: Settings) -> None:
    made(carol)
    with ExitStack() as stack, RunningServer(settings, dsn, worker=False) as running:
        address = f"{running.url}/v3/changes?$filter=id gt 1&wait=60"
        answer = stack.enter_context(asking(carol, address))
        listener = stack.enter_context(listening(carol, url=running.url))
        listener.has(1)
        running.__exit__()
        assert listener.ends() == "whole"
        assert ids(answer.result(DEADLINE)) == []


# Streams


def test_a_stream_delivers_existing_and_new_changes(carol: Person) -> None:
    made(carol, 250, after={"name": "Car\nof two lines"})
    with listening(carol) as listener:
        assert listener.answer.headers["content-type"] == EVENTS
        assert listener.answer.headers["cache-control"] == "no-store"
        assert (listener.answer.headers[EPOCH], listener.answer.headers[NEWEST]) == (epoch(carol), "250")
        listener.has(*range(1, 251))
        for number in (251, 252):
            made(carol)
            told(carol)
            listener.has(*range(1, number + 1))
        made(carol, 300)
        told(carol)
        listener.has(*range(1, 553))
        assert listener.last_id == f"{epoch(carol)}:552"
        (change,) = carol.get("/changes?$top=1").json()
        assert listener.told[0] == ("change", change)


def test_a_stream_starts_after_a_number(carol: Person) -> None:
    made(carol, 3)
    with listening(carol, f"?$filter=id gt 2&epoch={epoch(carol)}") as listener:
        listener.has(3)
    with listening(carol, "?$filter=id gt 3") as listener:
        made(carol)
        told(carol)
        listener.has(4)


def test_a_stream_of_a_log_without_a_change(carol: Person) -> None:
    with listening(carol) as listener:
        assert EPOCH not in listener.answer.headers
        made(carol)
        told(carol)
        listener.has(1)
        assert listener.last_id == f"{epoch(carol)}:1"
    with listening(carol, **{"Last-Event-ID": ":0"}) as listener:
        listener.has(1)


def test_a_broken_stream_is_resumed(carol: Person) -> None:
    made(carol, 3)
    with listening(carol) as listener:
        listener.has(1, 2, 3)
        last = listener.last_id
    made(carol, 2)
    with listening(carol, "?$filter=id gt 0", **{"Last-Event-ID": last}) as listener:
        listener.has(4, 5)
        last = listener.last_id
    with listening(carol, **{"Last-Event-ID": last}) as listener:
        assert listener.last_id == last
        made(carol)
        told(carol)
        listener.has(6)


def test_a_stream_finds_unannounced_changes(carol: Person, strict: RunningServer) -> None:
    with listening(carol, url=strict.url) as listener:
        made(carol)
        listener.has(1)


def test_idle_streams_get_keep_alives(carol: Person, strict: RunningServer) -> None:
    with listening(carol, url=strict.url) as listener:
        eventually(lambda: listener.lines.count(":") > 2, "signs of life")
        assert listener.told == []


def test_neighbours_hear_nothing(carol: Person, town: Town) -> None:
    other = town.another_fleet(carol)
    with listening(carol) as hers, listening(other) as its:
        made(other, 2)
        told(other)
        its.has(1, 2)
        made(carol)
        told(carol)
        hers.has(1)
        assert hers.last_id != its.last_id


@pytest.mark.parametrize("last", ["nonsense", "{epoch}:7", "{other}:1", "{epoch}:-1", "{epoch}:", "x:1"])
def test_an_invalid_event_id_ends_the_stream(carol: Person, last: str) -> None:
    """A browser that reconnects with the id of `gone` gets 204, and stops."""
    made(carol, 2)
    id = last.format(epoch=epoch(carol), other="5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55")
    with listening(carol, **{"Last-Event-ID": id}) as listener:
        assert listener.ends() == "whole"
        assert listener.told == [("gone", {"epoch": epoch(carol), "oldest": 1, "newest": 2})]
        again = listener.last_id
    assert carol.get("/changes", headers=STREAM | {"Last-Event-ID": again}).status_code == 204


@pytest.mark.parametrize("query", ["?$filter=id gt 3", "?epoch=5f0c1c1e-7c0e-4a55-9a0b-9a2f4d8a1e55"])
def test_an_invalid_cursor_ends_the_stream(carol: Person, query: str) -> None:
    made(carol, 2)
    with listening(carol, query) as listener:
        assert listener.ends() == "whole"
        assert [name for name, _ in listener.told] == ["gone"]


def test_a_new_epoch_ends_the_stream(carol: Person) -> None:
    made(carol)
    with listening(carol) as listener:
        listener.has(1)
        carol.sql.execute("update change_log set epoch = gen_random_uuid() where customer_id = $1", carol.customer)
        told(carol)
        assert listener.ends() == "whole"
        assert listener.told[-1] == ("gone", {"epoch": epoch(carol), "oldest": 1, "newest": 1})


@pytest.mark.parametrize(
    ("query", "parameter"),
    [("$top=1", "$top"), ("wait=5", "wait"), ("$filter=kind eq 'x'", "$filter"), ("top=1", "top"),
     ("$filter=id gt 1 and kind eq 'x'", "$filter"), ("$orderby=id", "$orderby"), ("$select=id", "$select")],
)  # fmt: skip
def test_a_stream_rejects_list_options(carol: Person, query: str, parameter: str) -> None:
    accept = {"Accept": f"{EVENTS}, application/problem+json"}
    problem = carol.get(f"/changes?{query}", headers=accept).json()
    assert (problem["status"], problem["code"]) == (400, NOT_OF_STREAMS.code)
    assert problem["errors"][0]["parameter"] == parameter


@pytest.mark.parametrize(
    ("accept", "streams"),
    [("application/json", False), ("*/*", False), ("text/*", False), ("text/event-stream;q=0", False),
     ("application/json, text/event-stream;q=0.5", False), ("text/event-stream;q=0.5", True)],
)  # fmt: skip
def test_the_accept_header_selects_a_stream(carol: Person, accept: str, streams: bool) -> None:
    answer = carol.call("HEAD", "/changes", headers={"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"] == EVENTS) == (200, streams)
    assert "Accept" in answer.headers["vary"]


def test_http_1_0_knows_no_streams(carol: Person, server: RunningServer) -> None:
    asked = head(carol, "GET", "/v3/changes").replace(b"HTTP/1.1", b"HTTP/1.0")
    with Line(server) as line:
        line.send(asked.replace(b"\r\n", b"\r\nAccept: text/event-stream\r\n", 1))
        reply = line.reply()
    assert (reply.status, reply.text) == (400, str(OLD_HTTP))


def test_a_revoked_caller_loses_the_stream(carol: Person, sql: Sql) -> None:
    with listening(carol) as listener:
        sql.execute("update api_key set revoked_at = now() where name = $1", carol.username)
        assert listener.ends() == "whole"


def test_a_stream_survives_a_lost_database_listener(carol: Person, sql: Sql) -> None:
    with listening(carol) as listener:
        sql.execute(CUT)
        made(carol)
        listener.has(1)


# Limits


def test_waiting_requests_and_streams_are_limited(
    carol: Person, alice: Person, bob: Person, strict: RunningServer
) -> None:
    def ask(person: Person, **headers: str) -> tuple[int, str, str]:
        answer = person.get(f"{strict.url}/v3/changes?$filter=id eq 0&wait=60", headers=headers)
        return answer.status_code, answer.headers["retry-after"], answer.text

    with ExitStack() as stack:
        stack.enter_context(listening(carol, url=strict.url))
        waits = stack.enter_context(asking(carol, f"{strict.url}/v3/changes?wait=60"))
        of_customer = FULL_OF_CUSTOMER.format(most=2, seconds=TRY_AGAIN)
        assert ask(carol) == (429, "10", f'{{"status": "429", "message": "{of_customer}"}}')
        stack.enter_context(listening(alice, url=strict.url))
        assert ask(bob) == (503, "1", str(FULL))
        assert carol.get(f"{strict.url}/v3/changes").status_code == 200
        made(carol)
        assert ids(waits.result(DEADLINE)) == [1]
        stack.enter_context(listening(carol, url=strict.url))


class Proven:
    """The proof of a database without failover."""

    def check(self) -> int:
        return 0

    def assert_current(self, proven: int | None) -> None:
        pass


async def followers(dsn: str, settings: Settings, person: Person, count: int) -> tuple[FeedService, list[FeedFollower]]:
    """Streams of this process that have delivered everything so far."""
    feed = FeedService(await connect(dsn, settings), EventHub(settings, count), settings, Proven())
    found = [
        FeedFollower(feed, person.customer, 1, float("inf"), lambda: asyncio.sleep(0, float("inf")), (None, 0))
        for _ in range(count)
    ]
    for one in found:
        assert (await anext(one)).startswith(b"retry: ")
    return feed, found


async def ended(feed: FeedService, found: list[FeedFollower]) -> None:
    for one in found:
        await one.close()
    await feed.close()
    await feed.db.close()


def test_all_subscribers_share_the_same_bytes(carol: Person, dsn: str, settings: Settings) -> None:
    async def run() -> None:
        feed, found = await followers(dsn, settings, carol, 3)
        coming = [asyncio.ensure_future(anext(one)) for one in found]
        await asyncio.to_thread(eventually, lambda: all(one.is_live for one in found), "the end of the log")
        await asyncio.to_thread(made, carol, 2)
        feed.hear(f"{carol.customer}l")
        first, *others = await asyncio.gather(*coming)
        assert first.count(b"event: change") == 2
        assert all(other is first for other in others)
        await ended(feed, found)

    asyncio.run(run())


def test_the_backlog_of_a_subscriber_is_bounded(carol: Person, dsn: str, settings: Settings) -> None:
    """A client that reads nothing is disconnected, and misses no change when it resumes."""

    async def run() -> None:
        narrow = settings.model_copy(update={"feed_queue_batches": 2, "feed_poll_interval_seconds": 0.05})
        feed, (one,) = await followers(dsn, narrow, carol, 1)
        coming = asyncio.ensure_future(anext(one))
        await asyncio.to_thread(eventually, lambda: one.is_live, "the end of the log")
        await asyncio.to_thread(made, carol, 1)
        had = [await coming]
        await asyncio.to_thread(made, carol, 1_000)
        await asyncio.to_thread(eventually, lambda: not one.is_live, "the end of the stream")
        had += [body async for body in one]
        numbers = [int(found) for found in re.findall(rb"id: \S+:(\d+)\nevent: change", b"".join(had))]
        assert numbers == list(range(1, len(numbers) + 1)) and len(numbers) == 201
        last = {"lastId": f"{epoch(carol)}:201"}
        assert had[-1].decode() == f"event: slow\ndata: {json.dumps(last)}\n\n"
        await ended(feed, [one])

    asyncio.run(run())
