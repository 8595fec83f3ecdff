"""Deliveries: safe addresses, limits, order per lane, fairness between endpoints, and no losses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from standardwebhooks import Webhook

from keyrack.core.settings import Settings
from keyrack.core.ssrf_guard import Guard
from keyrack.db.connection import Connection
from keyrack.db.transaction_database import InTransaction
from keyrack.webhooks import cleanup, outbox
from keyrack.webhooks.delivery_errors import NOT_REACHED
from keyrack.webhooks.delivery_queue import EndpointThrottle, backoff
from keyrack.webhooks.sender import DeliveryAttempt, Sender
from keyrack.webhooks.signatures import signature_headers
from tests.support.servers import DEADLINE, Process, eventually
from tests.webhooks.delivery_database import LOCAL, SECRET, Office, plain_request
from tests.webhooks.receiver import Received, Receiver

pytestmark = pytest.mark.cluster

PATIENT = LOCAL.model_copy(update={"webhook_timeout": 60})


def send(url: str, settings: Settings = PATIENT, secret: str | None = None) -> DeliveryAttempt:
    async def main() -> DeliveryAttempt:
        sender = Sender(settings)
        try:
            return await sender.send(plain_request(url, '{"a": "\u00e9"}', secret))
        finally:
            await sender.close()

    return asyncio.run(main())


# Dialled addresses


DISGUISES = [
    "http://127.0.0.1:%d/", "http://localhost:%d/", "http://[::ffff:127.0.0.1]:%d/", "http://2130706433:%d/",
    "http://0x7f.1:%d/", "http://0.0.0.0:%d/", "http://127.1:%d/", "http://[::ffff:7f00:1]:%d/",
    "http://[64:ff9b::7f00:1]:%d/", "http://[::1]:%d/",
]  # fmt: skip


@pytest.mark.parametrize("url", DISGUISES)
def test_no_form_of_a_private_address_is_dialled(url: str) -> None:
    with Receiver() as receiver:
        attempt = send(url % receiver.port, Settings())
        assert not attempt.succeeded and attempt.status is None and attempt.error
        assert receiver.got == []


def test_the_guard_judges_the_resolved_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard judges the dialled address, whatever the name server returned before."""
    real = socket.getaddrinfo

    def rebound(host: str, *args: Any, **options: Any) -> Any:
        return real("10.1.2.3" if host == "public.example" else host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", rebound)
    attempt = send("http://public.example/", Settings())
    assert attempt.error == NOT_REACHED.text
    assert "10.1.2.3 is not public and not in KEYRACK_WEBHOOK_ALLOWED_NETWORKS" in (attempt.hidden or "")


@pytest.mark.parametrize(
    ("address", "allowed", "expected"),
    [
        ("93.184.216.34", "", True),
        ("2606:2800:220:1::1", "", True),
        ("10.0.0.1", "", False),
        ("10.0.0.1", "10.0.0.0/8", True),
        ("::ffff:10.0.0.1", "10.0.0.0/8", True),
        ("10.0.0.1", "192.168.0.0/16, 10.0.0.1", True),
        ("169.254.169.254", "", False),
        ("100.64.0.1", "", False),
        ("224.0.0.1", "", False),
        ("255.255.255.255", "", False),
        ("fd00::1", "", False),
        ("fe80::1%eth0", "", False),
        ("2002:7f00:1::", "", False),
        ("2002:7f00:1::", "127.0.0.0/8", True),
        ("64:ff9b::a00:1", "", False),
    ],
)
def test_allowed_and_forbidden_addresses(address: str, allowed: str, expected: bool) -> None:
    assert Guard(Settings(webhook_allowed_networks=allowed)).may_dial(address) is expected


def test_no_redirect_is_followed() -> None:
    with Receiver() as inside, Receiver(lambda _: (302, b"", {"Location": inside.url + "/inside"})) as outside:
        attempt = send(outside.url)
        assert (attempt.status, attempt.succeeded, inside.got) == (302, False, [])


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        assert send(receiver.url).succeeded
        assert (len(proxy.got), len(receiver.got)) == (0, 1)


# Answers


@contextlib.contextmanager
def raw_server(script: Any) -> Iterator[str]:
    """A server that runs `script` on each connection."""
    listener = socket.create_server(("127.0.0.1", 0))

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(65536)
            script(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    finally:
        listener.close()


def endless(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")


def test_an_endless_answer_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    with raw_server(endless) as url:
        attempt = send(url)
        assert attempt.succeeded and attempt.answer == "x" * 1_000  # the sender did not wait until the timeout


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (lambda c: c.close(), "The endpoint closed the connection without an answer."),
        (lambda c: c.sendall(b"nonsense\r\n\r\n"), "The endpoint's answer is not valid HTTP."),
        (lambda c: c.sendall(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000), "The endpoint's answer is not valid HTTP."),
    ],
)
def test_a_bad_answer_is_a_failed_attempt(script: Any, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "is_public", lambda *_: True)
    with raw_server(script) as url:
        attempt = send(url)
        assert not attempt.succeeded and (attempt.error, attempt.hidden) == (said, None)


def test_no_answer_is_a_failed_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Guard, "is_public", lambda *_: True)
    over = threading.Event()
    with raw_server(lambda c: over.wait(DEADLINE)) as url:
        attempt = send(url, LOCAL.model_copy(update={"webhook_timeout": 0.3}))
        over.set()
    assert not attempt.succeeded and attempt.error == "The endpoint did not answer in time."


