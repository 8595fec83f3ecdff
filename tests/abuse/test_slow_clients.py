"""B2: a response of a million cars, and clients that request it and do not read."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.abuse.conftest import Figures
from tests.support.people import Person, Town, web
from tests.support.servers import Process, Sql, eventually

CARS = 1_000_000
BACKENDS = "select pid from pg_stat_activity where datname = current_database() and application_name = 'keyrack'"
BUSY = "select count(*) from pg_stat_activity where application_name = 'keyrack' and state <> 'idle'"


def private(pid: int) -> float:
    """Megabytes of private memory of a process, without the database's shared buffers."""
    try:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return 0.0
    return int(found[1]) / 1024 if found else 0.0


class Growth:
    """The maximum growth of the server and of a backend within the context."""

    def __init__(self, server: int, dsn: str) -> None:
        self._server = server
        self._sql = Sql(dsn)
        self._first = private(server)
        self._backends: dict[int, float] = {}
        self.server = self.backend = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self.server = max(self.server, private(self._server) - self._first)
            for row in self._sql.rows(BACKENDS):
                memory = private(row["pid"])
                self.backend = max(self.backend, memory - self._backends.setdefault(row["pid"], memory))

    def __enter__(self) -> Growth:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._sql.close()


@pytest.fixture(scope="module")
def million(town: Town, sql: Sql) -> Person:
    person = town.person("million")
    for part in range(0, CARS, 20_000):  # the statement timeout is five seconds
        sql.execute(
            "insert into car (customer_id, name, description, vin, license_plate, brand)"
            " select $1, 'Car ' || n % 1000, 'A car of the fleet, number ' || n,"
            " case when n % 5 > 0 then 'VIN' || n end, case when n % 3 > 0 then 'K-' || n end, 'Brand ' || n % 9"
            " from generate_series($2::int, $2 + 19999) n",
            person.customer,
            part,
        )
    sql.execute("analyze car")
    return person


@contextmanager
def served(dsn: str, **more: str) -> Iterator[tuple[str, int]]:
    env = {
        "KEYRACK_DATABASE_URL": dsn,
        "KEYRACK_STATEMENT_TIMEOUT_SECONDS": "60",
        **more,
    }  # independent of other load on the machine
    process = Process("serve", "--port", "0", "--no-worker", "--json", env=env)
    try:
        assert process.popen.stdout is not None
        yield json.loads(process.popen.stdout.readline())["url"], process.popen.pid
    finally:
        process.stop()


@pytest.mark.parametrize(
    ("what", "query", "coding"),
    [
        ("by id", "", "identity"),
        ("by name", "$orderby=name", "identity"),
        ("by vin, descending", "$orderby=vin desc", "identity"),
        ("by brand, from a file", "$orderby=brand", "identity"),
        ("by id, in gzip", "", "gzip"),
        ("by brand, from a file in gzip", "$orderby=brand", "gzip"),
    ],
)
def test_a_million_cars_use_limited_memory(
    figures: Figures, million: Person, dsn: str, what: str, query: str, coding: str
) -> None:
    with served(dsn) as (url, pid):
        warm(url, million, query)
        unpacker = zlib.decompressobj(wbits=31)
        rows, size, started = 0, 0, time.monotonic()
        with Growth(pid, dsn) as growth, web().stream(
            "GET", f"{url}/cars?{query}", headers=million.headers | {"Accept-Encoding": coding}, timeout=120
        ) as answer:  # fmt: skip
            assert answer.status_code == 200
            for part in answer.iter_raw(1_000_000):
                plain = unpacker.decompress(part) if coding == "gzip" else part
                rows += plain.count(b"\n")  # one line end before each row but the first
                size += len(plain)
        figures.at_least(f"B2 rows of a million cars {what}", rows + 1, "rows", CARS)
        figures.at_most(f"B2 growth of the server, a million cars {what}", growth.server, "MB", 50)
        figures.at_most(f"B2 growth of a backend, a million cars {what}", growth.backend, "MB", 50)
        figures.at_least(f"B2 pace of a million cars {what}", size / 1e6 / (time.monotonic() - started), "MB/s", 1)


def warm(url: str, person: Person, query: str = "") -> None:
    """Send requests first, so that one-time memory is not counted."""
    for _ in range(7):
        assert httpx.get(f"{url}/cars?$top=1001&{query}", headers=person.headers, timeout=120).status_code == 200


def unread(url: str, person: Person, query: str, coding: str) -> socket.socket:
    """Open a connection that sends a request and does not read."""
    fields = "".join(f"{name}: {value}\r\n" for name, value in person.headers.items())
    parts = urlsplit(url)
    line = socket.socket()
    # otherwise the client's kernel buffers megabytes of gzip
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    line.settimeout(60)
    line.connect((parts.hostname or "", parts.port or 0))
    fields += f"Accept-Encoding: {coding}\r\n"
    line.sendall(f"GET /v3/cars{query} HTTP/1.1\r\nHost: x\r\n{fields}\r\n".encode())
    return line


@pytest.mark.parametrize("coding", ["identity", "gzip"])
def test_clients_that_do_not_read_delay_no_bystander(
    figures: Figures, million: Person, dsn: str, sql: Sql, town: Town, coding: str
) -> None:
    bystander = town.person("bystander")
    what = "20 clients that do not read" + (", in gzip" if coding == "gzip" else "")
    with served(dsn, KEYRACK_SLOW_CLIENT_SECONDS="5") as (url, pid), ExitStack() as stack:
        warm(url, million)
        with Growth(pid, dsn) as growth:
            for _ in range(20):
                stack.enter_context(unread(url, million, "", coding))
            eventually(lambda: not any(sql.value(BUSY) for _ in range(500)), "an end of the statements")
            time.sleep(1)
            figures.at_most("B2 statements under way while 20 clients do not read", sql.value(BUSY), "", 0)
            assert httpx.get(f"{url}/cars", headers=bystander.headers).json() == []
        figures.at_most(f"B2 growth of the server, {what}", growth.server, "MB", 50)
        started = time.monotonic()
        connections = f"/proc/{pid}/net/tcp"
        eventually(lambda: ended(connections, url) == 0, "their being cut off")
        figures.at_most(f"B2 time until {what} are cut off, after 5 s are allowed", time.monotonic() - started, "s", 10)


def ended(table: str, url: str) -> int:
    """The number of established connections to the server's port."""
    port = f"{urlsplit(url).port or 0:04X}"
    rows = [line.split() for line in Path(table).read_text().splitlines()[1:]]
    return sum(row[1].endswith(":" + port) and row[3] == "01" for row in rows)
