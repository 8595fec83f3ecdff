"""B1: small bodies that expand: the server's memory and its response."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from tests.abuse.conftest import Figures
from tests.support.people import Person
from tests.support.servers import Process, eventually, free_port
from tests.telemetry.endpoints.test_ingest import Unit, unit_of

SIZE = 7_990_000  # bytes, just below KEYRACK_MAX_INGEST
NDJSON, JSON = "application/x-ndjson", "application/json"


@dataclass
class Attacked:
    """A server as a separate process, and a unit that delivers to it."""

    pid: int
    url: str
    unit: Unit

    def memory(self, name: str) -> float:
        """MB of `VmRSS`, or of `VmHWM`, the highest value since the last `forget`."""
        (line,) = [line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith(name)]
        return int(line.split()[1]) / 1024

    def forget(self) -> None:
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def send(self, body: bytes, media_type: str, *, packed: bool = True, path: str = "telemetry") -> httpx.Response:
        headers = {"Device-Key": self.unit.key, "Content-Type": media_type}
        if packed:
            headers["Content-Encoding"] = "gzip"
        return httpx.post(f"{self.url}/ingest/{path}", content=body, headers=headers, timeout=120)


@pytest.fixture
def attacked(request: pytest.FixtureRequest, dsn: str, alice: Person) -> Iterator[Attacked]:
    port = free_port()
    env = {"KEYRACK_DATABASE_URL": dsn, "KEYRACK_LOG_LEVEL": "error", **getattr(request, "param", {})}
    process = Process("serve", "--no-worker", "--port", str(port), "--json", env=env)
    url = f"http://127.0.0.1:{port}"
    try:
        assert process.popen.stdout is not None
        process.popen.stdout.readline()
        found = Attacked(process.popen.pid, url, unit_of(alice))
        good = json.dumps([found.unit.sample(9 - n, odometer=n) for n in range(9)]).encode()
        eventually(lambda: found.send(good, JSON, packed=False).status_code == 200, "the first answer")
        yield found
    finally:
        process.stop()


def attack(figures: Figures, attacked: Attacked, what: str, body: bytes, media_type: str, *, packed: bool) -> None:
    for path in ("telemetry", "events"):
        before = attacked.memory("VmRSS")
        attacked.forget()
        start = time.monotonic()
        answer = attacked.send(body, media_type, packed=packed, path=path)
        seconds = time.monotonic() - start
        assert answer.status_code in (200, 400, 413), answer.text[:200]
        words = f"{what}, {path}"
        figures.at_most(f"B1 memory, {words}", attacked.memory("VmHWM") - before, "MB", 100)
        figures.at_most(f"B1 answer, {words}", len(answer.content) / 1000, "kB", 1_000)
        figures.at_most(f"B1 time, {words}", seconds, "s", 5)


def test_a_small_gzip_body_uses_little_memory(figures: Figures, attacked: Attacked) -> None:
    body = gzip.compress(b"1\n" * (SIZE // 2))
    assert len(body) < 8_000
    attack(figures, attacked, "7.8 kB of gzip", body, NDJSON, packed=True)


# The same and other bodies below the ratio's limit, so that each other limit must act

SHAPES = {
    "lines of a digit": (b"1\n" * (SIZE // 2), NDJSON),
    "blank lines": (b"\n" * SIZE, NDJSON),
    "an array of digits": (b"[" + b"1," * (SIZE // 2 - 2) + b"1]", JSON),
    "an array of objects": (b"[" + b"{}," * (SIZE // 3 - 2) + b"{}]", JSON),
    "a list of lists in a line": (b'{"dtc":[' + b"[]," * (SIZE // 3 - 9) + b"[]]}", NDJSON),
    "a list of lists in an array": (b"[[" + b"[]," * (SIZE // 3 - 9) + b"[]]]", JSON),
    "a deep line": (b"[" * SIZE, JSON),
    "as many lines as there may be": (b"x" * 390 + b"\n", NDJSON),
    "objects of unknown fields": (json.dumps({f"f{n}": 1 for n in range(5_000)}).encode() + b"\n", NDJSON),
}


@pytest.mark.parametrize("attacked", [{"KEYRACK_INGEST_MAX_COMPRESSION_RATIO": "1000000"}], indirect=True)
def test_other_bodies_use_little_memory(figures: Figures, attacked: Attacked) -> None:
    for what, (body, media_type) in SHAPES.items():
        whole = body if len(body) > SIZE // 2 else body * min(20_000, SIZE // len(body))
        attack(figures, attacked, what, gzip.compress(whole, 1), media_type, packed=True)


def test_concurrent_deliveries_use_limited_memory(figures: Figures, attacked: Attacked) -> None:
    """One key sends whole deliveries of rejected lines. Deliveries beyond the limit get 503."""
    start = datetime.now(UTC).isoformat()
    line = json.dumps({"serialNumber": "nobody", "carDataReadTime": start, "vin": "v" * 200}).encode() + b"\n"
    body = line * min(20_000, SIZE // len(line))
    before = attacked.memory("VmRSS")
    attacked.forget()
    with ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda _: attacked.send(body, NDJSON, packed=False), range(30)))
    assert {answer.status_code for answer in answers} <= {200, 503}
    taken = sum(answer.status_code == 200 for answer in answers)
    figures.at_least("B1 deliveries taken of 30 at once of one key", taken, "", 1)
    figures.at_most("B1 memory, 30 deliveries at once of one key", attacked.memory("VmHWM") - before, "MB", 150)