def test_retry_after_in_both_forms() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    for text, low, high in (("7", 7, 7), (later, 80, 91), ("soon", None, None), ("-1", None, None)):
        with Receiver(lambda _, text=text: (503, b"", {"Retry-After": text})) as receiver:
            wait = send(receiver.url).retry_after
            assert wait == low if low is None else low <= (wait or 0) <= (high or 0)


def test_backoff_is_full_jitter_under_a_doubling_bound() -> None:
    settings = Settings()
    failed = DeliveryAttempt(datetime.now(UTC), 1, 500)
    for failures, bound in ((0, 5), (1, 10), (5, 160), (12, 20_480), (13, 21_600), (100, 21_600)):
        waits = [backoff(settings, failures, failed) for _ in range(400)]
        assert 0 <= min(waits) < bound * 0.1 and bound * 0.9 < max(waits) <= bound
    asked = DeliveryAttempt(datetime.now(UTC), 1, 429, retry_after=1_000.0)
    assert 1_000 <= backoff(settings, 0, asked) <= 1_000
    assert backoff(settings, 0, DeliveryAttempt(datetime.now(UTC), 1, 503, retry_after=1e9)) == 21_600


def test_a_failing_endpoint_gets_a_smaller_share_until_a_success() -> None:
    pace, ok, bad = (
        EndpointThrottle(),
        DeliveryAttempt(datetime.now(UTC), 1, 200),
        DeliveryAttempt(datetime.now(UTC), 1, 500),
    )
    shares = []
    for _ in range(7):
        shares.append(pace.share(20, time.monotonic()))
        pace.learn(bad)
    assert shares[:5] == [20, 10, 5, 2, 1]
    assert pace.share(20, time.monotonic()) == 0
    assert pace.share(20, time.monotonic() + 10) == 1
    pace.learn(ok)
    assert pace.share(20, time.monotonic()) == 20


