"""B3: idle connections to a process with a low limit of open files."""

from __future__ import annotations

import json
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx

from tests.abuse.conftest import Figures
from tests.support.people import Person
from tests.support.servers import Process

IDLE = 260


def test_a_client_is_served_beside_idle_connections(figures: Figures, dsn: str, alice: Person) -> None:
    env = {"KEYRACK_DATABASE_URL": dsn}
    process = Process("serve", "--port", "0", "--json", env=env, files="-n 200")
    try:
        assert process.popen.stdout is not None
        url = json.loads(process.popen.stdout.readline())["url"]
        served, slowest = 0, 0.0
        with ExitStack() as stack:
            for _ in range(IDLE):
                stack.enter_context(socket.create_connection(("127.0.0.1", urlsplit(url).port or 0), timeout=10))
            for _ in range(100):
                started = time.monotonic()
                served += httpx.get(f"{url}/cars", headers=alice.headers, timeout=10).status_code == 200
                slowest = max(slowest, time.monotonic() - started)
    finally:
        process.stop()
    assert process.popen.stderr is not None
    said = process.popen.stderr.read().count("connection limit reached")
    figures.at_least(f"B3 requests of 100 that are served beside {IDLE} idle connections", served, "", 100)
    figures.at_most(f"B3 slowest of them beside {IDLE} idle connections", slowest, "s", 1)
    figures.at_least("B3 warnings in the log", said, "", 1)
    figures.at_most("B3 warnings in the log, at most one a minute", said, "", 2)
