"""Clients that do not read their responses are disconnected, and their work is cancelled."""

from __future__ import annotations

import asyncio
import re
import socket
import time
from collections.abc import Iterator

import asyncpg
import pytest

from keyrack.core.settings import Settings
from tests.http.test_hostile_input import Line, head
from tests.support.people import Person, Town, web
from tests.support.servers import RunningServer, Sql, eventually

FAST = {"slow_client_seconds": 0.3, "min_client_read_bytes_per_second": 1_000_000}


@pytest.fixture(scope="module")
def heavy(town: Town) -> Person:
    """A fleet whose list does not fit into the buffers of a connection."""
    person = town.person("hector")
    person.execute_unrecorded(
        "insert into car (customer_id, name, description) select $1, 'Heavy', repeat(chr(128512), 4000)"
        " from generate_series(1, 1000)",
    )
    return person


def reader(port: int) -> socket.socket:
    """A connection with a small receive buffer."""
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
    line.settimeout(15)
    line.connect(("127.0.0.1", port))
    return line


def everything(line: socket.socket) -> bytes:
    """Return all bytes until the connection ends or is reset."""
    parts: list[bytes] = []
    try:
        while part := line.recv(65_536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize("order", ["", "?$orderby=brand"], ids=["pieces", "file"])
def test_a_client_that_reads_nothing_is_disconnected(
    heavy: Person, dsn: str, settings: Settings, order: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """B2: a client that reads too slowly gets a visibly incomplete response. The log has an event."""
    said: list[str] = []
    with RunningServer(settings.model_copy(update=FAST), dsn, worker=False) as running, reader(running.port) as line:
        line.sendall(head(heavy, "GET", f"/v3/cars{order}"))
        eventually(
            lambda: said.append("".join(capfd.readouterr())) or "slow client disconnected" in "".join(said), "the log"
        )
        answer = everything(line)
    assert answer.startswith(b"HTTP/1.1 200 ")
    assert not answer.endswith(b"0\r\n\r\n")
    if length := re.search(rb"content-length: (\d+)", answer):
        assert len(answer.partition(b"\r\n\r\n")[2]) < int(length[1])


def test_a_client_that_pauses_but_reads_enough_is_served(heavy: Person, dsn: str, settings: Settings) -> None:
    """B2: pauses alone do not disconnect. The response takes longer than the window, at a low rate that suffices."""
    bounds = settings.model_copy(update={"slow_client_seconds": 1, "min_client_read_bytes_per_second": 1_000})
    taken = 0
    with RunningServer(bounds, dsn, worker=False) as running, reader(running.port) as line:
        line.sendall(head(heavy, "GET", "/v3/cars", "Connection: close"))
        while part := line.recv(262_144):
            taken += len(part)
            time.sleep(len(part) / 12_000_000)
    assert taken > 16_000_000


def test_the_write_buffers_of_all_clients_are_limited(
    heavy: Person, dsn: str, settings: Settings, capfd: pytest.CaptureFixture[str]
) -> None:
    """B2: above the limit, the client that has waited longest is disconnected. The newest are served."""
    bounds = {"max_write_buffer_bytes": 1_000_000}
    with RunningServer(settings.model_copy(update=bounds), dsn, worker=False) as running:
        lines = [reader(running.port) for _ in range(8)]
        try:
            for line in lines:
                line.sendall(head(heavy, "GET", "/v3/cars"))
            said: list[str] = []
            event = "slowest client disconnected"
            eventually(lambda: said.append("".join(capfd.readouterr())) or event in "".join(said), "the log")
            (told,) = [line for line in "".join(said).splitlines() if event in line][:1]
            (port,) = re.findall(r"127\.0\.0\.1:(\d+)", told)
            (cut,) = [line for line in lines if line.getsockname()[1] == int(port)]
            assert not everything(cut).endswith(b"0\r\n\r\n")
            assert len(web().get(f"{running.url}/v3/cars", headers=heavy.headers).json()) == 1000
        finally:
            for line in lines:
                line.close()


@pytest.fixture
def slow_to_answer(dsn: str, heavy: Person) -> Iterator[None]:
    """Block all reads of cars within the context."""
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(dsn))
    transaction = connection.transaction()
    loop.run_until_complete(transaction.start())
    loop.run_until_complete(connection.execute("lock table car in access exclusive mode"))
    yield
    loop.run_until_complete(transaction.rollback())
    loop.run_until_complete(connection.close())
    loop.close()


WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like $1"


def test_a_read_of_a_disconnected_client_is_cancelled(
    heavy: Person, dsn: str, settings: Settings, sql: Sql, slow_to_answer: None
) -> None:
    """B2: the statement is cancelled in the database, too. A write runs to its end."""
    patient = {"lock_timeout_seconds": 60, "statement_timeout_seconds": 60, "shutdown_timeout_seconds": 1}
    with RunningServer(settings.model_copy(update=patient), dsn, worker=False) as running:
        with Line(running) as line:
            line.send(head(heavy, "GET", "/v3/cars"))
            eventually(lambda: sql.value(WAITING, "%string_agg%") == 1, "the read")
            body = b'{"name": "Written"}'
            with Line(running) as other:
                kind = "Content-Type: application/json"
                other.send(head(heavy, "PUT", "/v3/cars", kind, f"Content-Length: {len(body)}") + body)
                eventually(lambda: sql.value(WAITING, "%insert into car%") == 1, "the write")
        eventually(lambda: sql.value(WAITING, "%string_agg%") == 0, "the end of the read")
        assert sql.value(WAITING, "%insert into car%") == 1