def test_a_slow_endpoint_gets_a_smaller_share_until_it_is_quick() -> None:
    """B4: the share of a receiver follows its latency."""

    def shares(*milliseconds: int) -> list[int]:
        pace, found = EndpointThrottle(), list[int]()
        for duration in milliseconds:
            pace.learn(DeliveryAttempt(datetime.now(UTC), duration, 204))
            found.append(pace.share(20, time.monotonic()))
        return found

    assert shares(5, 900, 1_000) == [20, 20, 20]
    assert shares(2_000, 2_000) == [10, 10]
    assert shares(13_000, 13_000, 60_000) == [1, 1, 1]
    assert shares(13_000, 5, 5, 5, 5) == [1, 3, 6, 12, 20]
    busy = EndpointThrottle(sending=3)
    assert busy.share(20, 0.0) == 17
    busy.learn(DeliveryAttempt(datetime.now(UTC), 5_000, 204))
    assert busy.share(20, time.monotonic()) == 1


def test_the_npm_package_verifies_signatures(tmp_path: Path) -> None:
    """A receiver in JavaScript that uses the npm package `standardwebhooks`."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed")
    command = ["npm", "install", "--no-audit", "--no-fund", "--silent", "standardwebhooks@1"]
    try:
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True, timeout=60)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"npm could not install standardwebhooks: {error}")
    (tmp_path / "verify.cjs").write_text(
        """
const { Webhook } = require("standardwebhooks");
const { body, headers, secrets } = JSON.parse(require("fs").readFileSync(0, "utf8"));
for (const secret of secrets) {
  try { console.log(new Webhook(secret).verify(body, headers).a); } catch (error) { console.log(error.message); }
}
"""
    )
    other = "whsec_" + "B" * 43 + "="
    body = '{"a": "gr\u00fc\u00df"}'
    headers = signature_headers(body, "msg_1", [SECRET, other], datetime.now(UTC))
    told = json.dumps({"body": body, "headers": headers, "secrets": [SECRET, other, "whsec_" + "C" * 43 + "="]})
    run = subprocess.run(
        ["node", "verify.cjs"], cwd=tmp_path, input=told, capture_output=True, text=True, timeout=DEADLINE
    )
    assert run.stdout.splitlines() == ["gr\u00fc\u00df", "gr\u00fc\u00df", "No matching signature found"], run.stderr


def test_the_api_does_not_load_the_http_client() -> None:
    code = "import sys, keyrack.http.app, keyrack.server.worker; sys.exit('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Workers


def in_order(got: list[Received]) -> bool:
    """Whether the first requests of each lane's messages arrived in order."""
    newest: dict[int, int] = {}
    seen: set[str] = set()
    for request in got:
        if request.headers["webhook-id"] in seen:
            continue
        seen.add(request.headers["webhook-id"])
        lane, number = request.payload["lane"], request.payload["n"]
        if number != newest.get(lane, 0) + 1:
            return False
        newest[lane] = number
    return True


def test_a_lane_keeps_its_order_despite_failures(own: str) -> None:
    async def main() -> None:
        numbers = iter(range(10**9))

        def answer(_: Received) -> Any:
            turn = next(numbers) % 5
            return None if turn == 1 else (500, b"", {}) if turn == 3 else (200, b"", {})

        with Receiver(answer) as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                for lane in range(1, 11):
                    await office.deliver(webhook, lane, 10)
                async with office.worker(), office.worker():
                    await office.drained()
                assert await office.count("Delivered") == 100
                assert len({request.headers["webhook-id"] for request in receiver.got}) == 100
                assert in_order(receiver.got)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["silent", "refusing"])
def test_a_dead_endpoint_does_not_delay_others(own: str, how: str) -> None:
    async def main() -> None:
        with Receiver() as receiver, raw_server(lambda c: time.sleep(120)) as silent:
            async with Office.open(own) as office:
                dead = await office.webhook(silent if how == "silent" else "http://127.0.0.1:1/")
                for lane in range(1, 301):
                    await office.deliver(dead, lane)
                # An attempt takes longer than the whole test may, so nothing would be sent behind the running attempts
                async with office.worker(webhook_timeout=120):
                    tried = "select count(*) > 0 from delivery_lane where lease is not null"
                    await office.until("the dead one's turn", tried if how == "silent" else "select true", True)
                    alive = await office.webhook(receiver.url)
                    for lane in range(1, 31):
                        await office.deliver(alive, lane)
                        delivered = "select count(*)::int from delivery where state = 'Delivered'"
                        await office.until("delivered", delivered, lane)
                assert await office.count("Waiting") == 300

    asyncio.run(main())


def test_a_delivery_that_fails_too_long_is_dead_and_frees_its_lane(own: str) -> None:
    async def main() -> None:
        broken = True
        with Receiver(lambda _: (500 if broken else 200, b"", {})) as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                await office.deliver(webhook, 1, 2)
                async with office.worker(webhook_retry_for=0.5):
                    await office.until("dead", "select count(*) from delivery where state = 'Dead'", 2)
                    await office.drained()
                    rows = await office.sql.fetch("select * from delivery order by applied")
                    assert all(row["attempts"] >= 1 and row["error"] and not row["next_attempt_at"] for row in rows)
                    first = rows[0]["delivery_id"]
                    broken = False
                    statements = Connection(office.sql)
                    assert await outbox.replay(statements, 1, webhook, first)
                    assert not await outbox.replay(statements, 2, webhook, first)
                    await office.until("sent", "select count(*) from delivery where state = 'Delivered'", 1)
                assert receiver.got[-1].payload["n"] == 1

    asyncio.run(main())


def test_retry_after_applies_to_the_whole_endpoint(own: str) -> None:
    async def main() -> None:
        came: list[float] = []

        def answer(_: Received) -> Any:
            came.append(time.monotonic())
            return (429, b"", {"Retry-After": "3"}) if len(came) == 1 else (200, b"", {})

        with Receiver(answer) as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                await office.deliver(webhook, 1)
                async with office.worker(webhook_retry_max=10.0, webhook_timeout=60):
                    await office.until("refused", "select count(*)::int from delivery where attempts > 0", 1)
                    for lane in range(2, 6):
                        await office.deliver(webhook, lane)
                    await office.drained()
                assert len(came) == 6
                assert all(later - came[0] >= 2 for later in came[1:])

    asyncio.run(main())


def test_retry_after_stops_lanes_that_are_being_sent(own: str) -> None:
    """The success of an earlier attempt does not end the rest."""

    async def main() -> None:
        busy_answered = threading.Event()

        def answer(request: Received) -> Any:
            if request.payload["lane"] == 1 and request.payload["n"] == 1:
                assert busy_answered.wait(DEADLINE)
            elif request.payload["lane"] == 2 and len(receiver.got) == 2:
                return 429, b"", {"Retry-After": "3"}
            return 200, b"", {}

        with Receiver(answer) as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                await office.deliver(webhook, 1, 2)
                async with office.worker(webhook_retry_max=10.0, webhook_timeout=60):
                    await asyncio.to_thread(eventually, lambda: receiver.got)
                    await office.deliver(webhook, 2)
                    await office.until("refused", "select count(*)::int from delivery where attempts > 0", 1)
                    busy_answered.set()
                    await office.drained()
                assert [request.payload["lane"] for request in receiver.got[:2]] == [1, 2]
                assert len(receiver.got) == 4
                assert all(later.at - receiver.got[1].at >= 2 for later in receiver.got[2:])

    asyncio.run(main())


def test_an_expired_lease_is_taken_over(own: str) -> None:
    """Another worker delivers what a killed worker had claimed."""

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                await office.deliver(webhook, 7)
                held = "update delivery_lane set lease = now() + '1 second', due_at = now() + '1 second'"
                begin = time.monotonic()
                await office.sql.execute(held)
                async with office.worker(webhook_timeout=60):
                    await office.drained()
                assert time.monotonic() - begin > 0.9
                assert len(receiver.messages()) == 1

    asyncio.run(main())


def test_a_stopped_worker_releases_its_lanes(own: str) -> None:
    async def prepare(url: str) -> None:
        async with Office.open(own) as office:
            webhook = await office.webhook(url)
            for lane in range(1, 6):
                await office.deliver(webhook, lane)

    async def left() -> tuple[int, int]:
        connection = await asyncpg.connect(own)
        try:
            due = await connection.fetchval("select count(*) from delivery_lane where due_at <= now()")
            return due, await connection.fetchval("select count(*) from delivery_lane where lease is not null")
        finally:
            await connection.close()

    with raw_server(lambda c: time.sleep(30)) as silent:
        asyncio.run(prepare(silent))
        worker = Process("work", env={"KEYRACK_DATABASE_URL": own, "KEYRACK_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"})
        try:
            eventually(lambda: asyncio.run(left())[1] == 5, "the claims")
            assert worker.stop(signal.SIGTERM) == 0
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker.popen.pid, signal.SIGKILL)
            worker.popen.communicate()
        assert asyncio.run(left()) == (5, 0)


def test_workers_recover_from_lost_connections(own: str) -> None:
    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                async with office.worker():
                    for lane in range(1, 41):
                        await office.deliver(webhook, lane)
                        if lane % 10 == 0:
                            await office.sql.execute(
                                "select pg_terminate_backend(pid) from pg_stat_activity"
                                " where datname = current_database() and pid <> pg_backend_pid()"
                            )
                    await office.drained()
                assert await office.count("Delivered") == 40

    asyncio.run(main())


def test_the_signature_covers_the_sent_bytes() -> None:
    with Receiver() as receiver:
        assert send(receiver.url, secret="open sesame").succeeded
        request = receiver.got[0]
        assert request.headers["secret"] == "open sesame"
        assert Webhook(SECRET).verify(request.body, request.headers) == {"a": "\u00e9"}


def test_old_rows_are_deleted_unless_they_wait(own: str) -> None:
    async def main() -> None:
        async with Office.open(own) as office:
            hook = await office.webhook("https://example.org/")
            await office.deliver(hook, 1, 4)
            await office.sql.execute(
                "update delivery set created_at = now() - interval '31 days', since = now() - interval '31 days',"
                " state = (array['Waiting', 'Delivered', 'Dead', 'Delivered'])[(payload::jsonb->>'n')::integer],"
                " attempted_at = case when payload::jsonb->>'n' = '4' then now() end"  # the last one was replayed
            )
            await office.sql.execute(
                "insert into operation (customer_id, kind, car_id, request, checksum, state, finished_at)"
                " select 1, 'DeleteAssignment', 1, '{}', '', 'Succeeded', now() - n * interval '1 day'"
                " from generate_series(80, 99) n"
            )
            database = InTransaction(Connection(office.sql))
            await cleanup.deliveries(database, Settings())
            await cleanup.operations(database, Settings())
            counts = [await office.count(state) for state in ("Waiting", "Delivered", "Dead")]
            assert counts == [1, 1, 0]
            assert await office.sql.fetchval("select count(*) from operation") == 10
            await office.sql.execute("update webhook set is_enabled = false")
            await cleanup.disabled_webhooks(database, Settings())
            assert await office.count("Waiting") == 1  # the webhook may be enabled again
            await office.sql.execute("update webhook set disabled_at = now() - interval '73 hours'")
            await cleanup.disabled_webhooks(database, Settings())
            assert (await office.count("Waiting"), await office.count("Dead")) == (0, 1)

    asyncio.run(main())


def test_a_backlog_is_sent_without_a_pause(own: str) -> None:
    """No poll helps a worker that misses a place becoming free."""

    async def main() -> None:
        with Receiver() as receiver:
            async with Office.open(own) as office:
                webhook = await office.webhook(receiver.url)
                for lane in range(1, 401):
                    await office.deliver(webhook, lane)
                async with office.worker(worker_poll=300.0, webhook_per_endpoint=5), office.worker(worker_poll=300.0):
                    await office.drained()
                assert len(receiver.messages()) == 400

    asyncio.run(main())
